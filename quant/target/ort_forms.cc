/// Which nodes between DequantizeLinear and QuantizeLinear ONNX Runtime's CPU provider computes in
/// integers on x64: one-operator models of each form, run through its own rewrites.
#include <algorithm>
#include <cmath>
#include <set>

#include "lib/ir/ort_kernels.h"
#include "lib/ir/roles.h"
#include "quant/target/checks.h"

namespace infer::target {
namespace {

/// Integer with parameters of the result: operands and result of one type.
constexpr std::string_view kOwnKernel =
    " Add Mul Concat AveragePool GlobalAveragePool Sigmoid LeakyRelu Softmax Where ";
/// Runs on the codes themselves, Q and DQ around it removed.
constexpr std::string_view kMovement =
    " Reshape Transpose Flatten Squeeze Unsqueeze Slice Split Gather Expand Tile MaxPool Resize "
    "DepthToSpace ";
/// Kernels that a file names itself.
constexpr std::string_view kNamed =
    " QLinearConv QLinearMatMul MatMulInteger ConvInteger QGemm QLinearAdd QLinearMul "
    "QLinearConcat QLinearAveragePool QLinearGlobalAveragePool QLinearSigmoid QLinearLeakyRelu "
    "QLinearSoftmax QLinearWhere MatMulNBits GatherBlockQuantized DynamicQuantizeLSTM "
    "MatMulIntegerToFloat DynamicQuantizeMatMul ";

bool Is16Bit(DType t) { return t == DType::kU16 || t == DType::kI16; }
bool IsCode(DType t) { return Is8Bit(t) || Is16Bit(t); }

struct Range {
  double low = 0, high = 0;
};
Range CodesOf(DType t) {
  if (t == DType::kU8) return {0, 255};
  if (t == DType::kI8) return {-128, 127};
  return t == DType::kU16 ? Range{0, 65535} : Range{-32768, 32767};
}

/// Bounds that saturation of the codes repeats, so that ONNX Runtime takes them out.
bool IsRepeated(const Clamp& bounds, const Node& quantize) {
  const Tensor* scale = quantize.input(1)->constant();
  const Value* zp = quantize.input(2);
  if (!scale || scale->num_elements() != 1 || (zp && !zp->is_constant())) return false;
  const double zero = zp ? zp->constant()->At(0) : 0;
  const Range codes = CodesOf(quantize.output(0)->dtype());
  const double low = (codes.low - zero) * scale->At(0), high = (codes.high - zero) * scale->At(0);
  return bounds.low <= low && bounds.high >= high;
}

/// s8 between a QuantizeLinear and the only reader of its DequantizeLinear becomes u8 there, before
/// anything is fused.
bool BecomesU8(const Node& quantize) {
  const Value* codes = quantize.output(0);
  if (!codes->has_one_use()) return false;
  const Node* dq = codes->uses()[0].user;
  return dq->Is(Trait::kDequantize) && dq->output(0)->has_one_use();
}
DType ResultType(const Node& quantize) {
  const DType t = quantize.output(0)->dtype();
  return t == DType::kI8 && BecomesU8(quantize) ? DType::kU8 : t;
}
DType OperandType(const Node& dequantize) {
  const Value* codes = dequantize.input(0);
  const Node* q = QuantizeBefore(codes);
  const DType t = codes->dtype();
  const bool changes = t == DType::kI8 && q && BecomesU8(*q);
  return changes ? DType::kU8 : t;
}

/// Codes may have one scale for all elements, so that they move like the numbers.
bool IsOfOneScale(const Node& quantize_or_dequantize) {
  const Value* const scale = quantize_or_dequantize.input(1);
  return HasConstantParams(quantize_or_dequantize) && scale->constant()->num_elements() == 1;
}

/// Codes are looked for through so many nodes that pass them.
constexpr int kMostMoves = 16;

/// The QuantizeLinear that alone reads `v`, or what such nodes make of it.
const Node* QuantizedWhereItMoves(const Value* v) {
  for (int moves = 0; moves <= kMostMoves; ++moves) {
    if (const Node* q = QuantizeBehind(v)) return moves == 0 || IsOfOneScale(*q) ? q : nullptr;
    if (!v || !v->has_one_use()) return nullptr;
    const Node& next = *v->uses()[0].user;
    if (next.input(0) != v || !PassesCodes(next)) return nullptr;
    v = next.output(0);
  }
  return nullptr;
}

}  // namespace

bool PassesCodes(const Node& n) {
  return n.def().domain.empty() &&
         Lists(" MaxPool Reshape Transpose Squeeze Unsqueeze Slice ", n.op());
}

const Node* QuantizedBy(const Value* v) {
  if (const Node* q = QuantizedWhereItMoves(v)) return q;
  if (!v || !v->has_one_use()) return nullptr;
  const Node& next = *v->uses()[0].user;
  const auto bounds = next.input(0) == v ? ClampOf(next) : std::nullopt;
  const Node* const q = bounds ? QuantizedWhereItMoves(next.output(0)) : nullptr;
  return q && IsRepeated(*bounds, *q) ? q : nullptr;
}

const Node* DequantizedBeforeItMoves(const Value* v) {
  if (const Node* dq = DequantizedBy(v)) return dq;
  for (int moves = 0; moves < kMostMoves; ++moves) {
    const Node* const n = v ? v->producer() : nullptr;
    if (!n || !PassesCodes(*n)) return nullptr;
    if (std::any_of(v->uses().begin(), v->uses().end(),
                    [](const Use& u) { return u.user->Is(Trait::kQuantize); }))
      return nullptr;
    v = n->input(0);
    const Node* const dq = DequantizedBy(v);
    if (!dq) continue;
    const bool goes_on = dq->output(0)->has_one_use() && !dq->input(0)->is_constant();
    return goes_on && IsOfOneScale(*dq) ? dq : nullptr;
  }
  return nullptr;
}

namespace {

class FormChecker {
 public:
  FormChecker(const FileVersions& file, const Target& t, TargetReport& r, OrtForms* forms)
      : file_(file), t_(t), r_(r), forms_(forms) {}

