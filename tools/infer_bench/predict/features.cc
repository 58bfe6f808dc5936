#include "tools/infer_bench/predict/features.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "lib/support/strings.h"

namespace infer::bench {
namespace {

enum class Kind : uint8_t {
  kConv,
  kProduct,
  kAttention,
  kRecurrent,
  kElements,
  kRows,
  kMove,
  kPool,
  kOther
};

struct OpKind {
  std::string_view op;
  Kind kind;
};

/// The operator that gives a step its kind: the first of this list that it has.
constexpr OpKind kMainOps[] = {
    {"Attention", Kind::kAttention},
    {"MultiHeadAttention", Kind::kAttention},
    {"GroupQueryAttention", Kind::kAttention},
    {"LSTM", Kind::kRecurrent},
    {"GRU", Kind::kRecurrent},
    {"RNN", Kind::kRecurrent},
    {"ConvTranspose", Kind::kConv},
    {"ConvInteger", Kind::kConv},
    {"QLinearConv", Kind::kConv},
    {"Conv", Kind::kConv},
    {"MatMulNBits", Kind::kProduct},
    {"MatMulInteger", Kind::kProduct},
    {"QLinearMatMul", Kind::kProduct},
    {"Gemm", Kind::kProduct},
    {"MatMul", Kind::kProduct},
    {"Einsum", Kind::kProduct},
    {"Softmax", Kind::kRows},
    {"LogSoftmax", Kind::kRows},
    {"LayerNormalization", Kind::kRows},
    {"InstanceNormalization", Kind::kRows},
    {"GroupNormalization", Kind::kRows},
    {"RMSNormalization", Kind::kRows},
    {"ReduceMean", Kind::kRows},
    {"ReduceSum", Kind::kRows},
    {"ReduceMax", Kind::kRows},
    {"ReduceMin", Kind::kRows},
    {"ReduceL2", Kind::kRows},
    {"ReduceProd", Kind::kRows},
    {"ReduceSumSquare", Kind::kRows},
    {"ArgMax", Kind::kRows},
    {"GlobalAveragePool", Kind::kRows},
    {"GlobalMaxPool", Kind::kRows},
    {"TopK", Kind::kRows},
    {"MaxPool", Kind::kPool},
    {"AveragePool", Kind::kPool},
    {"LRN", Kind::kPool},
    {"Transpose", Kind::kMove},
    {"Concat", Kind::kMove},
    {"Split", Kind::kMove},
    {"Slice", Kind::kMove},
    {"Gather", Kind::kMove},
    {"GatherElements", Kind::kMove},
    {"GatherND", Kind::kMove},
    {"ScatterND", Kind::kMove},
    {"Pad", Kind::kMove},
    {"Expand", Kind::kMove},
    {"Tile", Kind::kMove},
    {"Resize", Kind::kMove},
    {"DepthToSpace", Kind::kMove},
    {"SpaceToDepth", Kind::kMove},
    {"Reshape", Kind::kMove},
    {"Squeeze", Kind::kMove},
    {"Unsqueeze", Kind::kMove},
    {"Flatten", Kind::kMove},
    {"Identity", Kind::kMove},
    {"Dropout", Kind::kMove},
    {"ConstantOfShape", Kind::kMove},
};

constexpr std::string_view kExponentials[] = {
    "Exp",   "Tanh", "Sigmoid", "Erf",  "Gelu",    "Softplus",   "Mish",    "Silu",
    "Swish", "Elu",  "Selu",    "Celu", "Softmax", "LogSoftmax", "FastGelu"};
constexpr std::string_view kDivisions[] = {
    "Div", "Sqrt", "Reciprocal", "LayerNormalization", "Mod", "RMSNormalization", "Softsign"};
constexpr std::string_view kPowers[] = {"Pow",  "Log",  "Sin",  "Cos",  "Tan",
                                        "Atan", "Asin", "Acos", "Sinh", "Cosh"};

template <size_t N>
bool Has(const std::string_view (&list)[N], std::string_view op) {
  return std::find(std::begin(list), std::end(list), op) != std::end(list);
}

std::vector<std::string_view> OpsOf(std::string_view ops) {
  std::vector<std::string_view> list;
  while (!ops.empty()) {
    const size_t plus = std::min(ops.find('+'), ops.size());
    std::string_view op = ops.substr(0, plus);
    if (const size_t colons = op.rfind("::"); colons != op.npos) op.remove_prefix(colons + 2);
    list.push_back(op);
    ops.remove_prefix(std::min(plus + 1, ops.size()));
  }
  return list;
}

/// Constants within a cache line are bounds, axes and scales: their reading is the launch's.
constexpr int64_t kLineBytes = 64;

double Thousands(int64_t n) { return static_cast<double>(n) / 1e3; }
double RoundUp(double v, double to) { return std::ceil(v / to) * to; }

class Extractor {
 public:
  Extractor(const StepFacts& step, int64_t program_bytes, const Roofline& machine)
      : step_(step), program_bytes_(program_bytes), machine_(machine), ops_(OpsOf(step.info.op)) {}

