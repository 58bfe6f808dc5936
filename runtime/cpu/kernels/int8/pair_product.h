#pragma once
/// Convolution (also grouped and depthwise) and matrix product of 8-bit tensors with exact sums, on
/// simd::Pairs: for instruction sets on which oneDNN's products saturate, and for groups that it
/// gathers. Channels last, as
/// oneDNN's integer kernels, so that chains have no reorders. The image is widened to 16 bits, less
/// its zero point and with zeros around it, and multiplied where it lies: a row of the product is a
/// pixel, k runs over the taps of the window, each a stretch of the image.
/// What it gains: docs/adr/0011-every-instruction-set.md.
#include "lib/support/function_ref.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/simd/pairs.h"

namespace infer {

/// What of a product hangs on the node alone.
struct PairProduct {
  const simd::Pairs* pairs = nullptr;
  simd::AfterSum after = {};  ///< bias and scale as PadColumns lays them out
  int64_t depth = 0;          ///< channels of the operand, each `repeat` times
  int64_t repeat = 1;         ///< results of a channel that is by itself
  int64_t columns = 0;        ///< channels of the result
  int64_t groups = 1;
  Dims window = {1, 1, 1}, dilations = {1, 1, 1};  ///< three axes; ones ahead where there are fewer
  bool is_signed = false;
  int32_t zero = 0;  ///< of the operand

  bool depthwise() const { return groups > 1 && groups == depth && groups == columns; }
  /// The taps of a row of the window lie side by side: they are one.
  bool merged() const { return groups == 1 && dilations[2] == 1; }
  int64_t taps() const { return window[0] * window[1] * (merged() ? 1 : window[2]); }
  int64_t run() const { return depth / groups * (merged() ? window[2] : 1); }  ///< numbers per tap
  int64_t width() const { return int64_t{depthwise() ? 1 : 2} * pairs->lanes; }
  int64_t panels_of_group() const { return (group_columns() + width() - 1) / width(); }
  int64_t panels() const { return panels_of_group() * (depthwise() ? 1 : groups); }
  int64_t group_columns() const { return depthwise() ? columns : columns / groups; }

  /// w(n, c, t) at n * n_stride + c * c_stride + t, t the tap in the window's order.
  std::shared_ptr<const Buffer> Pack(const int8_t* w, int64_t n_stride, int64_t c_stride) const;
  /// The same of weights that take 9 bits: |w| <= 255. Pre: depthwise(), whose panels have 16 bits.
  std::shared_ptr<const Buffer> PackWide(const int16_t* w, int64_t n_stride) const;
  /// f(column) for the columns of every panel; what is no column is 0.
  template <typename F>
  std::shared_ptr<const Buffer> PadColumns(const F& f) const {
    auto buffer = Buffer::Allocate(static_cast<size_t>(panels() * width()) * sizeof(float));
    float* to = reinterpret_cast<float*>(buffer->mutable_data());
    for (int64_t p = 0; p < panels(); ++p)
      for (int64_t j = 0; j < width(); ++j)
        to[p * width() + j] = j < columns_of(p) ? f(first_column(p) + j) : 0.0f;
    return buffer;
  }
  int64_t first_column(int64_t panel) const {
    return panel / panels_of_group() * group_columns() + panel % panels_of_group() * width();
  }
  int64_t columns_of(int64_t panel) const {
    return std::min(width(), group_columns() - panel % panels_of_group() * width());
  }
};

/// With what hangs on the shapes.
struct PlacedPairs {
  PairProduct product;
  int64_t images = 1;
  Dims image, pads = {0, 0, 0}, padded;  ///< extents of three axes: given, zeros ahead, with zeros
  std::vector<int32_t> rows, taps;       ///< where they start in the padded image

  /// `spatial` has the axes of `dst`, the extents of the result. Unsupported: too large.
  static Result<PlacedPairs> Make(const PairProduct& product, int64_t images, const Dims& src,
                                  const Dims& dst, const Spatial& spatial);
  /// What a run may have of its own.
  struct OfRun {
    int32_t zero = 0;
    simd::AfterSum after;
    /// Called when a row's results of a group are there, with the sum of the operands, less their
    /// zero point, that the row reads of the group. On several threads, for different rows.
    using OnRow = FunctionRef<void(int64_t row, int64_t group, int32_t sum)>;
    const OnRow* on_row = nullptr;  ///< nullptr: nobody asks
  };
  int64_t scratch_bytes() const;
  void Run(const std::byte* x, const std::byte* w, const std::byte* other, std::byte* y,
           std::byte* scratch) const {
    Run(x, w, other, y, scratch, {product.zero, product.after});
  }
  void Run(const std::byte* x, const std::byte* w, const std::byte* other, std::byte* y,
           std::byte* scratch, const OfRun& run) const;

 private:
  void Widen(const std::byte* x, int32_t zero, int16_t* to) const;
  /// Of the numbers that a row reads of a group.
  int32_t RowSum(const int16_t* image_at, int64_t row, int64_t group) const;
  /// `count` pixels from `first` on, of one panel.
  void Tiles(const simd::AfterSum& after, const int16_t* image_at, const std::byte* w,
             const std::byte* other, std::byte* y, int64_t panel, int64_t first,
             int64_t count) const;
};

}  // namespace infer
