#include "runtime/cpu/kernels/matmul/panel_gemm.h"

#include <algorithm>

#include "lib/support/parallel.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

constexpr int kMaxLanes = 16, kMaxRows = 16;
/// k of one sweep over the columns, at most, and bytes of the rows of a for it: with two panels of
/// w they stay in L2.
constexpr int64_t kDepth = 768, kRowBytes = 416 << 10;
/// Rows of a at once, in multiples of what one product takes.
constexpr int64_t kRowRuns = 16;

/// to[k][j] = from[k * k_stride + j * n_stride]: a copy by rows, or a transpose in the cache.
void PackBlock(const float* from, int64_t k_stride, int64_t n_stride, int64_t rows, int64_t n,
               int64_t width, float* to) {
  if (n_stride == 1) {
    for (int64_t k = 0; k < rows; ++k) std::copy_n(from + k * k_stride, n, to + k * width);
    return;
  }
  for (int64_t j = 0; j < n; ++j)
    for (int64_t k = 0; k < rows; ++k) to[k * width + j] = from[j * n_stride + k * k_stride];
}

}  // namespace

/// Some rows by some k: what is packed at once.
struct PanelGemm::Sweep {
  int64_t top, rows;      ///< of a
  int64_t first, blocks;  ///< of k
  bool start, end;        ///< of k
  RowRuns runs;
};

int64_t PanelGemm::row_block() const { return std::min(rows, kRowRuns * panels->wide_rows); }

int64_t PanelGemm::sweep_blocks() const {
  const int64_t k = std::clamp<int64_t>(kRowBytes / (row_block() * 4), 64, kDepth);
  return std::min(k / panels->lanes, BlocksOf(depth, panels->lanes));
}

int64_t PanelGemm::scratch_bytes() const {
  return row_block() * sweep_blocks() * panels->lanes * 4;
}

/// Rows of a as [run][block of k][row of the run][lanes].
void PanelGemm::PackRows(const float* a, const Gates& gates, const Sweep& s, float* to) const {
  const int64_t lanes = panels->lanes;
  ParallelFor(s.runs.count(), 2, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) {
      const int64_t top = s.runs.begin(run), size = s.runs.size(run);
      for (int64_t b = 0; b < s.blocks; ++b) {
        const int64_t k = (s.first + b) * lanes, n = std::min(lanes, depth - k);
        float* at = to + (top * s.blocks + b * size) * lanes;
        const float* from = a + (s.top + top) * depth + k;
        for (int64_t r = 0; r < size; ++r, at += lanes, from += depth) {
          if (gates.by) {
            const float* by = gates.by + (s.top + top + r) / gates.rows * gates.stride + k;
            for (int64_t j = 0; j < n; ++j) at[j] = from[j] * by[j];
          } else {
            std::copy_n(from, n, at);
          }
          std::fill(at + n, at + lanes, 0.0f);
        }
      }
    }
  });
}

/// One product and, after its last k, what follows it.
void PanelGemm::Tile(simd::WideCall call, int tile_rows, int64_t tile_columns,
                     const Sweep& sweep) const {
  simd::WideTarget& to = call.to[0];
  to.add = !sweep.start || appended.residual >= 0;
  if (!sweep.start) to.start = nullptr;
  if (sweep.end && appended.clamps()) {
    to.lo = appended.function->a;
    to.hi = appended.function->b;
  }
  if (tile_columns == width() && (!sweep.end || appended.in_product()))
    return panels->multiply_wide(tile_rows, call);
  alignas(64) float tile[kMaxRows * 2 * kMaxLanes] = {}, start[2 * kMaxLanes] = {};
  // What is left of the columns may fill one vector only.
  const bool narrow = tile_columns <= panels->lanes;
  const int64_t pitch = narrow ? panels->lanes : width();
  float* const y = to.d;
  const int64_t stride = call.d_stride;
  if (to.add)
    for (int64_t r = 0; r < tile_rows; ++r)
      std::copy_n(y + r * stride, tile_columns, tile + r * pitch);
  if (to.start) {
    std::copy_n(to.start, tile_columns, start);
    to.start = start;
  }
  if (narrow) {
    panels->multiply(tile_rows, {.a = call.a,
                                 .a_stride = call.a_stride,
                                 .b = call.b,
                                 .blocks = call.blocks,
                                 .d = tile,
                                 .start = to.start,
                                 .add = to.add,
                                 .lo = to.lo,
                                 .hi = to.hi});
  } else {
    to.d = tile;
    call.d_stride = pitch;
    panels->multiply_wide(tile_rows, call);
  }
  if (sweep.end && appended.function && !appended.clamps()) appended.Apply(tile, tile_rows * pitch);
  for (int64_t r = 0; r < tile_rows; ++r)
    std::copy_n(tile + r * pitch, tile_columns, y + r * stride);
}

