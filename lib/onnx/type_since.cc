#include "lib/onnx/type_since.h"

#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

enum class Where : uint8_t {
  kAny,   // every operand
  kData,  // input 0 and output 0
  kInput0,
  kInput1,
};

/// From `since` on, `ops` take `types` (and sequences, optionals) at these operands.
struct Row {
  int64_t since;
  TypeSet types;
  std::string_view ops;  // a space before and behind each
  Where where = Where::kAny;
  bool sequences = false, optionals = false;
};

constexpr TypeSet kNarrowInts(DType::kI8, DType::kI16, DType::kU8, DType::kU16);
constexpr TypeSet kWideInts(DType::kI32, DType::kI64, DType::kU32, DType::kU64);
constexpr TypeSet kBytes(DType::kI8, DType::kU8);
constexpr TypeSet kNoNumbers(DType::kBool, DType::kString, DType::kC64, DType::kC128);
constexpr TypeSet kBF16(DType::kBF16);
constexpr TypeSet kHalf(DType::kF16, DType::kBF16);

/// From the type constraints of all versions (onnx.defs).
constexpr Row kRows[] = {
    {2, kInts | kNoNumbers, " Split ", Where::kData},
    {4, kInts | kNoNumbers, " Concat ", Where::kData},
    {5, kInts | kNoNumbers, " Reshape ", Where::kData},
    {6, kInts | kNoNumbers, " Tile ", Where::kData},
    {6, kInts, " Abs Neg "},
    {6, kWideInts, " Add Div Mul Sub "},
    {9, kInts | kNoNumbers, " Flatten "},
    {9, kInts, " Greater Less "},
    {9, kWideInts, " Gemm MatMul PRelu "},
    {9, TypeSet(DType::kString), " Cast "},
    {11, (kInts - TypeSet(DType::kI32, DType::kI64)) | kFloats, " Equal "},
    {11, kInts, " Pad TopK ", Where::kData},
    {12, kInts, " Clip Max Min Pow "},
    {12, kBytes, " MaxPool ReduceMax ReduceMin "},
    {13, kNoNumbers, " Pad ", Where::kData},
    {13, {}, " If Loop ", Where::kAny, true},
    {14, {}, " Identity ", Where::kAny, true},
    {14, kBF16, " BatchNormalization "},
    {14, kHalf, " CumSum "},
    {14, kInts, " Relu "},
    {14, kNarrowInts, " Add Div Mul Sub "},
    {15, kBF16, " Pow ", Where::kInput1},
    {16, {}, " Identity ", Where::kAny, false, true},
    {16, kBF16, " GreaterOrEqual LeakyRelu LessOrEqual PRelu Scan Where "},
    {16, kBF16, " If Loop ", Where::kAny, false, true},
    {18, kInts | kNoNumbers | kFloats, " OptionalGetElement OptionalHasElement ", Where::kInput0,
     true},
    {19, kHalf, " DequantizeLinear QuantizeLinear "},
    {19, TypeSet(DType::kString), " Equal "},
    {20, kHalf | kFloat8, " IsInf "},
    {20, kBF16 | kFloat8, " ConstantOfShape "},
    {20, TypeSet(DType::kBool), " ReduceMax ReduceMin "},
    {20, kFloat8, " IsNaN "},
    {21, kHalf | kFloat8, " QLinearMatMul "},
    {21, kFloat8, " Flatten Pad Squeeze Transpose Unsqueeze "},
    {21, TypeSet(DType::kI16, DType::kU16), " DequantizeLinear QuantizeLinear "},
    {22, kBF16,
     " Acos Acosh Asin Asinh Atan Atanh AveragePool Bernoulli Conv ConvTranspose Cos Cosh "
     "DeformConv "
     "Det Elu EyeLike GRU GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample HardSigmoid "
     "HardSwish InstanceNormalization LSTM LpNormalization LpPool MaxPool MaxRoiPool MaxUnpool "
     "Mish "
     "Multinomial NegativeLogLikelihoodLoss RNN RandomNormal RandomNormalLike RandomUniform "
     "RandomUniformLike RoiAlign Round Selu Sin Sinh Softplus Softsign Tan ThresholdedRelu "},
    {22, kFloat8, " Dropout ", Where::kData},
    {24, kBF16, " SplitToSequence TopK ", Where::kData},
    {27, kHalf, " Range "},
};

bool Covers(const Row& row, const ValueType& type) {
  if (type.kind() == ValueType::Kind::kSequence) return row.sequences;
  if (type.kind() == ValueType::Kind::kOptional) return row.optionals;
  return type.is_tensor() && row.types.Has(type.tensor().dtype);
}

bool Applies(const Row& row, const Node& n) {
  const size_t own = n.inputs().size() - n.num_captures();
  const auto covered = [&](const Value* v) { return v && Covers(row, v->type()); };
  const auto input = [&](size_t i) { return i < own && covered(n.input(i)); };
  bool found = false;
  switch (row.where) {
    case Where::kAny:
      for (size_t i = 0; i < own; ++i) found = found || input(i);
      found = found || std::any_of(n.outputs().begin(), n.outputs().end(), covered);
      break;
    case Where::kData: found = input(0) || covered(n.outputs()[0]); break;
    case Where::kInput0: found = input(0); break;
    case Where::kInput1: found = input(1); break;
  }
  return found && row.ops.find(Cat(" ", n.op(), " ")) != std::string_view::npos;
}

}  // namespace

int64_t TypesOpsetOf(const Node& n) {
  int64_t opset = 1;
  // The axis came with opset 13: one scale for all before, also where the axis is the default.
  if (IsQuantizeOrDequantize(n) && n.input(1)->shape().has_rank() &&
      n.input(1)->shape().rank() > 0 &&
      !(n.input(1)->shape().rank() == 1 && n.input(1)->shape()[0] == Dim(1)))
    opset = 13;
  for (const Row& row : kRows)
    if (row.since > opset && Applies(row, n)) opset = row.since;
  return opset;
}

}  // namespace infer::onnx_io
