/// The cost model against tables that were worked out by hand from the papers.
///
/// Conventions (lib/ops/op_def.h): a multiply-add is 2 FLOPs, every other arithmetic operation and
/// every function of one element 1, Softmax 5 per element, comparisons and copies none;
/// BatchNormalization is a scale and a shift. Every operator reads each operand and writes each
/// result once, at 4 bytes an element (8 for token ids and extents); Gather reads what it writes.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "lib/ops/registry.h"
#include "lib/support/strings.h"
#include "tools/zoo/zoo.h"

namespace infer {
namespace {

struct Row {
  double flops = 0, bytes = 0;
};
using Table = std::map<std::string, Row>;

Table OfTool(const std::string& name) {
  const OpRegistry ops = AllOps();
  const Result<Model> m = MakeZooModel(name, {}, ops);
  EXPECT_TRUE(m.ok()) << m.status().message();
  Table t;
  if (!m.ok()) return t;
  for (const auto& n : m->graph.nodes()) {
    const Cost c = CostOf(CallOf(*n));
    Row& row = t[std::string(n->op())];
    row.flops += static_cast<double>(c.flops);
    row.bytes += static_cast<double>(c.bytes_read + c.bytes_written);
  }
  return t;
}

Row Total(const Table& t) {
  Row sum;
  for (const auto& [op, row] : t) {
    sum.flops += row.flops;
    sum.bytes += row.bytes;
  }
  return sum;
}

double Off(double is, double wanted) {
  return wanted == 0 ? (is == 0 ? 0 : INFINITY) : std::abs(is - wanted) / wanted;
}

/// Per operator and in total within 1 %.
void Expect(const std::string& name, const Table& wanted) {
  static constexpr double kMost = 0.01;
  const Table is = OfTool(name);
  std::printf("%-20s %14s %8s %14s %8s\n", name.c_str(), "MFLOP", "off", "MB", "off");
  const auto row = [](const std::string& op, const Row& a, const Row& b) {
    const double flops = Off(a.flops, b.flops), bytes = Off(a.bytes, b.bytes);
    std::printf("%-20s %14.3f %7.3f%% %14.3f %7.3f%%\n", op.c_str(), b.flops / 1e6, 100 * flops,
                b.bytes / 1e6, 100 * bytes);
    EXPECT_LE(flops, kMost) << op << ": " << a.flops << " FLOPs, by hand " << b.flops;
    EXPECT_LE(bytes, kMost) << op << ": " << a.bytes << " bytes, by hand " << b.bytes;
  };
  for (const auto& [op, r] : wanted) row(op, is.contains(op) ? is.at(op) : Row(), r);
  for (const auto& [op, r] : is) EXPECT_TRUE(wanted.contains(op)) << op << " is not in the table";
  row("total", Total(is), Total(wanted));
}

/// A network of square images, batch 1, layer by layer.
class Images {
 public:
  Images(double channels, double size) : c_(channels), n_(size) {}

  /// kernel x kernel convolution without bias, BatchNormalization; "same" padding.
  void ConvNorm(double out, double kernel, double stride = 1, double groups = 1) {
    const double in = Pixels(), weights = out * (c_ / groups) * kernel * kernel;
    n_ = std::floor((n_ - 1) / stride) + 1;
    const double kernels_at = n_ * n_;
    c_ = out;
    Add("Conv", 2 * weights * kernels_at, in + weights + Pixels());
    Add("BatchNormalization", 2 * Pixels(), 2 * Pixels() + 4 * c_);
    parameters_ += weights + 2 * c_;
  }
  /// Max(0, x) or Clip(x, 0, 6) with two scalars.
  void Activation(const std::string& op) { Add(op, 0, 2 * Pixels() + (op == "Clip" ? 2 : 0)); }
  void MaxPool3x3By2() {
    const double in = Pixels();
    n_ = std::floor((n_ - 1) / 2) + 1;
    Add("MaxPool", 0, in + Pixels());
  }
  void AddSkip() { Add("Add", Pixels(), 3 * Pixels()); }
  /// Mean over the image (n - 1 additions and a division), Flatten, fully connected with bias.
  void Classifier(double classes) {
    Add("GlobalAveragePool", Pixels(), Pixels() + c_);
    Add("Flatten", 0, 2 * c_);
    Add("Gemm", classes * (2 * c_ + 1), c_ + c_ * classes + 2 * classes);
    parameters_ += classes * (c_ + 1);
  }
  double channels() const { return c_; }
  double parameters() const { return parameters_; }
  const Table& table() const { return table_; }
  Images Branch() const { return {c_, n_}; }
  void Join(const Images& other) {
    for (const auto& [op, r] : other.table_) Add(op, r.flops, r.bytes / 4);
    parameters_ += other.parameters_;
  }

