#include "runtime/cpu/kernels/matmul/weight_only.h"

#include <algorithm>
#include <cstring>

#include "lib/support/parallel.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

using simd::kWeightColumns;

/// Bytes of weights that are worth a thread, and of the rows that are swept by all panels at once.
constexpr int64_t kBytesOfLane = 96 << 10, kExpandedRowBytes = 384 << 10;
constexpr int64_t kMostRows = 12;

constexpr int64_t Aligned(int64_t bytes) { return BlocksOf(bytes, 64) * 64; }

}  // namespace

/// The rows of a as the products read them.
struct WeightOnlyProduct::Rows {
  float* a = nullptr;  ///< padded or spread copy; nullptr: a as it is
  float* sums = nullptr;
  int8_t* q = nullptr;
  float* scales = nullptr;
  int32_t* starts = nullptr;
  int64_t bytes = 0;
  const float* from = nullptr;
  int64_t stride = 0;
};

WeightOnlyProduct::Rows WeightOnlyProduct::Layout(std::byte* scratch) const {
  Rows r;
  const auto take = [&](auto*& p, int64_t n) {
    using T = std::remove_reference_t<decltype(*p)>;
    p = reinterpret_cast<T*>(scratch + r.bytes);
    r.bytes += Aligned(n * static_cast<int64_t>(sizeof(T)));
  };
  const int64_t padded = shape.depth();
  if (padded != depth || spreads()) take(r.a, rows * padded);
  take(r.sums, rows * shape.blocks);
  if (integers) {
    take(r.q, rows * padded);
    take(r.scales, rows * shape.blocks);
    take(r.starts, rows * shape.blocks);
  }
  return r;
}

int64_t WeightOnlyProduct::scratch_bytes() const {
  alignas(64) static std::byte nothing[64];
  return Layout(nothing).bytes;
}

void WeightOnlyProduct::Prepare(const float* a, const Rows& rows_of) const {
  const int64_t padded = shape.depth(), blocks = shape.blocks;
  ForRange(rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* row = a + r * depth;
      if (padded != depth) {
        float* copy = rows_of.a + r * padded;
        std::copy_n(row, depth, copy);
        std::fill(copy + depth, copy + padded, 0.0f);
        row = copy;
      }
      if (integers)
        table->quantize({row, blocks, shape.block, shape.bits, rows_of.q + r * padded,
                         rows_of.scales + r * blocks, rows_of.sums + r * blocks,
                         rows_of.starts + r * blocks});
      else
        table->sum_blocks(row, blocks, shape.block, rows_of.sums + r * blocks);
      if (spreads()) table->spread(row, padded, rows_of.a + r * padded);
    }
  });
}

/// One product and what follows it.
void WeightOnlyProduct::Tile(simd::WeightRows call, int tile_rows, int64_t tile_columns) const {
  const auto product = integers ? table->integers : table->floats;
  if (tile_columns == kWeightColumns && !appended.function) return product(tile_rows, call);
  alignas(64) float tile[kMostRows * kWeightColumns] = {}, start[kWeightColumns] = {};
  float* const y = call.y;
  const int64_t stride = call.y_stride;
  if (call.add)
    for (int64_t r = 0; r < tile_rows; ++r)
      std::copy_n(y + r * stride, tile_columns, tile + r * kWeightColumns);
  if (call.start) {
    std::copy_n(call.start, tile_columns, start);
    call.start = start;
  }
  call.y = tile;
  call.y_stride = kWeightColumns;
  product(tile_rows, call);
  if (appended.function) appended.Apply(tile, tile_rows * kWeightColumns);
  for (int64_t r = 0; r < tile_rows; ++r)
    std::copy_n(tile + r * kWeightColumns, tile_columns, y + r * stride);
}

void WeightOnlyProduct::Panel(const Rows& from, int64_t top, int64_t count, const std::byte* w,
                              const float* bias, float* y, int64_t panel) const {
  const int64_t column = panel * kWeightColumns;
  simd::WeightRows call{.panel = shape};
  call.panel.data = w + panel * shape.bytes();
  call.stride = from.stride;
  call.y_stride = columns;
  call.start = bias ? bias + column : nullptr;
  call.add = appended.residual >= 0;
  for (int64_t r = top; r < top + count;) {
    const int n = table->rows_at_once(top + count - r);
    call.a = from.from + r * from.stride;
    call.sums = from.sums + r * shape.blocks;
    if (integers) {
      call.q = from.q + r * shape.depth();
      call.scales = from.scales + r * shape.blocks;
      call.starts = from.starts + r * shape.blocks;
    }
    call.y = y + r * columns + column;
    Tile(call, n, std::min(kWeightColumns, columns - column));
    r += n;
  }
}

void WeightOnlyProduct::Run(const float* a, const std::byte* w, const float* bias, float* y,
                            std::byte* scratch) const {
  Rows from = Layout(scratch);
  Prepare(a, from);
  from.from = from.a ? from.a : a;
  from.stride = from.a ? shape.depth() : depth;
  const int64_t row_bytes = shape.depth() * (integers ? 1 : 4);
  const int64_t most = std::max(kMostRows, kExpandedRowBytes / row_bytes / kMostRows * kMostRows);
  const int64_t grain = std::max<int64_t>(1, kBytesOfLane / (shape.bytes() * std::min(rows, most)));
  for (int64_t top = 0; top < rows; top += most)
    ForRange(BlocksOf(columns, kWeightColumns), grain, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        Panel(from, top, std::min(most, rows - top), w, bias, y, p);
    });
}

