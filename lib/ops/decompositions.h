#pragma once
/// The operators that the standard defines as functions, in terms of older operators: text graphs
/// made for one call (see OpDef::decompose). Sources: the function bodies of ONNX's operator
/// documentation (docs/Operators.md, "Function Body" and the formulas of each operator).
#include "lib/ops/op_def.h"

namespace infer {

/// Gelu, Mish, HardSwish, Swish, Celu.
Result<std::string> DecomposeActivation(const OpCall& call);
/// GreaterOrEqual, LessOrEqual.
Result<std::string> DecomposeOrEqual(const OpCall& call);
/// Gemm that adds C: the product, then the sum.
Result<std::string> DecomposeGemm(const OpCall& call);
/// Einsum of up to 16 floating point operands, contracted two at a time, smallest result first.
/// Unsupported for a letter that stands twice in a term, and for summed letters whose extents are
/// not known to be equal.
Result<std::string> DecomposeEinsum(const OpCall& call);
/// FusedConv, FusedGemm, FusedMatMul of com.microsoft.
Result<std::string> DecomposeFusedConv(const OpCall& call);
Result<std::string> DecomposeFusedGemm(const OpCall& call);
Result<std::string> DecomposeFusedMatMul(const OpCall& call);
Result<std::string> DecomposeCastLike(const OpCall& call);
/// LayerNormalization, RMSNormalization.
Result<std::string> DecomposeRowNorm(const OpCall& call);
Result<std::string> DecomposeGroupNorm(const OpCall& call);
Result<std::string> DecomposeRotary(const OpCall& call);
Result<std::string> DecomposeAttention(const OpCall& call);
/// MultiHeadAttention and Attention of com.microsoft, as Attention of ai.onnx.
Result<std::string> DecomposeMultiHeadAttention(const OpCall& call);
Result<std::string> DecomposeContribAttention(const OpCall& call);
/// NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss.
Result<std::string> DecomposeLoss(const OpCall& call);
/// HannWindow, HammingWindow, BlackmanWindow.
Result<std::string> DecomposeWindow(const OpCall& call);
Result<std::string> DecomposeCenterCropPad(const OpCall& call);
/// Mode CRD came with opset 11. Unsupported: channels, height or width are not known.
Result<std::string> DecomposeDepthToSpace(const OpCall& call);
Result<std::string> DecomposeAffineGrid(const OpCall& call);
Result<std::string> DecomposeLinearAttention(const OpCall& call);
Result<std::string> DecomposeCausalConv(const OpCall& call);
/// ConvWeightGradient of domain infer: products by sample (gradients_windows.cc).
Result<std::string> DecomposeConvWeightGradient(const OpCall& call);

}  // namespace infer
