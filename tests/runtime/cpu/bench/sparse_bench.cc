/// sparse_bench [ROUNDS [f32|int8 [PRODUCT]]]: sparse products on one thread beside the dense
/// kernel that the cpu backend chooses for the same product, in turns, with bias and Relu, packing
/// of the operand included; in INT8 both from u8 to u8 as steps of programs, blocks of 16x4. 8 MB
/// are read before each run, so that weights come from further away than L2. Microseconds are
/// medians; `dense / sparse` is the median of the ratios of the turns with its quartiles; `work` is
/// what the choice expects of the ratio.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "lib/ir/editor.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "runtime/cpu/kernels/int8/sparse_bytes.h"
#include "runtime/cpu/kernels/matmul/sparse_choice.h"
#include "runtime/cpu/kernels/matmul/strassen_gemm.h"
#include "tests/runtime/cpu/bench/timing.h"

namespace infer {
namespace {

struct ProductShape {
  const char* name;
  int64_t rows, depth, columns, side;  ///< side 0: a matrix product
  int64_t window = 1;                  ///< of a convolution, in INT8
};
constexpr ProductShape kShapes[] = {
    {"resnet50 64->64 @56", 3136, 64, 64, 56},
    {"resnet50 64->256 @56", 3136, 64, 256, 56},
    {"resnet50 256->64 @56", 3136, 256, 64, 56},
    {"resnet50 128->512 @28", 784, 128, 512, 28},
    {"resnet50 512->128 @28", 784, 512, 128, 28},
    {"resnet50 256->1024 @14", 196, 256, 1024, 14},
    {"resnet50 1024->256 @14", 196, 1024, 256, 14},
    {"resnet50 512->2048 @7", 49, 512, 2048, 7},
    {"resnet50 2048->512 @7", 49, 2048, 512, 7},
    {"bert-base 128x768x768", 128, 768, 768, 0},
    {"bert-base 128x768x3072", 128, 768, 3072, 0},
    {"bert-base 128x3072x768", 128, 3072, 768, 0},
    {"one row 1x768x3072", 1, 768, 3072, 0},
    {"one row 1x2048x1000", 1, 2048, 1000, 0},
    {"rows 4x768x768", 4, 768, 768, 0},
    {"rows 16x768x768", 16, 768, 768, 0},
};

/// In INT8 beside those above.
constexpr ProductShape kWindows[] = {
    {"resnet50 64->64 3x3 @56", 3136, 64, 64, 56, 3},
    {"resnet50 128->128 3x3 @28", 784, 128, 128, 28, 3},
    {"resnet50 256->256 3x3 @14", 196, 256, 256, 14, 3},
    {"resnet50 512->512 3x3 @7", 49, 512, 512, 7, 3},
};

/// The product in f32, its weights dense.
std::string FloatProduct(const ProductShape& s) {
  return s.side > 0 ? Cat("graph g(x: f32[1,", s.depth, ",", s.side, ",", s.side,
                          "]) -> (y) { b = const f32[", s.columns, "] ~2 w = const f32[", s.columns,
                          ",", s.depth, ",1,1] ~1 p = Conv(x, w, b) y = Relu(p) }")
                    : Cat("graph g(x: f32[", s.rows, ",", s.depth, "]) -> (y) { b = const f32[",
                          s.columns, "] ~2 w = const f32[", s.depth, ",", s.columns,
                          "] ~1 m = MatMul(x, w) p = Add(m, b) y = Relu(p) }");
}

/// The product in INT8, `zeros` of the blocks of weights (16 outputs, 4 inputs of one tap) zero.
std::string ByteProduct(const ProductShape& s, double zeros) {
  const int64_t taps = s.window * s.window;
  Random random(5);
  std::vector<std::string> codes(static_cast<size_t>(s.columns * s.depth * taps), "0");
  for (int64_t n = 0; n < s.columns; n += 16)
    for (int64_t c = 0; c < s.depth; c += 4)
      for (int64_t t = 0; t < taps; ++t) {
        if (random.Uniform() < zeros) continue;
        for (int64_t i = n; i < std::min(s.columns, n + 16); ++i)
          for (int64_t j = c; j < std::min(s.depth, c + 4); ++j)
            codes[static_cast<size_t>((i * s.depth + j) * taps + t)] = Cat(random.Below(255) - 127);
      }
  const Dims x = s.side > 0 ? Dims{1, s.depth, s.side, s.side} : Dims{s.rows, s.depth};
  Dims w = {s.columns, s.depth};
  if (s.side > 0) w.insert(w.end(), {s.window, s.window});
  const int64_t pad = s.window / 2;
  return Cat("graph g(q: u8", ToString(x),
             ") -> (y) { sx = const f32[] {0.05} zx = const u8[] {3} ",
             "x = DequantizeLinear(q, sx, zx) wq = const i8", ToString(w), " {", Join(codes, ","),
             "} sw = const f32[] {0.01} w = DequantizeLinear(wq, sw) b = const f32[", s.columns,
             "] ~2 p = ",
             s.side > 0 ? Cat("Conv(x, w, b) {pads=[", pad, ",", pad, ",", pad, ",", pad, "]}")
                        : std::string("Gemm(x, w, b) {transB=1}"),
             " r = Relu(p) sy = const f32[] {0.5} zy = const u8[] {0} ",
             "y = QuantizeLinear(r, sy, zy) }");
}

/// A step of a program.
class ProgramRun {
 public:
  explicit ProgramRun(const std::string& text) {
    static const OpRegistry ops = AllOps();
    auto g = ParseGraph(text, ops);
    INFER_CHECK(g.ok());
    auto program = MakeCpuBackend()->Compile(*g, {.threads = 1});
    INFER_CHECK(program.ok());
    program_ = *program;
    context_ = *program_->NewContext();
    const Value& in = *g->inputs()[0];
    Tensor x(in.dtype(), in.shape().static_dims());
    Random random(1);
    if (in.dtype() == DType::kF32)
      for (float& f : x.mutable_data<float>()) f = static_cast<float>(random.Normal());
    else
      for (uint8_t& u : x.mutable_data<uint8_t>()) u = static_cast<uint8_t>(random.Below(256));
    INFER_CHECK(context_->BindInput(0, x).ok());
  }
  double Run() {
    INFER_CHECK(context_->Run({.profile = true}).ok());
    double us = 0;
    for (const StepTiming& t : context_->profile())
      if (!t.is_copy) us += t.duration_ms * 1e3;
    return us;
  }
  std::string kernel() const { return std::string(context_->step_kernels()[0]); }

