#pragma once
/// y = finish(a w) for u8 or s8 rows and constant s8 weights: the product of integer 1x1
/// convolutions (simd/bytes.h). As in panel_gemm.h the next panel of weights is
/// on its way while this one is multiplied, and what follows a sum happens in registers.
#include <memory>
#include <span>
#include <vector>

#include "lib/tensor/tensor.h"
#include "runtime/cpu/simd/bytes.h"

namespace infer {

/// Weights [depth, columns] in panels, and what belongs to each column; padded to whole panels.
struct ByteWeights {
  /// Element [k][n] at from[k * k_stride + n * n_stride]. `zero`: the zero point of the rows, as
  /// unsigned bytes. `bias` may be empty; `scales`: one, or one per column.
  static ByteWeights Pack(const int8_t* from, int64_t depth, int64_t k_stride, int64_t columns,
                          int64_t n_stride, int32_t zero, std::span<const float> bias,
                          std::span<const float> scales);

  /// The weights that Pack made `panels` of, back in their places.
  static void Unpack(const int8_t* panels, int64_t depth, int64_t k_stride, int64_t columns,
                     int64_t n_stride, int8_t* to);

  std::shared_ptr<const Buffer> panels;
  std::vector<int32_t> start;
  std::vector<float> bias, scales;
};

/// What belongs to the columns of one run, padded to whole panels.
struct ByteColumns {
  const std::byte* panels = nullptr;
  const int32_t* start = nullptr;
  const float *bias = nullptr, *scales = nullptr;
  const float* plus = nullptr;  ///< added to f32 results, each step rounded; nullptr: nothing
};

/// Which pixels of channels-last images are the rows: every step-th of each line, of every
/// step-th line.
struct ByteRows {
  int64_t images = 1, height = 1, width = 1;  ///< of the operand
  int64_t step_y = 1, step_x = 1;
  bool is_signed = false;
  int64_t lines() const { return (height - 1) / step_y + 1; }
  int64_t columns() const { return (width - 1) / step_x + 1; }
  int64_t count() const { return images * lines() * columns(); }
  bool dense() const { return step_y == 1 && step_x == 1 && !is_signed; }
};

struct ByteGemm {
  simd::MultiplyBytesFn multiply = nullptr;
  simd::ByteFinish finish = {};
  ByteRows rows = {};
  int64_t depth = 0, columns = 0;
  bool warm = false;  ///< the weights are in L2 already

  /// 0 where the rows are read as they lie.
  int64_t scratch_bytes() const { return direct() ? 0 : rows.count() * quads() * 4; }
  void Run(const std::byte* a, const ByteWeights& w, std::byte* y, std::byte* scratch) const {
    Run(a, {w.panels->data(), w.start.data(), w.bias.data(), w.scales.data()}, y, scratch);
  }
  void Run(const std::byte* a, const ByteColumns& w, std::byte* y, std::byte* scratch) const;

 private:
  int64_t quads() const { return (depth + 3) / 4; }
  bool direct() const { return rows.dense() && depth % 4 == 0; }
  int64_t panels() const { return (columns + simd::kByteColumns - 1) / simd::kByteColumns; }
  void PackRows(const std::byte* a, uint8_t* to) const;
  /// Rows [top, top + count) by panels [first, end); `cold`: these are not in L2 yet.
  void Block(const uint8_t* a, const ByteColumns& w, std::byte* y, int64_t top, int64_t count,
             int64_t first, int64_t end, bool cold) const;
  void Tile(simd::ByteCall call, int tile_rows, int64_t tile_columns) const;
};

}  // namespace infer
