/// What OpenVINO 2026.4 refuses, and what its CPU plugin computes in f32: measured as
/// ort_kernels.cc and by the precisions of its compiled graph.
#include <algorithm>
#include <cmath>
#include <set>

#include "lib/ir/roles.h"
#include "quant/target/checks.h"
#include "quant/target/forms.h"

namespace infer::target {
namespace {

constexpr std::string_view kNoRule =
    " BitCast CumProd DeformConv Det ImageDecoder MaxUnpool Optional OptionalGetElement "
    "OptionalHasElement RegexFullMatch SequenceMap StringConcat StringNormalizer StringSplit "
    "TensorScatter TfIdfVectorizer ";
constexpr std::string_view kNoRuleMl = " Binarizer LabelEncoder TreeEnsemble ";
constexpr std::string_view kNoRuleMicrosoft =
    " FusedGemm QGemm QLinearGlobalAveragePool QLinearLeakyRelu ";

/// Zero points that stand for less than this are lost in a sum.
constexpr double kLeastShift = 1e-5;

bool HasMany(const Value* v) { return v && v->is_constant() && v->constant()->num_elements() > 1; }

class OpenVinoChecker {
 public:
  explicit OpenVinoChecker(TargetReport& r) : r_(r) {}

  void Check(const Node& n) {
    const std::string_view domain = n.def().domain;
    if (domain.empty() ? Lists(kNoRule, n.op())
                       : (domain == kMicrosoft && Lists(kNoRuleMicrosoft, n.op())) ||
                             (domain == "ai.onnx.ml" && Lists(kNoRuleMl, n.op())) ||
                             domain == "ai.onnx.preview")
      return Refuse(n, "it has no such operator",
                    domain == kMicrosoft ? "--format qdq" : "another operator");
    if (domain == "infer")
      return Refuse(n, "it reads no functions", "write it with --target openvino");
    if ((n.Is("QLinearConv") && HasMany(n.input(4))) ||
        (n.Is("QLinearMatMul") && (HasMany(n.input(1)) || HasMany(n.input(4)))))
      return Refuse(n, "a scale per channel is read along the wrong axis, or not at all",
                    "--format qdq, or --per-tensor");
    if (n.Is("GatherBlockQuantized", kMicrosoft) && !n.input(0)->is_constant())
      return Refuse(n, "its codes must be a constant", "--format qdq, or --embeddings off");
    // Whole blocks and fixed shapes reach a kernel that its library lacks; others are expanded.
    if (n.Is("MatMulNBits", kMicrosoft) && n.Attr<int64_t>("bits") == 2 &&
        n.Attr<int64_t>("block_size") >= 32 && n.input(0)->shape().is_static() &&
        n.Attr<int64_t>("K") % n.Attr<int64_t>("block_size") == 0)
      return RefuseOn("avx512_bf16", n, "without AMX it lacks the 2-bit product", "--bits 4");
    if (n.Is(Trait::kDequantize)) CheckBlocks(n);
    if (n.Is(Trait::kQuantize)) CheckSaturation(n);
    if (n.Is("Add") || n.Is("Sub")) CheckSum(n);
    if (n.Is("ConvInteger") || n.Is("MatMulInteger"))
      Slow(n, "dynamic quantization is computed in f32", "--mode static");
    if (IsProduct(n)) CheckProduct(n);
  }

  /// It makes the bias part of the rounding behind the convolution, and the codes come out without
  /// it (a vision transformer's patches beside its class token: 10 dB).
  void CheckBiases(const Graph& g) {
    for (const Node* n : ConvolutionsThatLoseTheirBias(g)) {
      joined_.insert(n);
      Add(r_, *n, Severity::kDiffers,
          "its bias is lost, where its codes are joined with what is made of constants alone",
          "infer-opt fuse --target openvino, which writes the bias as a node of its own");
    }
  }

  /// Behind Check of all nodes. Its kernels for AMX know no convolution of s8 with zero points on
  /// both sides. A 1x1 window with strides runs on another one, and so does what CheckBiases names.
  void CheckSignedConv(const Node& n) {
    const Node* x = IsConvolution(n) ? DequantizedBy(n.input(0)) : nullptr;
    if (!x || !DequantizedBy(n.input(1)) || joined_.contains(&n)) return;
    if (x->input(0)->dtype() != DType::kI8 || !HasZeroPoint(*x)) return;
    const Node* rounded = RoundedBy(n);
    if (!rounded || !HasZeroPoint(*rounded)) return;
    const Shape& window = n.input(1)->shape();
    const auto strides = n.attrs().find("strides");
    const bool strided = strides != n.attrs().end() &&
                         std::ranges::any_of(std::get<std::vector<int64_t>>(strides->second),
                                             [](int64_t s) { return s > 1; });
    const bool single = window.is_static() &&
                        NumElements(window.static_dims()) == window[0].value() * window[1].value();
    if (strided && single && n.Attr<int64_t>("group") == 1) return;
    RefuseOn("amx_int8", n, "it lacks convolutions of s8 activations with zero points",
             "--activations u8, or --symmetric-activations");
  }