  void Check(const Node& n) {
    if (Lists(kNamed, n.op()) && (n.def().domain.empty() || n.def().domain == kMicrosoft))
      Runs(n, std::string(n.op()));
    if (!n.def().domain.empty()) return;
    if (IsProduct(n)) {
      Product(n);
    } else if (Lists(" LSTM GRU RNN ", n.op()) && DequantizedBy(n.input(1))) {
      Slow(n, kWeightsEveryRun, "--mode dynamic, or --layers-int8 off");
    } else if (Surrounded(n) && !biases_.contains(&n)) {
      Between(n);
    } else if (PassesCodes(n) && n.output(0)) {
      Passed(n);
    }
  }

 private:
  /// The first ONNX Runtime 1.x that gives codes to a bias only where the result has some.
  static constexpr int kGivesBesideCodes = 22;
  static constexpr std::string_view kWeightsEveryRun =
      "only its weights are quantized: they are dequantized in every run";

  void Runs(const Node& n, std::string kernel) {
    if (const Node* add = AddOfOrtGemm(n, t_.minor); add && kernel == "QGemm") biases_.insert(add);
    ++r_.kernels[kernel];
    if (forms_) forms_->emplace(&n, std::move(kernel));
  }

  void Slow(const Node& n, std::string_view why, std::string remedy) {
    Add(r_, n, Severity::kSlow, std::string(why), std::move(remedy));
  }

  static bool Surrounded(const Node& n) {
    return n.output(0) && DequantizedBeforeItMoves(n.input(n.Is("Where") ? 1 : 0)) &&
           QuantizedBy(n.output(0));
  }

  // ---- products -------------------------------------------------------------------------------

  void Product(const Node& n) {
    const Node *x = DequantizedBeforeItMoves(n.input(0)), *w = DequantizedBy(n.input(1));
    if (!x && !w) return;
    if (!x || x->input(0)->is_constant()) {
      if (w && w->input(0)->is_constant()) WeightsOnly(n, *w);
      return;
    }
    const std::string why = w ? RefuseProduct(n, *x, *w) : "its weights are no codes";
    if (!why.empty()) return Slow(n, why, RemedyOf(n, *x));
    const bool rounded = QuantizedBy(n.output(0)) != nullptr;
    Runs(n, n.Is("Conv")                                ? "QLinearConv"
            : n.Is("Gemm") || AddOfOrtGemm(n, t_.minor) ? "QGemm"
            : rounded                                   ? "QLinearMatMul"
                                                        : "MatMulIntegerToFloat");
  }

