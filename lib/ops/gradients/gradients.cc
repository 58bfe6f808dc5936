#include "lib/ops/gradients/gradients.h"

#include "lib/ops/gradients/gradients_families.h"

namespace infer {
namespace {

struct Rule {
  std::string_view op;  ///< of ai.onnx
  GradientFn gradient;
};

/// Operators that are not here are differentiated through their decomposition or body, if they have
/// one: Gelu, HardSwish, Swish, Mish, Attention, GroupNormalization, ...
constexpr Rule kRules[] = {
    {"Sqrt", GradientOfFunction},
    {"Exp", GradientOfFunction},
    {"Log", GradientOfFunction},
    {"Erf", GradientOfFunction},
    {"Sin", GradientOfFunction},
    {"Cos", GradientOfFunction},
    {"Tan", GradientOfFunction},
    {"Asin", GradientOfFunction},
    {"Acos", GradientOfFunction},
    {"Atan", GradientOfFunction},
    {"Sinh", GradientOfFunction},
    {"Cosh", GradientOfFunction},
    {"Tanh", GradientOfFunction},
    {"Asinh", GradientOfFunction},
    {"Acosh", GradientOfFunction},
    {"Atanh", GradientOfFunction},
    {"Reciprocal", GradientOfFunction},
    {"Abs", GradientOfFunction},
    {"Relu", GradientOfFunction},
    {"Sigmoid", GradientOfFunction},
    {"Softplus", GradientOfFunction},
    {"Softsign", GradientOfFunction},
    {"Neg", GradientOfNeg},
    {"Identity", GradientOfIdentity},
    {"Cast", GradientOfCast},
    {"LeakyRelu", GradientOfPieces},
    {"ThresholdedRelu", GradientOfPieces},
    {"Elu", GradientOfPieces},
    {"Selu", GradientOfPieces},
    {"HardSigmoid", GradientOfHardSigmoid},
    {"Clip", GradientOfClip},
    {"PRelu", GradientOfPRelu},
    {"Dropout", GradientOfDropout},
    {"Add", GradientOfSum},
    {"Sum", GradientOfSum},
    {"Mean", GradientOfSum},
    {"Sub", GradientOfSub},
    {"Mul", GradientOfMul},
    {"Div", GradientOfDiv},
    {"Pow", GradientOfPow},
    {"Max", GradientOfExtreme},
    {"Min", GradientOfExtreme},
    {"Where", GradientOfWhere},
    {"ReduceSum", GradientOfReduction},
    {"ReduceMean", GradientOfReduction},
    {"ReduceMax", GradientOfReduction},
    {"ReduceMin", GradientOfReduction},
    {"ReduceProd", GradientOfReduction},
    {"ReduceL1", GradientOfReduction},
    {"ReduceL2", GradientOfReduction},
    {"ReduceSumSquare", GradientOfReduction},
    {"ReduceLogSum", GradientOfReduction},
    {"ReduceLogSumExp", GradientOfReduction},
    {"Softmax", GradientOfSoftmax},
    {"LogSoftmax", GradientOfSoftmax},
    {"LayerNormalization", GradientOfRowNorm},
    {"RMSNormalization", GradientOfRowNorm},
    {"BatchNormalization", GradientOfBatchNorm},
    {"InstanceNormalization", GradientOfInstanceNorm},
    {"MatMul", GradientOfMatMul},
    {"Gemm", GradientOfGemm},
    {"Conv", GradientOfConv},
    {"ConvTranspose", GradientOfConvTranspose},
    {"MaxPool", GradientOfMaxPool},
    {"AveragePool", GradientOfAveragePool},
    {"GlobalAveragePool", GradientOfGlobalPool},
    {"GlobalMaxPool", GradientOfGlobalPool},
    {"Reshape", GradientOfView},
    {"Flatten", GradientOfView},
    {"Squeeze", GradientOfView},
    {"Unsqueeze", GradientOfView},
    {"Transpose", GradientOfTranspose},
    {"Expand", GradientOfExpand},
    {"Tile", GradientOfTile},
    {"Concat", GradientOfConcat},
    {"Split", GradientOfSplit},
    {"Slice", GradientOfSlice},
    {"Pad", GradientOfPad},
    {"Gather", GradientOfGather},
    {"GatherElements", GradientOfGatherElements},
    {"QuantizeLinear", GradientOfQuantize},
    {"DequantizeLinear", GradientOfDequantize},
};

}  // namespace

GradientFn FindGradient(const OpDef& def) {
  if (!def.domain.empty()) return nullptr;
  for (const Rule& rule : kRules)
    if (rule.op == def.name) return rule.gradient;
  return nullptr;
}

}  // namespace infer