 private:
  void Refuse(const Node& n, std::string what, std::string remedy) {
    Add(r_, n, Severity::kError, std::move(what), std::move(remedy));
  }
  /// On processors of that feature alone; the file is refused, since nobody knows where it will
  /// run.
  void RefuseOn(const char* feature, const Node& n, const std::string& what, std::string remedy) {
    r_.findings.push_back({Describe(n), Severity::kError,
                           Cat("on processors with ", feature, " ", what), std::move(remedy),
                           feature});
  }
  void Slow(const Node& n, std::string what, std::string remedy) {
    Add(r_, n, Severity::kSlow, std::move(what), std::move(remedy));
  }

  /// `v` before what only moves it.
  static const Value* BeforeMoves(const Value* v) {
    while (v && v->producer() &&
           Lists(" Reshape Transpose Flatten Squeeze Unsqueeze ", v->producer()->op()))
      v = v->producer()->input(0);
    return v;
  }

  /// Zero points other than 0 all of which stand for less than it tells from nothing.
  static bool LosesZeroPoint(const Node& dequantize) {
    if (!Is8Bit(dequantize.input(0)->dtype()) || !dequantize.input(2)) return false;
    const Tensor &scales = *dequantize.input(1)->constant(),
                 &zeros = *dequantize.input(2)->constant();
    bool shifts = false;
    for (int64_t i = 0; i < zeros.num_elements(); ++i) {
      const double shift = std::abs(static_cast<double>(zeros.IntAt(i)) * scales.At(i));
      if (shift >= kLeastShift) return false;
      shifts = shifts || shift > 0;
    }
    return shifts;
  }

  /// It moves the dequantization behind a sum with a value in f32 and drops the zero point there
  /// where that times the scale is next to nothing, whatever the sum's own values are. A value that
  /// is multiplied by a constant counts as dequantized, too.
  void CheckSum(const Node& n) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const Value* const other = BeforeMoves(n.input(1 - i));
      const Node* const dequantize = DequantizedBy(BeforeMoves(n.input(i)));
      if (!dequantize || dequantize->input(0)->is_constant() || !LosesZeroPoint(*dequantize))
        continue;
      const Node* const makes = other->producer();
      if (other->is_constant() || other->dtype() != DType::kF32 || DequantizedBy(other) ||
          (makes && makes->Is("Mul") &&
           (makes->input(0)->is_constant() || makes->input(1)->is_constant())))
        continue;
      const Node* const quantize = QuantizeBefore(dequantize->input(0));
      const Node* const rounded = quantize ? quantize->input(0)->producer() : nullptr;
      const Node& named = rounded ? *rounded : *dequantize;
      Add(r_, named, Severity::kDiffers,
          Cat("its values are so small that the zero point is lost in the sum ", Describe(n)),
          Cat("--exclude '", named.name().empty() ? named.output(0)->name() : named.name(), "'"));
    }
  }

  /// It computes on the numbers themselves, without the bounds of the codes; also where these do
  /// the work of a Relu, so that nothing is left of the result.
  void CheckSaturation(const Node& n) {
    const DType t = n.output(0)->dtype();
    if (t == DType::kU16 || t == DType::kI16)
      Add(r_, n, Severity::kDiffers,
          "16-bit codes do not saturate: numbers beyond their range stay as they are",
          "--activations u8");
  }

  void CheckBlocks(const Node& n) {
    const int64_t block = n.Attr<int64_t>("block_size");
    if (block == 0) return;
    const Shape& shape = n.input(0)->shape();
    if (!shape.is_static())
      return Refuse(n, "blocks of a value of unknown shape", "--embeddings off, or --format nbits");
    const int64_t axis = n.Attr<int64_t>("axis");
    const int64_t extent = shape[static_cast<int>(axis)].value();
    if (extent % block != 0)
      Refuse(n, Cat("blocks of ", block, " do not divide ", extent),
             "--block 0 or a block that divides, or --format nbits");
  }

  static bool HasZeroPoint(const Node& n) {
    return n.input(2) && n.input(2)->is_constant() && n.input(2)->constant()->IntAt(0) != 0;
  }

  /// The QuantizeLinear that rounds what follows `n` element by element; nullptr where there is
  /// none.
  static const Node* RoundedBy(const Node& n) {
    const Node* at = &n;
    while (at && at->output(0)->uses().size() == 1) {
      at = at->output(0)->uses()[0].user;
      if (at && at->Is(Trait::kQuantize)) return at;
      if (at && !at->Is(Trait::kElementwise) && !at->Is(Trait::kUnary)) return nullptr;
    }
    return nullptr;
  }

  void CheckProduct(const Node& n) {
    const Node *x = DequantizedBy(n.input(0)), *w = DequantizedBy(n.input(1));
    if (!x || !w) return;
    if (!Is8Bit(x->input(0)->dtype()))
      return Slow(n, "16-bit activations are computed in f32", "--activations u8");
    if (IsConvolution(n) && w->input(0)->dtype() == DType::kU8)
      return Slow(n, "convolutions with u8 weights are computed in f32", "--weights s8");
    ++r_.kernels[std::string(n.op())];
  }

  TargetReport& r_;
  std::set<const Node*> joined_;  ///< convolutions that CheckBiases names
};

}  // namespace

void CheckOpenVino(const Graph& g, TargetReport& r) {
  OpenVinoChecker checker(r);
  ForEachNode(g, [&](const Node& n) { checker.Check(n); });
  checker.CheckBiases(g);
  ForEachNode(g, [&](const Node& n) { checker.CheckSignedConv(n); });
}

}  // namespace infer::target
