#pragma once
/// y = finish(x w) for u8 or s8 rows and constant s8 weights most of which are zero: products of
/// matrices, and convolutions of any window of one group. Weights of four inputs by sixteen outputs
/// that are all zero are neither stored nor multiplied. Sums of integers: the same bits as dense.
/// Gain over the dense kernels: docs/pruning.md, docs/adr/0063-sparse-byte-products.md.
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "lib/support/function_ref.h"
#include "lib/tensor/tensor.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/kernels/int8/byte_gemm.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {

/// Weight of tap t (of a window; a matrix has one), channel c and output n at
/// from[t * tap_stride + c * channel_stride + n * column_stride].
struct ByteMatrix {
  /// Of i8 weights [M, C, window...] of a convolution, [N, K] or [K, N] of a matrix product.
  static ByteMatrix Of(const Tensor& w, bool channels_first, bool convolution);

  const int8_t* from = nullptr;
  int64_t taps = 1, tap_stride = 0;
  int64_t channels = 0, channel_stride = 1;
  int64_t columns = 0, column_stride = 1;

  int8_t at(int64_t t, int64_t c, int64_t n) const {
    return from[t * tap_stride + c * channel_stride + n * column_stride];
  }
  int64_t quads() const { return taps * ((channels + simd::kByteQuad - 1) / simd::kByteQuad); }
  int64_t panels() const {
    return (columns + simd::kSparseByteColumns - 1) / simd::kSparseByteColumns;
  }
};

/// Blocks of four channels by sixteen outputs with a weight other than zero.
struct SparseByteCounts {
  int64_t weights = 0, zeros = 0;  ///< single ones
  int64_t stored = 0;
};
SparseByteCounts CountStored(const ByteMatrix& w);

/// Lists of these blocks by panel of outputs, and what belongs to each output, padded to panels.
struct SparseByteWeights {
  /// `zero`: the zero point of the rows, as an unsigned byte; is_signed: they are s8. `bias` may be
  /// empty; `scales`: one, or one per output.
  static SparseByteWeights Pack(const ByteMatrix& w, int32_t zero, bool is_signed,
                                std::span<const float> bias, std::span<const float> scales);
  ByteColumns Columns() const {
    return {nullptr, start.data(), bias.data(), scales.data(), nullptr};
  }
  int64_t bytes() const {
    return static_cast<int64_t>(codes->size() + at.size() * sizeof(at[0]) +
                                starts.size() * sizeof(starts[0]));
  }

  std::shared_ptr<const Buffer> codes;  ///< [block][16][4]
  std::vector<uint32_t> at;             ///< by block: its quad of inputs, over all taps
  std::vector<int64_t> starts;          ///< [panels + 1]: blocks before each panel
  std::vector<int32_t> start;
  std::vector<float> bias, scales;
  bool is_signed = false;
  std::vector<uint8_t> padding;  ///< [channels]: a pixel of the padding, as rows have it
};

/// Which numbers are the row of each output: the window of a convolution over channels-last images,
/// or the rows of a matrix as they lie.
class ByteWindows {
 public:
  /// Of a matrix.
  static ByteWindows Rows(int64_t rows);
  /// x [N, C, i...] and y [N, M, o...] of `s`, both as they lie with channels last. Unsupported:
  /// more than three dimensions, or an extent of the window above 32.
  static Result<ByteWindows> Of(const Spatial& s, const Dims& x, const Dims& y);

  int64_t rows() const { return images_ * out_[0] * out_[1] * out_[2]; }
  int64_t taps() const { return static_cast<int64_t>(taps_.size()); }
  /// Calls f(tap, places) for each tap of `count` rows from `first` on; places [count]: of each
  /// row, the pixel that the tap reads, or -1 in the padding.
  template <typename F>
  void ForTaps(int64_t first, int count, const F& f) const;

 private:
  struct Tap {
    int64_t pixels;  ///< from that of the first tap
    uint8_t at[3];   ///< in the window
  };
  struct Corner {
    int64_t pixel;   ///< of the first tap, inside or not
    uint32_t in[3];  ///< by place along the window: 1 where it lies inside
  };
  void FindCorners(int64_t first, int count, Corner* to) const;

  int64_t images_ = 1, in_[3] = {1, 1, 1}, out_[3] = {1, 1, 1};
  int64_t strides_[3] = {1, 1, 1}, pads_[3] = {0, 0, 0};
  bool plain_ = true;  ///< the rows are the pixels in their order
  std::vector<Tap> taps_ = {{0, {0, 0, 0}}};
  using Inside = std::vector<uint32_t>;  ///< by place of the result
  std::array<Inside, 3> inside_ = {Inside{1}, Inside{1}, Inside{1}};
};

/// Work of a product in multiplications of a vector of bytes, as measured on whole products: what
/// the choice between a sparse and a dense product hangs on. `rows` of results.
double DenseByteWork(int64_t rows, const ByteMatrix& w);
double SparseByteWork(int64_t rows, const ByteMatrix& w, int64_t stored);

/// Whether a product gains by leaving zeros out; its weights are counted and packed once.
/// Thread-safe. By counted work alone, so that the choice is the same in each run.
class SparseByteChoice {
 public:
  /// Unsupported says what zeros there are and what they would gain. `pack` makes the weights.
  Result<std::shared_ptr<const SparseByteWeights>> Make(
      const ByteMatrix& w, int64_t rows, FunctionRef<SparseByteWeights()> pack) const;

 private:
  mutable std::mutex mutex_;
  mutable std::optional<SparseByteCounts> counts_;
  mutable std::shared_ptr<const SparseByteWeights> packed_;
};

struct SparseByteProduct {
  const simd::SparseBytes* loops = nullptr;
  simd::ByteFinish finish = {};
  ByteWindows windows = ByteWindows::Rows(0);
  int64_t channels = 0, columns = 0;
  int64_t lanes = 1;  ///< threads that there is scratch for
  std::shared_ptr<const SparseByteWeights> w = {};

  int64_t scratch_bytes() const;
  /// y [rows, columns], of bytes or numbers of 32 bits; the other operand of a residual on entry.
  void Run(const std::byte* x, std::byte* y, std::byte* scratch) const {
    Run({As<uint8_t>(x), w->padding.data(), w->Columns(), y}, scratch);
  }

  /// Of rows whose zero point and scale only the run knows.
  struct OfRun {
    const uint8_t* x;
    const uint8_t* padding;  ///< as SparseByteWeights has it
    ByteColumns columns;     ///< `panels` is not read
    std::byte* y;
  };
  void Run(const OfRun& run, std::byte* scratch) const;

 private:
  int64_t quads() const { return (channels + simd::kByteQuad - 1) / simd::kByteQuad; }
  /// Bytes from a quad of packed rows to the next: one row alone lies as it is.
  int64_t step() const { return windows.rows() == 1 ? simd::kByteQuad : simd::kSparseByteStep; }
  int64_t tile_bytes() const { return windows.taps() * quads() * step(); }
  int64_t panels() const { return static_cast<int64_t>(w->starts.size()) - 1; }
  int64_t tiles() const;
  int64_t together() const;  ///< tiles for which weights are read once
  bool few() const { return tiles() < 2 * lanes; }
  void PackTile(const OfRun& run, int64_t tile, uint8_t* to) const;
  void Multiply(const OfRun& run, int64_t tile, const uint8_t* packed, int64_t panel) const;
};

}  // namespace infer