 private:
  double Pixels() const { return c_ * n_ * n_; }
  void Add(const std::string& op, double flops, double elements) {
    table_[op].flops += flops;
    table_[op].bytes += 4 * elements;
  }
  double c_, n_, parameters_ = 0;
  Table table_;
};

/// He et al. 2015, table 1, column 50 layers; the stride in the 3x3 as everyone has it now (v1.5).
TEST(Cost, ResNet50) {
  Images net(3, 224);
  net.ConvNorm(64, 7, 2);
  net.Activation("Relu");
  net.MaxPool3x3By2();
  const struct {
    double width, blocks, stride;
  } stages[] = {{64, 3, 1}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}};
  for (const auto& stage : stages)
    for (int block = 0; block < stage.blocks; ++block) {
      const double stride = block == 0 ? stage.stride : 1;
      Images skip = net.Branch();
      net.ConvNorm(stage.width, 1);
      net.Activation("Relu");
      net.ConvNorm(stage.width, 3, stride);
      net.Activation("Relu");
      net.ConvNorm(4 * stage.width, 1);
      if (block == 0) {  // the projection
        skip.ConvNorm(4 * stage.width, 1, stride);
        net.Join(skip);
      }
      net.AddSkip();
      net.Activation("Relu");
    }
  net.Classifier(1000);
  EXPECT_EQ(net.parameters(), 25557032);  // as torchvision publishes
  const double products = net.table().at("Conv").flops + net.table().at("Gemm").flops;
  EXPECT_LE(Off(products, 2 * 4.089e9), 0.01) << products;  // 4.089 G multiply-adds, published
  Expect("resnet50", net.table());
}

/// Sandler et al. 2018, table 2.
TEST(Cost, MobileNetV2) {
  Images net(3, 224);
  net.ConvNorm(32, 3, 2);
  net.Activation("Clip");
  const struct {
    double expansion, channels, blocks, stride;
  } table[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  for (const auto& row : table)
    for (int block = 0; block < row.blocks; ++block) {
      const double stride = block == 0 ? row.stride : 1, in = net.channels();
      if (row.expansion != 1) {
        net.ConvNorm(row.expansion * in, 1);
        net.Activation("Clip");
      }
      net.ConvNorm(row.expansion * in, 3, stride, row.expansion * in);
      net.Activation("Clip");
      net.ConvNorm(row.channels, 1);
      if (block > 0) net.AddSkip();
    }
  net.ConvNorm(1280, 1);
  net.Activation("Clip");
  net.Classifier(1000);
  EXPECT_EQ(net.parameters(), 3504872);  // as torchvision publishes
  const double products = net.table().at("Conv").flops + net.table().at("Gemm").flops;
  EXPECT_LE(Off(products, 2 * 300e6), 0.01) << products;  // the paper's 300 M multiply-adds
  Expect("mobilenetv2", net.table());
}

/// Devlin et al. 2018: 12 layers, width 768, 12 heads, 128 tokens. As exported: LayerNormalization
/// is mean, difference, square, mean, + eps, root, quotient, * gamma, + beta; Gelu is
/// x (1 + erf(x / sqrt 2)) / 2.
TEST(Cost, BertBase) {
  constexpr double kLayers = 12, kWidth = 768, kHeads = 12, kTokens = 128, kInner = 4 * kWidth;
  constexpr double kState = kTokens * kWidth, kScores = kHeads * kTokens * kTokens;
  constexpr double kHidden = kTokens * kInner, kNorms = 2 * kLayers + 1;
  Table t;
  const auto add = [&](const char* op, double times, double flops, double elements) {
    t[op].flops += times * flops;
    t[op].bytes += times * 4 * elements;
  };
  // Products: Q, K, V and output; scores and context; the two of the feed-forward part.
  add("MatMul", 4 * kLayers, 2 * kState * kWidth, 2 * kState + kWidth * kWidth);
  add("MatMul", 2 * kLayers, 2 * kScores * (kWidth / kHeads), 2 * kState + kScores);
  add("MatMul", 2 * kLayers, 2 * kState * kInner, kState + kHidden + kWidth * kInner);
  // Biases of these, mask, residuals, Gelu's 1.
  add("Add", 5 * kLayers, kState, 2 * kState + kWidth);
  add("Add", kLayers, kHidden, 2 * kHidden + kInner);
  add("Add", kLayers, kScores, 2 * kScores + kTokens);
  add("Add", 2 * kLayers, kState, 3 * kState);
  add("Add", kLayers, kHidden, 2 * kHidden + 1);
  add("Div", kLayers, kScores, 2 * kScores + 1);
  add("Softmax", kLayers, 5 * kScores, 2 * kScores);
  add("Transpose", 4 * kLayers, 0, 2 * kState);
  add("Reshape", 4 * kLayers, 0, 2 * kState + 2 * 4);
  add("Div", kLayers, kHidden, 2 * kHidden + 1);
  add("Erf", kLayers, kHidden, 2 * kHidden);
  add("Mul", kLayers, kHidden, 3 * kHidden);
  add("Mul", kLayers, kHidden, 2 * kHidden + 1);
  // LayerNormalization.
  add("ReduceMean", 2 * kNorms, kState, kState + kTokens + 2);
  add("Sub", kNorms, kState, 2 * kState + kTokens);
  add("Pow", kNorms, kState, 2 * kState + 1);
  add("Add", kNorms, kTokens, 2 * kTokens + 1);
  add("Sqrt", kNorms, kTokens, 2 * kTokens);
  add("Div", kNorms, kState, 2 * kState + kTokens);
  add("Mul", kNorms, kState, 2 * kState + kWidth);
  add("Add", kNorms, kState, 2 * kState + kWidth);
  // Embeddings of words, types and positions; the mask; the pooler.
  add("Gather", 3, 0, 2 * kState + 2 * kTokens);
  add("Add", 2, kState, 3 * kState);
  add("Unsqueeze", 2, 0, 2 * (2 * kTokens + 1));
  add("Cast", 1, 0, 3 * kTokens);
  add("Sub", 1, kTokens, 2 * kTokens + 1);
  add("Mul", 1, kTokens, 2 * kTokens + 1);
  add("Gather", 1, 0, 2 * kWidth + 2);
  add("Gemm", 1, kWidth * (2 * kWidth + 1), kWidth * (kWidth + 3));
  add("Tanh", 1, kWidth, 2 * kWidth);

  const double layer = 4 * kWidth * (kWidth + 1) + 2 * kWidth * kInner + kInner + kWidth;
  const double parameters =
      (30522 + 512 + 2) * kWidth + kLayers * layer + kNorms * 2 * kWidth + kWidth * (kWidth + 1);
  EXPECT_EQ(parameters, 109482240);  // as Hugging Face publishes
  EXPECT_LE(Off(t["MatMul"].flops, 22.35e9), 0.01);
  Expect("bert-base", t);
}

}  // namespace
}  // namespace infer
