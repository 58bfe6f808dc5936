#include "runtime/cpu/kernels/int8/byte_gemm.h"

#include <algorithm>
#include <cstring>

#include "lib/support/parallel.h"
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

using simd::kByteColumns;
using simd::kByteQuad;
using simd::kByteTileRows;

/// Of the rows at once: with two panels of weights they stay in L2. Where all weights do, few rows
/// and their results stay in L1: each panel writes half of their lines.
constexpr int64_t kRowBytes = 384 << 10, kWeightsInL2 = 320 << 10, kTileBytes = 24 << 10;
/// Multiply-adds that are worth another thread.
constexpr int64_t kLeastWork = 1 << 18;

}  // namespace

ByteWeights ByteWeights::Pack(const int8_t* from, int64_t depth, int64_t k_stride, int64_t columns,
                              int64_t n_stride, int32_t zero, std::span<const float> bias,
                              std::span<const float> scales) {
  const int64_t quads = BlocksOf(depth, kByteQuad), count = BlocksOf(columns, kByteColumns);
  const auto padded = static_cast<size_t>(count * kByteColumns);
  ByteWeights w;
  w.start.assign(padded, 0);
  w.bias.assign(padded, 0);
  w.scales.assign(padded, 0);
  auto buffer = Buffer::Allocate(padded * static_cast<size_t>(quads * kByteQuad));
  int8_t* to = As<int8_t>(buffer->mutable_data());
  ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kByteColumns, n = std::min<int64_t>(kByteColumns, columns - first);
      int8_t* panel = to + p * quads * kByteQuad * kByteColumns;
      std::fill_n(panel, quads * kByteQuad * kByteColumns, int8_t{0});
      for (int64_t k = 0; k < depth; ++k) {
        int8_t* quad = panel + k / kByteQuad * kByteQuad * kByteColumns + k % kByteQuad;
        const int8_t* row = from + k * k_stride + first * n_stride;
        for (int64_t j = 0; j < n; ++j) {
          quad[j * kByteQuad] = row[j * n_stride];
          w.start[static_cast<size_t>(first + j)] -= zero * row[j * n_stride];
        }
      }
      for (int64_t j = 0; j < n; ++j) {
        const auto at = static_cast<size_t>(first + j);
        if (!bias.empty()) w.bias[at] = bias[at];
        w.scales[at] = scales[scales.size() == 1 ? 0 : at];
      }
    }
  });
  w.panels = std::move(buffer);
  return w;
}

void ByteWeights::Unpack(const int8_t* panels, int64_t depth, int64_t k_stride, int64_t columns,
                         int64_t n_stride, int8_t* to) {
  const int64_t panel = BlocksOf(depth, kByteQuad) * kByteQuad * kByteColumns;
  ParallelFor(BlocksOf(columns, kByteColumns), 1, [=](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kByteColumns, n = std::min<int64_t>(kByteColumns, columns - first);
      for (int64_t k = 0; k < depth; ++k) {
        const int8_t* const quad =
            panels + p * panel + k / kByteQuad * kByteQuad * kByteColumns + k % kByteQuad;
        for (int64_t j = 0; j < n; ++j)
          to[k * k_stride + (first + j) * n_stride] = quad[j * kByteQuad];
      }
    }
  });
}

/// As rows of whole quads of unsigned bytes; what fills the last quad meets weights of 0.
void ByteGemm::PackRows(const std::byte* a, uint8_t* to) const {
  const uint8_t flip = rows.is_signed ? 128 : 0;
  const int64_t per_line = rows.columns(), lines = rows.lines(), stride = quads() * kByteQuad;
  const int64_t all = rows.images * lines, line_bytes = per_line * stride;
  ParallelFor(all, std::max<int64_t>(1, (int64_t{64} << 10) / line_bytes),
              [&](int64_t begin, int64_t end) {
                for (int64_t line = begin; line < end; ++line) {
                  const int64_t y = line / lines * rows.height + line % lines * rows.step_y;
                  const uint8_t* from = As<uint8_t>(a) + y * rows.width * depth;
                  uint8_t* at = to + line * line_bytes;
                  for (int64_t x = 0; x < per_line; ++x, at += stride) {
                    const uint8_t* pixel = from + x * rows.step_x * depth;
                    std::memcpy(at, pixel, static_cast<size_t>(depth));
                    std::fill(at + depth, at + stride, uint8_t{0});
                    if (flip)
                      for (int64_t k = 0; k < depth; ++k) at[k] ^= flip;
                  }
                }
              });
}

