#pragma once
/// Depthwise convolution of images, one result per channel: a vector of channels at a time, whose
/// rows are copied to a ring of as many as the window reaches over, zeros beside them. There pixels
/// lie one vector apart whatever lies between them in the operand, and the window has no borders.
/// Operand and result lie channels last or plain.
#include <array>

#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/simd/depthwise.h"

namespace infer {

class RingDepthwise {
 public:
  /// Extents `src` [N, C, H, W] and `dst` [N, C, h, w]; `plain`: how both lie. Unsupported: a
  /// window of which much is zeros, or which reaches too far.
  static Result<RingDepthwise> Of(const Spatial& s, const Dims& src, const Dims& dst, bool plain,
                                  const Appended& appended);

  /// `w`: [C, 1, k, k] as [vector of channels][k][k][lanes], zeros behind the last channel.
  static std::shared_ptr<const Buffer> Pack(const Tensor& w);
  /// `w` from Pack(), `bias` [C] or nullptr. y holds the residual on entry, if there is one.
  void Run(const float* x, const float* w, const float* bias, float* y) const;
  const char* isa() const { return loop_->isa; }

 private:
  struct Axis {
    int64_t kernel = 1, stride = 1, dilation = 1, pad = 0, in = 1, out = 1;
    int64_t reach() const { return (kernel - 1) * dilation + 1; }
    double inside() const;
  };
  struct Strip;

  void Rows(const float* x, const float* w, const float* bias, float* y, int64_t begin,
            int64_t end) const;
  void Fill(const float* x, const Strip& s, int64_t row, float* to) const;
  void Some(const Strip& s, int64_t row, int64_t count, const float* const* ring, const float* w,
            float* y, float* results) const;
  int64_t Window(int64_t row, const float* const* ring, const float** window) const;
  simd::PixelsAt at(int64_t points, int64_t channels) const;

  /// Floats of the ring, which should stay in L1 with the weights, and of a row of results.
  static constexpr int64_t kRingFloats = 12288, kRowFloats = 1024, kMostRows = 64;

  const simd::Depthwise* loop_ = nullptr;
  Appended appended_;
  bool plain_ = false;
  int64_t images_ = 1, channels_ = 1;
  Axis rows_, columns_;
  int64_t width_ = 1;  ///< results of a row of a strip
  int64_t pitch_ = 1;  ///< pixels of a row of the ring
  int64_t by_ = 1;     ///< rows of results that are computed at a time
  int64_t held_ = 1;   ///< rows of the ring, after which comes one of zeros
};

}  // namespace infer