/// All rows of the sweep by one panel of columns, while the next panel is fetched.
void PanelGemm::Panel(const Sweep& s, const float* rows_of_a, const float* w, const float* bias,
                      float* y, int64_t panel) const {
  const int64_t lanes = panels->lanes, blocks = BlocksOf(depth, lanes);
  simd::WideCall call;
  const int64_t left = columns - panel * width();
  call.b = w + (panel * blocks * width() + s.first * (left > lanes ? width() : lanes)) * lanes;
  call.blocks = s.blocks;
  call.d_stride = columns;
  call.to[0].start = bias ? bias + panel * width() : nullptr;
  // A panel is 8 lines per line that a product fetches with 4 per block of 16.
  const int64_t lines = s.blocks * lanes * width() / 16;
  const auto* ahead = reinterpret_cast<const char*>(call.b + blocks * lanes * width());
  const bool last_panel = (panel + 1) * width() >= columns;
  int64_t fetched = last_panel ? lines : 0;
  for (int64_t run = 0; run < s.runs.count(); ++run) {
    call.a = rows_of_a + s.runs.begin(run) * s.blocks * lanes;
    call.a_stride = s.runs.size(run) * lanes;
    call.to[0].d = y + (s.top + s.runs.begin(run)) * columns + panel * width();
    const int64_t each = BlocksOf(lines, s.runs.count() * s.blocks);
    const int per_block = each <= 4 ? 4 : each <= 8 ? 8 : static_cast<int>(lanes);
    call.ahead_lines = fetched + per_block * s.blocks <= lines ? per_block : 0;
    call.ahead = ahead + fetched * 64;
    fetched += call.ahead_lines * s.blocks;
    Tile(call, s.runs.size(run), std::min(width(), columns - panel * width()), s);
  }
}

void PanelGemm::Run(const float* a, const Gates& gates, const float* w, const float* bias, float* y,
                    float* scratch) const {
  const int64_t blocks = BlocksOf(depth, panels->lanes), most = sweep_blocks();
  for (int64_t top = 0; top < rows; top += row_block())
    for (int64_t first = 0; first < blocks; first += most) {
      const int64_t count = std::min(row_block(), rows - top), k = std::min(most, blocks - first);
      const Sweep sweep{
          top, count, first, k, first == 0, first + k == blocks, RowRuns{count, panels->wide_rows}};
      PackRows(a, gates, sweep, scratch);
      ParallelFor(BlocksOf(columns, width()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t panel = begin; panel < end; ++panel) Panel(sweep, scratch, w, bias, y, panel);
      });
    }
}

std::shared_ptr<const Buffer> PackPanels(const float* from, int64_t depth, int64_t k_stride,
                                         int64_t columns, int64_t n_stride, int lanes) {
  const int64_t padded = BlocksOf(depth, lanes) * lanes, width = int64_t{2} * lanes;
  const int64_t count = BlocksOf(columns, width);
  auto buffer = Buffer::Allocate(static_cast<size_t>(count * padded * width) * sizeof(float));
  float* to = As<float>(buffer->mutable_data());
  // A run of panels at once: of a row of w more is read than one panel takes.
  constexpr int64_t kRun = 8;
  ParallelFor(BlocksOf(count, kRun), 1, [=](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run)
      for (int64_t k = 0; k < padded; k += lanes)
        for (int64_t p = run * kRun; p < std::min(count, (run + 1) * kRun); ++p) {
          const int64_t n = std::min(width, columns - p * width),
                        rows = std::min<int64_t>(lanes, depth - k),
                        own = n <= lanes ? lanes : width;
          float* block = to + p * padded * width + k * own;
          if (n < own || rows < lanes) std::fill_n(block, lanes * own, 0.0f);
          PackBlock(from + k * k_stride + p * width * n_stride, k_stride, n_stride, rows, n, own,
                    block);
        }
  });
  return buffer;
}

void UnpackPanels(const float* panels, int64_t depth, int64_t k_stride, int64_t columns,
                  int64_t n_stride, int lanes, float* to) {
  const int64_t padded = BlocksOf(depth, lanes) * lanes, width = int64_t{2} * lanes;
  ParallelFor(BlocksOf(columns, width), 1, [=](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t n = std::min(width, columns - p * width), own = n <= lanes ? lanes : width;
      const float* from = panels + p * padded * width;
      float* const at = to + p * width * n_stride;
      for (int64_t k = 0; k < depth; ++k, from += own)
        for (int64_t j = 0; j < n; ++j) at[k * k_stride + j * n_stride] = from[j];
    }
  });
}

WeightSource::UnpackFn Unpacking(const PanelGemm& gemm, int64_t k_stride, int64_t n_stride,
                                 const Dims& dims) {
  return [gemm, k_stride, n_stride, dims](const Buffer& form) -> Result<Tensor> {
    Tensor to(DType::kF32, dims);
    gemm.Unpack(As<float>(form.data()), k_stride, n_stride, to.mutable_data<float>().data());
    return to;
  };
}

}  // namespace infer