 private:
  std::shared_ptr<const Program> program_;
  std::unique_ptr<RunContext> context_;
};

class SparseRun {
 public:
  SparseRun(const ProductShape& s, SparseForm form, double zeros) {
    Random random(3);
    std::vector<float> w(static_cast<size_t>(s.depth * s.columns), 0.0f);
    for (int64_t k = 0; k < s.depth; ++k)
      for (int64_t n = 0; n < s.columns; n += BlockOf(form)) {
        if (random.Uniform() < zeros) continue;
        for (int64_t o = n; o < std::min(s.columns, n + BlockOf(form)); ++o)
          w[static_cast<size_t>(k * s.columns + o)] = static_cast<float>(random.Normal());
      }
    const WeightMatrix m{w.data(), s.depth, s.columns, s.columns, 1};
    const simd::Sparse& loops = *simd::TheSparse();
    p_.loops = &loops;
    p_.appended.function =
        UnaryFunction{simd::Unary::kClip, 0, std::numeric_limits<float>::infinity(), true};
    p_.shape = {1, s.rows, s.depth, s.columns};
    p_.x = {0, s.depth, loops.lanes};
    p_.y = {0, s.columns, loops.lanes};
    p_.w = std::make_shared<SparseWeights>(SparseWeights::Pack(m, form, loops));
    const StrassenGemm seven{nullptr, {}, s.rows, s.depth, s.columns};
    work_ = DenseWork(p_.shape, loops.lanes, seven.Pays()) /
            SparseWork(p_.shape, form, CountStored(m).of(form), loops.lanes);
    x_.assign(static_cast<size_t>(s.rows * s.depth), 0.5f);
    bias_.assign(static_cast<size_t>(s.columns), 0.25f);
    y_.assign(static_cast<size_t>(s.rows * s.columns), 0.0f);
    scratch_ = Buffer::Allocate(static_cast<size_t>(p_.scratch_bytes()));
  }
  double Run() {
    const double begin = NowUs();
    p_.Run(x_.data(), bias_.data(), y_.data(), reinterpret_cast<float*>(scratch_->mutable_data()));
    return NowUs() - begin;
  }
  double work() const { return work_; }