/// One product; where the panel is wider than y, through a tile of its own.
void ByteGemm::Tile(simd::ByteCall call, int tile_rows, int64_t tile_columns) const {
  if (tile_columns == kByteColumns) return multiply(tile_rows, call);
  alignas(64) std::byte tile[kByteTileRows * kByteColumns * 4] = {};
  std::byte* const y = call.d;
  const int64_t stride = call.d_stride, width = kByteColumns * finish.result_bytes();
  const auto bytes = static_cast<size_t>(tile_columns * finish.result_bytes());
  if (finish.form == simd::ByteFinish::Form::kResidual)
    for (int r = 0; r < tile_rows; ++r) std::memcpy(tile + r * width, y + r * stride, bytes);
  call.d = tile;
  call.d_stride = width;
  multiply(tile_rows, call);
  for (int r = 0; r < tile_rows; ++r) std::memcpy(y + r * stride, tile + r * width, bytes);
}

void ByteGemm::Block(const uint8_t* a, const ByteColumns& w, std::byte* y, int64_t top,
                     int64_t count, int64_t first, int64_t end, bool cold) const {
  const RowRuns runs{count, kByteTileRows};
  const int64_t panel_bytes = quads() * kByteQuad * kByteColumns, lines = panel_bytes / 64;
  simd::ByteCall call;
  call.a_stride = quads() * kByteQuad;
  call.quads = quads();
  call.d_stride = columns * finish.result_bytes();
  call.finish = &finish;
  // Few rows leave much to fetch in each product.
  const int per_step = runs.count() >= 4 ? 2 : 8;
  const int64_t per_run = per_step * (quads() / 4);
  for (int64_t panel = first; panel < end; ++panel) {
    const int64_t column = panel * kByteColumns;
    call.b = As<int8_t>(w.panels) + panel * panel_bytes;
    call.start = w.start + column;
    call.bias = w.bias + column;
    call.scale = w.scales + column;
    call.plus = w.plus ? w.plus + column : nullptr;
    int64_t fetched = cold && !warm && panel + 1 < end ? 0 : lines;
    for (int64_t run = 0; run < runs.count(); ++run) {
      const int64_t row = top + runs.begin(run);
      call.a = a + row * call.a_stride;
      call.d = y + (row * columns + column) * finish.result_bytes();
      call.ahead_lines = fetched + per_run <= lines ? per_step : 0;
      call.ahead = w.panels + (panel + 1) * panel_bytes + fetched * 64;
      fetched += call.ahead_lines ? per_run : 0;
      Tile(call, runs.size(run), std::min<int64_t>(kByteColumns, columns - column));
    }
  }
}

void ByteGemm::Run(const std::byte* a, const ByteColumns& w, std::byte* y,
                   std::byte* scratch) const {
  const uint8_t* from = As<uint8_t>(a);
  if (!direct()) {
    PackRows(a, As<uint8_t>(scratch));
    from = As<uint8_t>(static_cast<const std::byte*>(scratch));
  }
  const int64_t count = rows.count(), row_bytes = quads() * kByteQuad;
  const bool in_l2 = row_bytes * columns <= kWeightsInL2;
  const int64_t per_run =
      kByteTileRows * (row_bytes + (in_l2 ? columns * finish.result_bytes() : 0));
  const int64_t most = in_l2 ? kByteTileRows * std::max<int64_t>(1, kTileBytes / per_run)
                             : kByteTileRows * std::max<int64_t>(8, kRowBytes / per_run);
  // The larger operand is shared out, so that the smaller one is read twice.
  if (columns > count) {
    const int64_t grain = std::max<int64_t>(1, kLeastWork / (count * row_bytes * kByteColumns));
    ParallelFor(panels(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t top = 0; top < count; top += most)
        Block(from, w, y, top, std::min(most, count - top), begin, end, top == 0);
    });
    return;
  }
  const RowRuns runs{count, kByteTileRows};
  const int64_t grain =
      std::max<int64_t>(1, kLeastWork / (kByteTileRows * row_bytes * panels() * kByteColumns));
  ParallelFor(runs.count(), grain, [&](int64_t begin, int64_t end) {
    const int64_t last = runs.begin(end);
    for (int64_t top = runs.begin(begin); top < last; top += most)
      Block(from, w, y, top, std::min(most, last - top), 0, panels(), top == runs.begin(begin));
  });
}

}  // namespace infer
