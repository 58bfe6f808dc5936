#pragma once
/// The rules of gradients.cc's table, by family; what they promise stands in gradients.h.
#include "lib/ops/gradients/gradients.h"

namespace infer {

#define INFER_GRADIENT(name) \
  Result<std::string> GradientOf##name(const OpCall& call, std::span<const size_t> wanted)

// gradients_elements.cc
INFER_GRADIENT(Function);  ///< smooth functions of one operand, Relu and Abs
INFER_GRADIENT(Neg);
INFER_GRADIENT(Identity);
INFER_GRADIENT(Cast);
INFER_GRADIENT(Pieces);  ///< LeakyRelu, ThresholdedRelu, Elu, Selu
INFER_GRADIENT(HardSigmoid);
INFER_GRADIENT(Clip);
INFER_GRADIENT(PRelu);
INFER_GRADIENT(Dropout);
INFER_GRADIENT(Sum);  ///< Add, Sum, Mean
INFER_GRADIENT(Sub);
INFER_GRADIENT(Mul);
INFER_GRADIENT(Div);
INFER_GRADIENT(Pow);
INFER_GRADIENT(Extreme);  ///< Max, Min
INFER_GRADIENT(Where);

// gradients_codes.cc
INFER_GRADIENT(Quantize);
INFER_GRADIENT(Dequantize);

// gradients_rows.cc
INFER_GRADIENT(Reduction);
INFER_GRADIENT(Softmax);  ///< Softmax, LogSoftmax
INFER_GRADIENT(RowNorm);  ///< LayerNormalization, RMSNormalization
INFER_GRADIENT(BatchNorm);
INFER_GRADIENT(InstanceNorm);

// gradients_products.cc
INFER_GRADIENT(MatMul);
INFER_GRADIENT(Gemm);

// gradients_windows.cc
INFER_GRADIENT(Conv);
INFER_GRADIENT(ConvTranspose);
INFER_GRADIENT(MaxPool);
INFER_GRADIENT(AveragePool);
INFER_GRADIENT(GlobalPool);  ///< GlobalAveragePool, GlobalMaxPool

// gradients_move.cc
INFER_GRADIENT(View);  ///< Reshape, Flatten, Squeeze, Unsqueeze
INFER_GRADIENT(Transpose);
INFER_GRADIENT(Expand);
INFER_GRADIENT(Tile);
INFER_GRADIENT(Concat);
INFER_GRADIENT(Split);
INFER_GRADIENT(Slice);
INFER_GRADIENT(Pad);
INFER_GRADIENT(Gather);
INFER_GRADIENT(GatherElements);

#undef INFER_GRADIENT

}  // namespace infer
