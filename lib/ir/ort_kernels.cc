#include "lib/ir/ort_kernels.h"

#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int kNever = 99;
constexpr TypeSet kNarrow(DType::kI8, DType::kI16, DType::kU8, DType::kU16);
constexpr TypeSet kShort(DType::kI16, DType::kU16);
constexpr TypeSet kWideUnsigned(DType::kU32, DType::kU64);
constexpr TypeSet kWide = kWideUnsigned | TypeSet(DType::kI32, DType::kI64);
constexpr TypeSet kNoNumber(DType::kBool, DType::kString);
constexpr TypeSet kF64(DType::kF64);

/// `ops` have no kernel for an operand or result of `types` before 1.`since` (kNever: nor in the
/// newest).
struct Row {
  std::string_view ops;  // a space before and behind each
  TypeSet types;
  int since = kNever;
};

/// Measured by models of one operator. What is a function of the standard (LeakyRelu, Mish, ...)
/// runs in files of some opsets, as its nodes, and is refused in others.
constexpr Row kRows[] = {
    {" BitCast ", TypeSet(DType::kBool)},
    {" BitShift ", TypeSet(DType::kU16)},
    {" Clip Max Min Pad ", kShort},
    {" Pad ", TypeSet(DType::kString)},
    {" Pow TopK ", TypeSet(DType::kU64)},
    {" Where ", kShort | kWideUnsigned | TypeSet(DType::kI8)},
    {" Relu ", TypeSet(DType::kI16, DType::kI64)},
    {" DepthToSpace SpaceToDepth ", kShort | kWide | kNoNumber},
    {" Add Div Mul Sub Greater GreaterOrEqual Less LessOrEqual ", kNarrow, 21},
    {" Equal ", kUnsignedInts, 21},
    {" Cast CastLike ", TypeSet(DType::kI4, DType::kU4), 23},
    {" Gemm PRelu ", kWide},
    {" Erf HardSigmoid HardSwish LeakyRelu Elu Selu Softplus Softsign Mish Gelu GlobalAveragePool "
     "GlobalMaxPool ThresholdedRelu Hardmax Det Tan Atan PRelu Conv ConvTranspose AveragePool LRN "
     "InstanceNormalization ",
     kF64},
};

bool HasOperandOf(const Node& n, const TypeSet& types) {
  const auto has = [&](const Value* v) {
    return v && v->type().is_tensor() && types.Has(v->dtype());
  };
  return std::any_of(n.inputs().begin(), n.inputs().end(), has) ||
         std::any_of(n.outputs().begin(), n.outputs().end(), has);
}

bool IsMeant(const Row& row, const Node& n) {
  return n.def().domain.empty() && row.ops.find(Cat(" ", n.op(), " ")) != std::string_view::npos &&
         HasOperandOf(n, row.types);
}

}  // namespace

bool OrtLacksTypes(const Node& n, int minor) {
  return std::any_of(std::begin(kRows), std::end(kRows),
                     [&](const Row& row) { return minor < row.since && IsMeant(row, n); });
}

bool EveryOrtLacksTypes(const Node& n) { return OrtLacksTypes(n, kNever - 1); }

const Node* AddOfOrtGemm(const Node& product, int minor) {
  constexpr int kKnownExtents = 21;
  const Value* const y = product.output(0);
  if (!IsMatrixProduct(product) || TakesBias(product) || !y->has_one_use()) return nullptr;
  const Node& add = *y->uses()[0].user;
  const Value* const added = AddedTo(y, add);
  const Shape& x = product.input(0)->shape();
  const Shape& w = product.input(1)->shape();
  if (!added || !x.has_rank() || x.rank() < 2 || !w.has_rank() || w.rank() != 2) return nullptr;
  const Node* const dequantize = DequantizeBefore(added);
  const Value* const vector = dequantize ? dequantize->input(0) : added;
  if (!vector->is_constant()) return nullptr;
  const int rank = vector->constant()->rank();
  if (rank != 1 && !(rank == 2 && x.rank() == 2)) return nullptr;
  return x.rank() == 2 || (minor >= kKnownExtents && x.is_static()) ? &add : nullptr;
}

}  // namespace infer
