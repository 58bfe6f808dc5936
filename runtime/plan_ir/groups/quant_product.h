#pragma once
/// What every integer kernel, of whatever backend, of DQ -> Conv | MatMul | Gemm [-> activations]
/// [-> Q] must know.
///
/// With x = (q_x - z_x) s_x and w = q_w s_w (per output channel), y = s_x s_w (sum (q_x - z_x) q_w
/// + b / (s_x s_w)): an exact s32 sum, one f32 scale per channel, the activations in f32, then the
/// rounding to the result's scale and zero point. Against the QDQ graph only the order of the last
/// f32 operations differs: one quantum, where the exact result is within some 1e-5 of a half. The
/// constants of those operations are made here, once, so that all kernels round alike. Without
/// activations, or with Relu or Clip, they are those of QLinearConv: with sums below 2^24 the
/// result has its bits.
#include "runtime/plan_ir/groups/quant_group.h"

namespace infer {

/// Where the output channels of the weights stand: MatMul and Gemm [K, N], Conv [M, ...], and with
/// transB [N, K].
bool ChannelsFirst(const Node& n);

/// Weights as s8 with zero point 0; undefined when some does not fit.
Tensor SymmetricWeights(const QuantInput& w, int64_t channels, bool channels_first);
/// The same of their `elements`, which w.constant may have lost.
Tensor SymmetricWeights(const QuantInput& w, const Tensor& elements, int64_t channels,
                        bool channels_first);
/// Whether these are the weights as they are.
bool AreSymmetric(const QuantInput& w);

/// What follows the product of a group with a residual, in f32 and in units of the result.
struct SumIn8Bits {
  explicit SumIn8Bits(const QuantGroup& g);
  static int32_t Lowest(const QuantParams8& p) { return p.dtype == DType::kU8 ? 0 : -128; }

  float lo, hi;              ///< bounds of the product's quanta
  float scale, other_scale;  ///< of them and of the other operand's
};

/// So many products of 8-bit numbers, less their zero points, may be added up in 32 bits.
inline constexpr int64_t kMostByteProducts = ((int64_t{1} << 31) - 1) / (int64_t{255} * 128);

/// What the step must be for any of these kernels, a residual aside; "" when it is. `folds`:
/// whether the kernel takes this activation.
std::string RefuseQuantProduct(const StepCall& call, FunctionRef<bool(const Node&)> folds);

/// (sum + bias) * scales, the activations, times `to_quanta` gives the quanta of the first
/// quantization behind the product.
struct ProductScales {
  std::vector<float> scales;  ///< one, or one per output channel
  Tensor bias;                ///< f32 [channels], in units of the sum; undefined: none
  float to_quanta = 1;        ///< 1 where it is in the scales, or nothing is quantized
  /// A single Clip, in quanta less the zero point; it stands for the activations then.
  std::optional<std::pair<float, float>> bounds;
};
ProductScales ScalesOf(const StepCall& call, const QuantGroup& group, int64_t channels);

}  // namespace infer
