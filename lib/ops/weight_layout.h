#pragma once
/// How a linear operator (Conv, ConvTranspose, Gemm, MatMul) multiplies input 0 by its weights,
/// input 1: what scaling, folding and rounding of channels need, whatever the operator.
#include <cstddef>
#include <cstdint>

#include "lib/support/function_ref.h"
#include "lib/tensor/tensor.h"

namespace infer {

struct WeightLayout {
  int data_axis = -1;  ///< channels of input 0; negative: from the end
  int in_axis = -2;    ///< of the weights: channels of input 0; negative: from the end
  int out_axis = -1;   ///< of the weights: channels of the result
  int64_t groups = 1;
  /// The axis of the weights that counts within a group: that of the inputs (Conv) or of the
  /// outputs (ConvTranspose).
  bool outputs_in_groups = false;
  bool is_window = false;  ///< the weights have spatial axes beside these two
  /// An element of input 0 is spread over a window of the result (ConvTranspose), instead of a
  /// window of input 0 being summed (Conv).
  bool spreads = false;
  bool data_transposed = false;  ///< rows of input 0 are channels (Gemm's transA)
  bool has_bias =
      false;  ///< operand 2 is added, one number per channel of the result or broadcast to it
  float alpha = 1, beta = 1;  ///< factors of the product and of the bias (Gemm)

  /// Channels of the whole input, of the whole result, of weights with extents `w`. Pre: both axes
  /// exist.
  int64_t InputChannels(const Dims& w) const;
  int64_t OutputChannels(const Dims& w) const;
  /// Calls f(element, input channel, output channel) for every weight, in their order.
  void ForEach(const Dims& w, FunctionRef<void(size_t, int64_t, int64_t)> f) const;
  /// The weights lie output channels first: [out, in, ...].
  bool rows_are_outputs() const { return out_axis == 0; }
};

}  // namespace infer
