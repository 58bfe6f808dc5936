/// What ONNX Runtime's CPU provider lacks, measured with ONNX's backend test cases written at the
/// newest opset that each version reads, one-operator models of every float type, and the files of
/// our quantizer.
#include "lib/ir/ort_kernels.h"

#include <algorithm>

#include "lib/ir/mask_bounds.h"
#include "quant/target/checks.h"
#include "quant/target/half.h"

namespace infer::target {
namespace {

constexpr int kNever = 99;

/// `ops` have no kernel before 1.`since` (kNever: not in the newest either) in files of `opset` and
/// later, whatever the types.
struct Lack {
  std::string_view ops;
  int since = kNever;
  int64_t opset = 0;
  std::string_view domain = {};
};

const Lack kLacks[] = {
    {" ImageDecoder "},
    {" FlexAttention ", kNever, 0, "ai.onnx.preview"},
    {" TreeEnsemble ", 21, 0, "ai.onnx.ml"},
    {" DeformConv ", 30},
    {" LpNormalization ", 30, 22},
    {" RoiAlign ", kNever, 22},
    {" QuantizeLinear ", 24, 23},
    {" Swish ", kNever, 24},
    {" TensorScatter ", 30, 24},
};

/// The only operators with bfloat16 kernels.
constexpr std::string_view kBf16 =
    " Identity Sign IsNaN IsInf Flatten Transpose Shape Concat Reshape Squeeze Unsqueeze Gather "
    "Slice Cast CastLike Split LayerNormalization Constant If Loop Scan ";

bool HasType(const Value* v, const TypeSet& types) {
  return v && v->type().is_tensor() && types.Has(v->dtype());
}
bool HasOperandOf(const Node& n, const TypeSet& types) {
  const auto has = [&](const Value* v) { return HasType(v, types); };
  return std::any_of(n.inputs().begin(), n.inputs().end(), has) ||
         std::any_of(n.outputs().begin(), n.outputs().end(), has);
}

class KernelChecker {
 public:
  KernelChecker(const FileVersions& file, const Target& t, TargetReport& r)
      : file_(file), t_(t), r_(r) {}

  void Check(const Node& n) {
    for (const Lack& l : kLacks) {
      if (l.domain != n.def().domain || t_.minor >= l.since || file_.opset < l.opset) continue;
      if (!Lists(l.ops, n.op())) continue;
      Refuse(n, "has no kernel there",
             l.opset > 0 ? Cat("--opset ", l.opset - 1) : "another operator");
    }
    if (OrtLacksTypes(n, t_.minor))
      Refuse(n, "has no kernel for these element types there", "another element type");
    if (IsAttentionHiddenByLowest(n))
      Add(r_, n, Severity::kDiffers,
          "of a query whose keys are all masked by the lowest number it makes 0, the standard the "
          "mean of the values",
          Cat("write it with --target ", t_.name));
    static const TypeSet kBf16Type(DType::kBF16);
    if (n.def().domain.empty() && HasOperandOf(n, kBf16Type) && !Lists(kBf16, n.op()))
      Refuse(n, "has no bf16 kernel there", "--mode fp16");
    static const TypeSet kF16Type(DType::kF16);
    if (n.def().domain.empty() && HasOperandOf(n, kF16Type))
      if (std::string why = WhyOrtLacksHalf(n); !why.empty())
        Refuse(n, why, "f32 there, as --mode fp16 keeps it");
    if (n.Is("MatMulNBits", kMicrosoft)) CheckNBits(n);
    if (n.Is("GatherBlockQuantized", kMicrosoft)) CheckGatherBlock(n);
    if (n.Is("ConvInteger") && t_.minor < 24 && HasType(n.input(1), TypeSet(DType::kI8)))
      Refuse(n, "takes no s8 weights before ort-1.24", "--dynamic-conv off, or --mode static");
  }

 private:
  void Refuse(const Node& n, std::string_view what, std::string remedy) {
    Add(r_, n, Severity::kError, std::string(what), std::move(remedy));
  }

  void CheckNBits(const Node& n) {
    const int64_t bits = n.Attr<int64_t>("bits");
    const int since = bits == 4 ? 0 : bits == 8 ? 22 : 24;
    if (t_.minor >= since) return;
    Refuse(n, Cat(bits, "-bit MatMulNBits exists since ort-1.", since), "--bits 4");
  }

  void CheckGatherBlock(const Node& n) {
    const int64_t bits = n.Attr<int64_t>("bits");
    const bool packed = HasType(n.input(0), TypeSet(DType::kU8));
    constexpr int kFirst = 20;  // that has the operator
    const int since = bits == 2 ? 30 : packed ? 22 : kFirst;
    if (t_.minor >= since) return;
    Refuse(n,
           t_.minor < kFirst ? Cat("exists since ort-1.", kFirst)
                             : Cat(bits, "-bit codes in bytes are taken since ort-1.", since),
           "--embeddings off, or --format qdq");
  }

  const FileVersions& file_;
  const Target& t_;
  TargetReport& r_;
};

}  // namespace

void CheckOrtKernels(const Graph& g, const FileVersions& file, const Target& t, TargetReport& r) {
  KernelChecker checker(file, t, r);
  ForEachNode(g, [&](const Node& n) { checker.Check(n); });
}

}  // namespace infer::target
