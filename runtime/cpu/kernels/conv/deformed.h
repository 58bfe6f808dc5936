#pragma once
/// What the points of a DeformConv of two dimensions read: taps of blocks of points, for both of
/// its kernels.
#include "lib/ops/conv/conv_geometry.h"
#include "runtime/cpu/simd/samples.h"
#include "runtime/plan_ir/kernel.h"

namespace infer {

struct Deformed {
  int64_t batch = 1, channels = 1, groups = 1, offset_groups = 1;
  int64_t height = 1, width = 1;  ///< of an image
  int64_t results = 1;            ///< channels of y
  int64_t outputs = 1;            ///< points of an image of y
  int64_t output_width = 1;
  int64_t positions = 1;  ///< of the kernel
  WindowAxis rows, columns;

  /// Unsupported: not of two dimensions, or images too large for places of 32 bits.
  static Result<Deformed> Of(const Node& node, const Dims& x, const Dims& w, const Dims& y);

  int64_t points() const { return batch * outputs; }
  int64_t group_channels() const { return channels / groups; }
  int64_t offset_channels() const { return channels / offset_groups; }
  int64_t depth() const { return group_channels() * positions; }
};

/// Points of one image of y, at most simd::kSampleBlock of them, and the taps of one position.
class DeformedBlock {
 public:
  DeformedBlock(const Deformed& d, int64_t image, int64_t first, int64_t count);

  /// Taps of offset group `k` at position `p`, in at() and weight(); `mask` may be nullptr.
  void Find(const float* offset, const float* mask, int64_t k, int64_t p);

  int64_t image() const { return image_; }
  int64_t count() const { return count_; }
  const int32_t* at() const { return at_; }
  const float* weight() const { return weight_; }
  const float* factor() const { return factor_; }  ///< of each point; nullptr: none

 private:
  const Deformed& d_;
  const simd::Samples& loops_;
  int64_t image_, first_, count_;
  const float* factor_ = nullptr;
  int32_t top_[simd::kSampleBlock], left_[simd::kSampleBlock], at_[4 * simd::kSampleBlock];
  float weight_[4 * simd::kSampleBlock];
};

/// "" or why no kernel of ours takes the step.
std::string RefuseDeformed(const StepCall& call);

}  // namespace infer