  static std::string RemedyOf(const Node& n, const Node& x) {
    if (!Is8Bit(x.input(0)->dtype())) return "--activations u8";
    if (IsTransposedConvolution(n)) return "--exclude op:ConvTranspose";
    return x.input(0)->dtype() == DType::kI8 ? "--activations u8"
                                             : "quantize it with infer-opt, or leave it f32";
  }

  std::string RefuseProduct(const Node& n, const Node& x, const Node& w) const {
    if (IsTransposedConvolution(n)) return "there is no integer ConvTranspose";
    const DType in = OperandType(x), weights = OperandType(w);
    if (!Is8Bit(in)) return "16-bit activations are computed in f32";
    if (!Is8Bit(weights)) return "its weights have other than 8 bits";
    if (w.Attr<int64_t>("block_size") != 0) return "its weights are quantized in blocks";
    const Node* q = QuantizedBy(n.output(0));
    if (IsConvolution(n) && !q)
      return "its result is not quantized, and no convolution returns f32";
    if (q && ResultType(*q) != in) return "its activations and its result have other types";
    if (in == DType::kI8 && weights == DType::kU8) return "s8 activations with u8 weights";
    if (in == DType::kI8 && !q) return "s8 activations that others read too, and a result in f32";
    if (n.Is("Gemm")) return RefuseGemm(n, w);
    if (const Node* add = AddOfOrtGemm(n, t_.minor)) {
      if (IsFusedFirst(add->output(0))) return std::string(kFusedFirst);
      return RefuseBias(AddedTo(n.output(0), *add), QuantizedBy(add->output(0)));
    }
    return IsConvolution(n) ? RefuseBias(n.input(2), q) : "";
  }

  /// `q`: of the result, or nullptr. Only beside it a bias in f32 gets codes there.
  std::string RefuseBias(const Value* bias, const Node* q) const {
    if (!bias) return "";
    const Node* dq = DequantizedBy(bias);
    if (dq && dq->input(0)->dtype() == DType::kI32) return "";
    if (!bias->is_constant()) return "its bias is computed";
    const bool gives = t_.minor >= 23 || (t_.minor >= 21 && file_.opset < 21);
    if (gives && (q || t_.minor < kGivesBesideCodes)) return "";
    return "its bias is not quantized";
  }

  std::string RefuseGemm(const Node& n, const Node& w) const {
    if (n.input(2) && n.Attr<float>("beta") != 1) return "its beta is not 1";
    if (t_.minor >= 30 && n.Attr<float>("alpha") != 1) return "its alpha is not 1";
    if (t_.minor >= 30 && !w.input(2)) return "its weights have no zero point";
    if (IsFusedFirst(n.output(0))) return std::string(kFusedFirst);
    return RefuseBias(n.input(2), QuantizedBy(n.output(0)));
  }

  /// DequantizeLinear of constants before a product of f32 activations.
  void WeightsOnly(const Node& n, const Node& w) {
    const std::string why = RefuseNBits(n, w);
    if (why.empty())
      Runs(n, "MatMulNBits");
    else
      Slow(n, Cat(kWeightsEveryRun, why == "-" ? "" : Cat(" (", why, ")")),
           IsConvolution(n) ? "--mode static, or --layers-int8 off" : "--format nbits");
  }

  std::string RefuseNBits(const Node& n, const Node& w) const {
    if (!IsMatrixProduct(n)) return "-";
    if (file_.opset < 21 && t_.minor < 30) return "MatMulNBits is made of opset 21 on";
    const DType t = w.input(0)->dtype();
    const bool four = t == DType::kI4 || t == DType::kU4;
    if (!four && !Is8Bit(t)) return "-";
    if (t_.minor < 30 && (!four || n.Is("Gemm") || (t_.minor > 20 && AddOfOrtGemm(n, t_.minor))))
      return "made of 4-bit MatMul alone";
    if (!w.output(0)->has_one_use()) return "others read them, too";
    if (w.input(0)->constant()->rank() != 2) return "they are no matrix";
    const int64_t block = w.Attr<int64_t>("block_size");
    if (block != 0 && (block < 16 || w.Attr<int64_t>("axis") != 0))
      return "blocks along another axis";
    if (block == 0 && t_.minor < 30) return "a scale per column";
    if (!IsPlainProduct(n)) return "a Gemm with alpha, beta or transposed operands";
    if (n.Is("Gemm") && n.output(0)->has_one_use() &&
        Lists(" Relu Sigmoid Tanh LeakyRelu Elu HardSigmoid Selu Softplus Softsign "
              "ThresholdedRelu ",
              n.output(0)->uses()[0].user->op()))
      return std::string(kFusedFirst);
    return "";
  }

