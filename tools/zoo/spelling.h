#pragma once
/// How exporters spell what ONNX has no operator for, or had none when they were written. The same
/// network with the same weights in every style: the outputs agree, the nodes do not.
///
/// | style      | exporter                     | its marks |
/// |------------|------------------------------|-----------|
/// | pytorch    | torch.onnx.export, TorchScript, opset 14 | x / sqrt 2 in Gelu, Pow(d, 2), scores
/// / 8 | | onnxscript | torch.onnx.export, dynamo, opset 18      | LayerNormalization, W transposed
/// by a node, both operands of the scores scaled by 8^-0.5 | | tf         | tf2onnx, opset 15 |
/// matrices of rank 2, rsqrt * gamma, beta - mean * that; BatchNormalization as Mul and Add; masks
/// that add -10000 | | jax        | jax2onnx and the like, opset 15 | variance E[x^2] - E[x]^2,
/// Einsum, Softmax by Max, Sub, Exp, Sum, Div; x^3 as products |
#include "tools/zoo/net.h"

namespace infer::spelling {

/// (x - mean) / sqrt(var + epsilon) * gamma + beta over the last axis.
Value* LayerNorm(Net& net, Value* x, Value* gamma, Value* beta, float epsilon);
Value* GeluErf(Net& net, Value* x);
/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
Value* GeluTanh(Net& net, Value* x);
Value* HardSigmoid(Net& net, Value* x);  ///< clip(x / 6 + 0.5, 0, 1)
Value* HardSwish(Net& net, Value* x);
Value* Silu(Net& net, Value* x);
/// x [batch, tokens, k] * w [k, outputs] + bias.
Value* Linear(Net& net, Value* x, Value* w, Value* bias);
/// gamma, beta, mean, variance: one number per channel (axis 1).
Value* BatchNorm(Net& net, Value* x, const Values& parameters, const BatchNormOptions& o);

struct AttentionOperands {
  Value *query = nullptr, *key = nullptr, *value = nullptr;  ///< [batch, tokens, heads * extent]
  int64_t heads = 0;
  /// 1 where a key is seen, f32 [batch, 1, 1, keys]; null: all are.
  Value* seen = nullptr;
  bool causal = false;                               ///< by a constant mask
  Value *past_key = nullptr, *past_value = nullptr;  ///< [batch, heads, past, extent]
  Value **present_key = nullptr, **present_value = nullptr;
};
/// softmax(query key^T / sqrt(extent)) value as [batch, tokens, heads * extent]; not for pytorch,
/// whose architectures differ in it.
Value* Attention(Net& net, const AttentionOperands& a);

}  // namespace infer::spelling