  StepFeatures Get() {
    FindMain();
    Common();
    Elements();
    if (kind_ == Kind::kConv || kind_ == Kind::kProduct || kind_ == Kind::kAttention) Product();
    if (kind_ == Kind::kRecurrent) Recurrent();
    Name();
    return out_;
  }

 private:
  double& At(std::string_view column) {
    const auto it = std::find(kColumns.begin(), kColumns.end(), column);
    return out_.x[static_cast<size_t>(it - kColumns.begin())];
  }

  void FindMain() {
    main_ = ops_.empty() ? "" : ops_.front();
    for (const std::string_view op : ops_) is_quantized_ |= op.ends_with("uantizeLinear");
    const bool is_chain = step_.info.kernel.find("chain") != std::string::npos;
    if (step_.info.kernel.find("attention") != std::string::npos) {
      kind_ = Kind::kAttention, main_ = "attention";
    } else if (is_chain) {
      kind_ = Kind::kElements, main_ = "chain";
      for (const std::string_view op : ops_)
        if (op.ends_with("Normalization")) main_ = "norm-chain";
    } else {
      for (const OpKind& k : kMainOps)
        if (std::find(ops_.begin(), ops_.end(), k.op) != ops_.end()) {
          kind_ = k.kind, main_ = k.op;
          return;
        }
      kind_ = Kind::kElements;
    }
  }

  /// Data that a copy moves costs the same, constant or not; a look-up reads few rows of it.
  bool IsCopied(const OperandFacts& o) const {
    return kind_ == Kind::kMove && !main_.starts_with("Gather") && o.bytes() > kLineBytes;
  }

  double TrafficUs(int64_t bytes, int64_t resident) const {
    return static_cast<double>(bytes) / (machine_.LevelOf(resident).gb_per_s * 1e3);
  }

  void Common() {
    const StepInfo& info = step_.info;
    const double peak = info.precision.ends_with("s32") ? machine_.int8_gops : machine_.f32_gflops;
    At("launches") = step_.launches > 0 ? step_.launches : 0;
    At("operators") = static_cast<double>(ops_.size());
    At("parts") = static_cast<double>(step_.operands.size() + step_.results.size());
    At("copies") = step_.copies;
    At("copy_traffic") = TrafficUs(step_.copied_bytes, step_.copied_bytes);
    work_ = At("work") = static_cast<double>(info.cost.flops) / (peak * 1e3);
    for (const OperandFacts& o : step_.results) results_ += o.elements(), moved_ += o.bytes();
    int64_t constants = 0;
    for (const OperandFacts& o : step_.operands) {
      if (!o.constant || IsCopied(o))
        operands_ += o.elements(), moved_ += o.bytes();
      else if (o.bytes() > kLineBytes)
        constants += o.bytes();
    }
    // A look-up reads few rows of its table.
    if (info.cost.bytes_read > 0) constants = std::min(constants, info.cost.bytes_read);

    At("constant_traffic") = TrafficUs(constants, program_bytes_);
    At("traffic") = TrafficUs(moved_, moved_);
    At("results") = Thousands(results_);
    At("operands") = Thousands(operands_);
    int64_t row = 1, from_row = 1;
    if (!step_.results.empty() && !step_.results[0].dims.empty())
      row = std::max<int64_t>(step_.results[0].dims.back(), 1);
    if (const OperandFacts* from = Source()) from_row = std::max<int64_t>(from->dims.back(), 1);
    At("rows") = Thousands(std::max(results_ / row, operands_ / from_row));
    At("operator_rows") = At("rows") * At("operators");
    At("runs") = Thousands(
        main_ == "Transpose" && row != from_row ? results_ : results_ / std::min(row, from_row));
  }

  /// What a step copies from: its first operand that is computed, or, where all are constant, its
  /// first.
  const OperandFacts* Source() const {
    const OperandFacts* first = nullptr;
    for (const OperandFacts& o : step_.operands) {
      if (o.dims.empty()) continue;
      if (!o.constant) return &o;
      if (!first) first = &o;
    }
    return first;
  }

  bool IsBroadcast() const {
    for (const OperandFacts& o : step_.operands)
      if (o.elements() > 1 && o.elements() < results_) return true;
    return false;
  }