 private:
  SparseProduct p_;
  double work_ = 0;
  std::vector<float> x_, bias_, y_;
  std::shared_ptr<Buffer> scratch_;
};

void Evict() {
  static std::vector<float> far(2 << 20, 1.0f);
  float s = 0;
  for (size_t i = 0; i < far.size(); i += 16) s += far[i];
  INFER_CHECK(s > 0);
}

/// Medians of times in turns, and of their ratios, with quartiles; `a` and `b` return microseconds.
template <typename A, typename B>
std::string Turns(const A& a, const B& b, int rounds) {
  std::vector<double> of_a, of_b, ratio;
  for (int i = -3; i < rounds; ++i) {
    Evict();
    const double d = a();
    Evict();
    const double s = b();
    if (i < 0) continue;
    of_a.push_back(d);
    of_b.push_back(s);
    ratio.push_back(d / s);
  }
  char text[128];
  std::snprintf(text, sizeof text, "%.1f | %.1f | %.2f (%.2f to %.2f)", At(of_a, 0.5),
                At(of_b, 0.5), At(ratio, 0.5), At(ratio, 0.25), At(ratio, 0.75));
  return text;
}

void Compare(const ProductShape& shape, SparseForm form, double zeros, int rounds) {
  ProgramRun dense(FloatProduct(shape));
  SparseRun sparse(shape, form, zeros);
  const std::string turns =
      Turns([&] { return dense.Run(); }, [&] { return sparse.Run(); }, rounds);
  std::printf("| %s | %s | %dx1 %.0f %% | %s | %.2f |\n", shape.name, dense.kernel().c_str(),
              static_cast<int>(BlockOf(form)), 100 * zeros, turns.c_str(), sparse.work());
  std::fflush(stdout);
}

void CompareBytes(const ProductShape& shape, double zeros, int rounds) {
  ProgramRun dense(ByteProduct(shape, 0)), sparse(ByteProduct(shape, zeros));
  const ByteMatrix m{
      .taps = shape.window * shape.window, .channels = shape.depth, .columns = shape.columns};
  const double blocks = static_cast<double>(m.quads() * m.panels()) * (1 - zeros);
  const double work =
      DenseByteWork(shape.rows, m) / SparseByteWork(shape.rows, m, static_cast<int64_t>(blocks));
  const std::string turns =
      Turns([&] { return dense.Run(); }, [&] { return sparse.Run(); }, rounds);
  std::printf("| %s | %s | 16x4 %.0f %%, %s | %s | %.2f |\n", shape.name, dense.kernel().c_str(),
              100 * zeros, sparse.kernel().c_str(), turns.c_str(), work);
  std::fflush(stdout);
}

}  // namespace
}  // namespace infer

int main(int argc, char** argv) {
  using namespace infer;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 41;
  const std::string_view wanted = argc > 2 ? argv[2] : "", product = argc > 3 ? argv[3] : "";
  const auto is_asked = [&](const ProductShape& s) {
    return std::string_view(s.name).find(product) != std::string_view::npos;
  };
  std::printf(
      "| product | dense kernel | zeros | dense us | sparse us | dense / sparse | work |\n");
  std::printf("|---|---|---|---:|---:|---|---:|\n");
  const std::pair<SparseForm, double> patterns[] = {
      {SparseForm::kPanels, 0.5},  {SparseForm::kPanels, 0.75}, {SparseForm::kStrips, 0.75},
      {SparseForm::kSingles, 0.7}, {SparseForm::kSingles, 0.8}, {SparseForm::kSingles, 0.9}};
  if (simd::TheSparse() && wanted != "int8")
    for (const auto& [form, zeros] : patterns)
      for (const ProductShape& s : kShapes)
        if (is_asked(s)) Compare(s, form, zeros, rounds);
  if (!simd::TheSparseBytes() || wanted == "f32") return 0;
  for (const double zeros : {0.5, 0.75, 0.9}) {
    for (const ProductShape& s : kShapes)
      if (is_asked(s)) CompareBytes(s, zeros, rounds);
    for (const ProductShape& s : kWindows)
      if (is_asked(s)) CompareBytes(s, zeros, rounds);
  }
  return 0;
}