  static constexpr std::string_view kFusedFirst = "a Gemm is fused with its activation first";
  /// `v` is the result of a Gemm, and a Relu makes something of it that has no codes: FusedGemm,
  /// which has no integer form. Other activations are left alone.
  bool IsFusedFirst(const Value* v) const {
    constexpr int kFusesFirst = 21;
    return t_.minor >= kFusesFirst && v->shape().has_rank() && v->shape().rank() == 2 &&
           v->has_one_use() && v->uses()[0].user->Is("Relu") && !QuantizedBy(v);
  }

  // ---- other operators ------------------------------------------------------------------------

  void Between(const Node& n) {
    std::string why = RefuseBetween(n);
    if (!why.empty())
      return Slow(n, Cat("computed in f32 between DequantizeLinear and QuantizeLinear: ", why),
                  Cat("--exclude op:", n.op()));
    if (Lists(kOwnKernel, n.op())) return Runs(n, Cat("QLinear", n.op()));
    if (forms_) forms_->emplace(&n, kMovesCodes);
  }

  /// Codes on one side alone: it is given the same on the other.
  void Passed(const Node& n) {
    const Value *x = n.input(0), *y = n.output(0);
    const Node* const q = QuantizedBy(y);
    const Node* const dq = q ? nullptr : DequantizedBeforeItMoves(y);
    if (q ? !x || !(x->has_one_use() || x->is_constant()) || !IsOfOneScale(*q) : !dq) return;
    if (forms_ && RefuseMovement(n, q ? ResultType(*q) : OperandType(*dq)).empty())
      forms_->emplace(&n, kMovesCodes);
  }

  std::string RefuseBetween(const Node& n) const {
    const DType out = ResultType(*QuantizedBy(n.output(0)));
    if (Lists(kMovement, n.op())) return RefuseMovement(n, out);
    if (!Lists(kOwnKernel, n.op())) return "there is no integer kernel of it";
    for (size_t i = n.Is("Where") ? 1 : 0; i < n.inputs().size(); ++i) {
      const Node* dq = DequantizedBeforeItMoves(n.input(i));
      if (!dq) return "an operand is not quantized";
      if (OperandType(*dq) != out && !dq->input(0)->is_constant())
        return "operands and result have other types";
    }
    return Is8Bit(out) ? "" : "16 bits";
  }

  std::string RefuseMovement(const Node& n, DType out) const {
    if (!IsCode(out)) return "codes of few bits";
    if (n.Is("DepthToSpace") && t_.minor < 21) return "only since ort-1.21";
    if (Lists(" MaxPool Resize DepthToSpace ", n.op()) && !Is8Bit(out)) return "16 bits";
    if (n.Is("MaxPool") && file_.opset >= 22 && t_.minor < 30)
      return "8-bit MaxPool of opset 22 only since ort-1.30 (--opset 21)";
    if (n.Is("Resize") && n.Attr<std::string>("mode") != "nearest" && t_.minor >= 30)
      return "it interpolates";
    return "";
  }

  const FileVersions& file_;
  const Target& t_;
  TargetReport& r_;
  OrtForms* forms_;
  std::set<const Node*> biases_;  ///< Adds that are part of a QGemm
};

}  // namespace

void CheckOrtForms(const Graph& g, const FileVersions& file, const Target& t, TargetReport& r,
                   OrtForms* forms) {
  FormChecker checker(file, t, r, forms);
  ForEachNode(g, [&](const Node& n) { checker.Check(n); });
}

}  // namespace infer::target