  void Elements() {
    if (kind_ == Kind::kElements && IsBroadcast()) At("broadcast_rows") = At("rows");
    const double n = Thousands(
        std::max(results_, kind_ == Kind::kElements || kind_ == Kind::kRows ? operands_ : 0));
    double cheap = 0, divisions = 0, exponentials = 0, powers = 0;
    for (const std::string_view op : ops_) {
      if (Has(kExponentials, op)) {
        exponentials += n;
      } else if (Has(kDivisions, op)) {
        divisions += n;
      } else if (Has(kPowers, op)) {
        powers += n;
      } else if (op != main_ || kind_ == Kind::kElements || kind_ == Kind::kRows) {
        cheap += n;
      }
    }
    At("cheap") = cheap;
    At("divisions") = divisions;
    At("exponentials") = exponentials;
    At("powers") = powers;
  }

  /// The weights, where they are constant: the largest operand of at least two dimensions.
  const OperandFacts* Weights() const {
    const OperandFacts* best = nullptr;
    for (const OperandFacts& o : step_.operands)
      if (o.constant && o.dims.size() >= 2 && (!best || o.elements() > best->elements())) best = &o;
    return best;
  }

  /// Rows m, columns n, depth k and number g of the products, from the operations: they hold
  /// whatever was transposed, reshaped or packed around.
  void Product() {
    const auto outs = static_cast<double>(std::max<int64_t>(results_, 1));
    double k = std::max(static_cast<double>(step_.info.cost.flops) / (2 * outs), 1.0);
    double n = 1, g = 1;
    const OperandFacts* w = Weights();
    if (kind_ == Kind::kConv && w && w->dims.size() >= 3) {
      const bool transposed = main_ == "ConvTranspose";
      double area = 1;
      for (size_t i = 2; i < w->dims.size(); ++i) area *= static_cast<double>(w->dims[i]);
      area_ = area;
      for (const OperandFacts& o : step_.operands)
        if (!o.constant && o.dims.size() == w->dims.size()) {
          const int64_t inner = transposed ? w->dims[0] : w->dims[1];
          if (!transposed && inner > 0) g = std::max(1.0, static_cast<double>(o.dims[1] / inner));
          break;
        }
      n = static_cast<double>(transposed ? w->dims[1] : w->dims[0]) / g;
      if (!transposed) k = static_cast<double>(w->dims[1]) * area;
      channels_in_ = static_cast<double>(transposed ? w->dims[0] : w->dims[1]);
    } else if (kind_ == Kind::kAttention && step_.scores.size() >= 2) {
      Attention();
      return;
    } else if (kind_ == Kind::kProduct && w && w == &step_.operands[0]) {
      // The left matrix is constant: columns are what the result has beside its rows.
      n = std::max(outs * k / static_cast<double>(w->elements()), 1.0);
      left_ = true;
    } else if (kind_ == Kind::kProduct && w && main_ != "MatMulNBits") {
      n = std::max(static_cast<double>(w->elements()) / k, 1.0);
    } else if (!step_.results.empty() && !step_.results[0].dims.empty()) {
      n = static_cast<double>(std::max<int64_t>(step_.results[0].dims.back(), 1));
      const Dims& d = step_.results[0].dims;
      for (size_t i = 0; !w && i + 2 < d.size(); ++i) g *= static_cast<double>(d[i]);
    }
    groups_ = g;
    m_ = std::max(outs / (n * g), 1.0);
    const double pad = RoundUp(n, 16) / n * RoundUp(m_, 4) / m_;
    At("padded_work") = work_ * pad;
    At("tiles_work") = work_ * Tiles();
    At("patches") = m_ * k * g / 1e3;
    At("weights") = n * k * g / 1e3;
    At("products") = g;
  }

  /// queries x keys scores of each head, both products and the softmax between them.
  void Attention() {
    double heads = 1;
    for (size_t i = 0; i + 2 < step_.scores.size(); ++i)
      heads *= static_cast<double>(step_.scores[i]);
    const auto queries = static_cast<double>(step_.scores[step_.scores.size() - 2]);
    const auto keys = static_cast<double>(step_.scores.back());
    const double scores = heads * queries * keys;
    const double depth = static_cast<double>(results_) / std::max(heads * queries, 1.0);
    At("products") = heads;
    At("exponentials") = scores / 1e3;
    At("patches") = heads * queries * RoundUp(keys, 16) / 1e3;
    At("weights") = heads * keys * (depth + RoundUp(depth, 16)) / 1e3;
    At("padded_work") = work_ * RoundUp(keys, 16) / std::max(keys, 1.0) * RoundUp(queries, 4) /
                        std::max(queries, 1.0);
  }