namespace {

/// Number `i` of a row of codes.
uint8_t Code(const uint8_t* row, int64_t i, int bits) {
  return bits == 8 ? row[i] : static_cast<uint8_t>(row[i / 2] >> (i % 2 * 4) & 15);
}

/// One block of 16 columns, of which `count` are there.
void PackBlock(const PackedCodes& from, const simd::WeightPanel& shape, int64_t first,
               int64_t count, int64_t b, std::byte* to) {
  const int64_t code_bytes = shape.block * shape.bits / 8;
  const int64_t zero_bytes = BlocksOf(shape.blocks * shape.bits, 8);
  float* scales = As<float>(to);
  float* zeros = scales + kWeightColumns;
  auto* codes = As<uint8_t>(to) + (shape.zeros ? 128 : 64);
  std::memset(to, 0, static_cast<size_t>(shape.block_bytes()));
  for (int64_t j = 0; j < count; ++j) {
    const int64_t at = (first + j) * shape.blocks + b;
    scales[j] = from.scales[static_cast<size_t>(at)];
    if (!from.float_zeros.empty())
      zeros[j] = from.float_zeros[static_cast<size_t>(at)];
    else if (shape.zeros)
      zeros[j] = Code(from.byte_zeros.data() + (first + j) * zero_bytes, b, shape.bits);
    const uint8_t* row = from.codes.data() + at * code_bytes;
    // What lies behind the last k meets zeros.
    if (shape.bits == 8)
      for (int64_t k = 0; k < shape.block; ++k) codes[(k / 4 * 16 + j) * 4 + k % 4] = row[k];
    else
      for (int64_t k = 0; k < shape.block; k += 8)
        for (int64_t t = 0; t < 4; ++t)
          codes[(k / 8 * 16 + j) * 4 + t] =
              static_cast<uint8_t>(Code(row, k + t, 4) | Code(row, k + 4 + t, 4) << 4);
  }
}

}  // namespace

std::shared_ptr<const Buffer> PackWeights(const PackedCodes& from, const simd::WeightPanel& shape,
                                          PackedMemory& memory) {
  const int64_t panels = BlocksOf(from.columns, kWeightColumns);
  const auto [buffer, to] = memory.Take(static_cast<size_t>(panels * shape.bytes()));
  ParallelFor(panels, 1, [&, to = to](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      for (int64_t b = 0; b < shape.blocks; ++b)
        PackBlock(from, shape, p * kWeightColumns,
                  std::min(kWeightColumns, from.columns - p * kWeightColumns), b,
                  to + p * shape.bytes() + b * shape.block_bytes());
  });
  return buffer;
}

namespace {

void UnpackBlock(const std::byte* panel, const simd::WeightPanel& shape, int64_t first,
                 int64_t count, int64_t b, const UnpackedCodes& to) {
  const int64_t code_bytes = shape.block * shape.bits / 8;
  const int64_t zero_bytes = BlocksOf(shape.blocks * shape.bits, 8);
  const auto* const from = panel + b * shape.block_bytes();
  const float* const scales = As<float>(from);
  const float* const zeros = scales + kWeightColumns;
  const auto* const codes = As<uint8_t>(from) + (shape.zeros ? 128 : 64);
  for (int64_t j = 0; j < count; ++j) {
    const int64_t at = (first + j) * shape.blocks + b;
    if (!to.scales.empty()) to.scales[static_cast<size_t>(at)] = scales[j];
    if (!to.float_zeros.empty()) to.float_zeros[static_cast<size_t>(at)] = zeros[j];
    if (!to.byte_zeros.empty())
      to.byte_zeros[static_cast<size_t>((first + j) * zero_bytes + b * shape.bits / 8)] |=
          static_cast<uint8_t>(static_cast<int>(zeros[j]) << (b * shape.bits % 8));
    if (to.codes.empty()) continue;
    uint8_t* const row = to.codes.data() + at * code_bytes;
    if (shape.bits == 8) {
      for (int64_t k = 0; k < shape.block; ++k) row[k] = codes[(k / 4 * 16 + j) * 4 + k % 4];
      continue;
    }
    for (int64_t k = 0; k < shape.block; k += 8) {
      const uint8_t* const c = codes + (k / 8 * 16 + j) * 4;
      for (int64_t t = 0; t < 4; t += 2) {
        row[(k + t) / 2] = static_cast<uint8_t>((c[t] & 15) | c[t + 1] << 4);
        row[(k + 4 + t) / 2] = static_cast<uint8_t>(c[t] >> 4 | (c[t + 1] & 0xF0));
      }
    }
  }
}

}  // namespace

void UnpackWeights(const std::byte* panels, const simd::WeightPanel& shape, int64_t columns,
                   const UnpackedCodes& to) {
  ParallelFor(BlocksOf(columns, kWeightColumns), 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      for (int64_t b = 0; b < shape.blocks; ++b)
        UnpackBlock(panels + p * shape.bytes(), shape, p * kWeightColumns,
                    std::min(kWeightColumns, columns - p * kWeightColumns), b, to);
  });
}

}  // namespace infer
