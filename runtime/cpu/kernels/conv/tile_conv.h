#pragma once
/// Convolution and transposed convolution of one to three dimensions, any window, stride, dilation,
/// padding and groups: tiles of points by one or two vectors of results, each sum over the taps
/// that lie inside of the operand, or over all of a copy with zeros around it where that leaves
/// fewer tiles half empty. The channels of a group stand side by side: operands that lie otherwise
/// are copied first.
#include <memory>

#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/kernels/conv/same_taps.h"
#include "runtime/cpu/simd/tiles.h"

namespace infer {

/// How operand and result lie: [N, C, i...], in blocks of `lanes` channels, or channels last.
enum class ConvForm : uint8_t { kPlain, kBlocks, kLast };

class TileConv {
 public:
  /// Extents `src` [N, C, i...] and `dst` [N, M, o...]. Pre: channels and results of a group are
  /// whole vectors for kBlocks.
  static TileConv Of(const Spatial& s, bool transposed, int64_t groups, const Dims& src,
                     const Dims& dst, const Appended& appended, ConvForm form);

  /// `w`: [M, C / groups, k...], transposed [C, M / groups, k...]; as [group][panel][tap][channel]
  /// [vectors of results], zeros in the padding. It depends on nothing but `groups`.
  std::shared_ptr<const Buffer> Pack(const Tensor& w, bool transposed) const;
  /// [group][panel][vectors of results].
  std::shared_ptr<const Buffer> PackBias(const Tensor& bias) const;
  /// Of the operand's copy; 0: it is read where it lies.
  int64_t scratch_bytes() const;
  /// `w` and `bias` (or nullptr) as packed. y holds the residual on entry, if there is one. The
  /// same bits for any number of threads.
  void Run(const float* x, const float* w, const float* bias, float* y, float* scratch) const;

  const char* isa() const { return loop_->isa; }

 private:
  /// Some points of a set, which a lane computes by some panels.
  struct Chunk {
    const TapSet* set;
    int64_t first, count;
  };
  struct Place;

  int64_t panels() const { return BlocksOf(of_group_, width()); }
  int64_t width() const { return 2 * int64_t{loop_->lanes}; }
  /// Vectors and results of a panel of a group.
  int vectors(int64_t panel) const { return results(panel) > loop_->lanes ? 2 : 1; }
  int64_t results(int64_t panel) const { return std::min(width(), of_group_ - panel * width()); }
  int64_t padded() const;  ///< results of a group
  bool copies() const {
    return is_padded_ || (form_ != ConvForm::kLast && channels_ * groups_ > 1);
  }
  void ChooseTaps(Spatial s, bool transposed, const Dims& src, const Dims& dst);
  double CostOf(const SameTaps& taps) const;
  void Cut();
  void Copy(const float* x, float* to) const;
  void CopyPart(const float* x, int64_t row, int64_t first, float* to) const;
  void CopyPixels(const float* x, int64_t image, int64_t g, int64_t pixel, int64_t count,
                  float* to) const;
  void Compute(const Chunk& chunk, int64_t begin, int64_t end, const float* x, const float* w,
               const float* bias, float* y) const;
  void Find(const Chunk& chunk, Place& place) const;
  int64_t At(int64_t pixel) const;
  bool Direct(int64_t panel) const;
  void Panel(const Place& place, const float* w, const float* bias) const;
  void Deliver(const Place& place, float* tile) const;
  void DeliverPlain(const Place& place, const float* tile) const;

  const simd::Tiles* loop_ = nullptr;
  Appended appended_;
  ConvForm form_ = ConvForm::kLast;
  int64_t images_ = 1, groups_ = 1;
  int64_t channels_ = 1, of_group_ = 1;          ///< channels and results of a group
  int64_t in_ = 1, out_ = 1;                     ///< pixels of an image
  int64_t pixel_floats_ = 1, group_floats_ = 1;  ///< from one to the next, of what is read
  /// Of the copy: extents of operand and copy, zeros before the operand.
  std::array<int64_t, 3> from_ = {1, 1, 1}, copy_ = {1, 1, 1}, before_ = {0, 0, 0};
  bool is_padded_ = false;
  int64_t taps_ = 1;
  std::shared_ptr<const SameTaps> taps_of_;
  std::vector<Chunk> chunks_;
  int64_t shares_ = 1;  ///< of all panels, that lanes take apart
};

}  // namespace infer