  /// How much larger the last two dimensions of the result are in whole tiles.
  double Tiles() const {
    if (step_.results.empty() || step_.results[0].dims.size() != 4 || kind_ != Kind::kConv)
      return 1;
    double ratio = 1;
    for (size_t i = 2; i < 4; ++i) {
      const auto extent = static_cast<double>(std::max<int64_t>(step_.results[0].dims[i], 1));
      ratio *= RoundUp(extent, 4) / extent;
    }
    return ratio;
  }

  /// Operands x [T, N, I], W [D, gates * H, I], R [D, gates * H, H]; result Y [T, D, N, H] or
  /// its last part.
  void Recurrent() {
    const OperandFacts *x = nullptr, *r = nullptr;
    if (step_.results.empty() || step_.results[0].dims.empty()) return;
    const int64_t hidden = step_.results[0].dims.back();
    for (const OperandFacts& o : step_.operands) {
      // The last that fits: W comes before R, and states have no gates.
      const int64_t gates = o.dims.size() == 3 ? o.dims[1] / std::max<int64_t>(hidden, 1) : 0;
      if (gates >= 3 && gates <= 4 && o.dims[2] == hidden && o.dims[1] == gates * hidden) r = &o;
    }
    for (const OperandFacts& o : step_.operands)
      if (r && !x && o.dims.size() == 3 && o.dims[1] != r->dims[1]) x = &o;
    if (!x || !r) return;
    // W and R are read as constants are, where they are computed, too.
    int64_t computed = 0;
    for (const OperandFacts& o : step_.operands)
      if (!o.constant && o.dims.size() == 3 && o.dims[1] == r->dims[1]) computed += o.bytes();
    At("constant_traffic") += TrafficUs(computed, program_bytes_);
    At("traffic") = TrafficUs(moved_ - computed, moved_ - computed);
    const int64_t repeats = std::max<int64_t>(x->dims[0], 1) * r->dims[0];
    At("repeats") = static_cast<double>(repeats);
    const int64_t bytes = r->bytes() / std::max<int64_t>(r->dims[0], 1);
    At("repeated_traffic") = static_cast<double>(repeats) * TrafficUs(bytes, r->bytes());
    const double gates = Thousands(repeats * x->dims[1] * r->dims[1]);
    At("exponentials") = gates;
    At("padded_work") = work_;
  }

  std::string ClassName() const {
    if (kind_ == Kind::kConv) {
      const bool is_transposed = main_ == "ConvTranspose";
      const char* what = is_transposed                      ? "conv-transpose"
                         : groups_ > 1 && channels_in_ == 1 ? "depthwise"
                         : groups_ > 1                      ? "conv-grouped"
                         : area_ == 1                       ? "conv1x1"
                                                            : "conv";
      return m_ <= 4 ? Cat(what, "-vector") : what;
    }
    if (kind_ == Kind::kProduct) {
      if (!Weights()) return "matmul-batched";
      const char* what = main_ == "MatMulNBits" ? "int4" : left_ ? "gemm-left" : "gemm";
      return m_ <= 4 ? Cat(what, "-vector") : what;
    }
    return std::string(main_);
  }

  std::string_view GroupName() const {
    switch (kind_) {
      case Kind::kConv:
      case Kind::kProduct: return "product";
      case Kind::kAttention: return "attention";
      case Kind::kRecurrent: return "recurrent";
      case Kind::kElements: return "elements";
      case Kind::kRows: return "rows";
      case Kind::kMove: return "move";
      case Kind::kPool: return "pool";
      case Kind::kOther: break;
    }
    return "other";
  }

  void Name() {
    const std::string name = ClassName();
    const std::string_view numbers =
        step_.info.precision.ends_with("s32") || is_quantized_ ? "int8" : "float";
    const bool is_reference = RunsOnReference(step_.info.kernel);
    const bool is_vector = name.ends_with("-vector");
    out_.families = {
        Cat(name, " | ", step_.info.kernel, " | ", step_.info.precision),
        Cat(name, " | ", is_reference ? "reference" : numbers),
        Cat(GroupName(), is_vector ? "-vector | " : " | ", is_reference ? "reference" : numbers),
        "any"};
  }

  const StepFacts& step_;
  const int64_t program_bytes_;
  const Roofline& machine_;
  const std::vector<std::string_view> ops_;
  StepFeatures out_;
  std::string_view main_;
  Kind kind_ = Kind::kOther;
  bool is_quantized_ = false, left_ = false;
  int64_t results_ = 0, operands_ = 0, moved_ = 0;
  double work_ = 0, m_ = 1, groups_ = 1, area_ = 1, channels_in_ = 0;
};

}  // namespace

StepFeatures FeaturesOf(const StepFacts& step, int64_t program_bytes, const Roofline& machine) {
  return Extractor(step, program_bytes, machine).Get();
}

}  // namespace infer::bench
