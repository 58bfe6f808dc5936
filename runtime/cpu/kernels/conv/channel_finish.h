#pragma once
/// Bias, residual and activation behind a product whose results are there: for primitives of oneDNN
/// that compute them by plain loops, as its transposed convolutions do
/// (docs/adr/0062-behind-transposed-convolutions.md).
#include "runtime/cpu/kernels/common/appended.h"

namespace infer {

/// Bias, residual and activation over f32 [images, channels, points].
struct ChannelFinish {
  int64_t images = 1, channels = 1, points = 1;
  /// Channels that lie side by side at each point, as of ChannelBlockOf; 0: plain.
  int64_t block = 0;
  Appended appended;  ///< its residual is an operand of its own, which lies as the results do

  bool any(bool bias) const { return bias || appended.residual >= 0 || appended.function; }
  /// In place. bias: by channel; nullptr where there is none. residual: likewise. Channels that pad
  /// the last block stay 0.
  void Run(const float* bias, const float* residual, float* y) const;

 private:
  /// `count` points of the block of channels that begins with `first`, or of one plain channel.
  void Part(const float* bias, int64_t first, int64_t count, const float* residual, float* y) const;
};

}  // namespace infer
