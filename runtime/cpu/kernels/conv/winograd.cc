#include "runtime/cpu/kernels/conv/winograd.h"

#include <algorithm>

#include "lib/support/parallel.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

constexpr int kMaxLanes = 16, kMaxTile = 4;

constexpr double kG2[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
constexpr double kG4[6][3] = {{1 / 4., 0, 0},
                              {-1 / 6., -1 / 6., -1 / 6.},
                              {-1 / 6., 1 / 6., -1 / 6.},
                              {1 / 24., 1 / 12., 1 / 6.},
                              {1 / 24., -1 / 12., 1 / 6.},
                              {0, 0, 1}};

void AddTo(float* y, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

/// f(pixel of the result, pixel of the dense tile) for all pixels of `tile` that exist.
template <typename F>
void ForPixels(const simd::WinogradOutput& tile, float* dense, int64_t height, int64_t width,
               int64_t lanes, F f) {
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j)
      f(tile.dst + ((tile.top + i) * tile.width + tile.left + j) * tile.pixel,
        dense + (i * width + j) * lanes);
}

}  // namespace

/// The upper left corner of a tile.
struct Winograd::Tile {
  int64_t image, top, left;
  Tile(const Winograd& w, int64_t index) {
    left = index % w.across() * w.m;
    index /= w.across();
    top = index % w.down() * w.m;
    image = index / w.down();
  }
};

void Winograd::SetBatch() {
  constexpr int64_t kBytes = 768 << 10;
  const int64_t bytes = points() * in.blocks * panels->lanes * 4, rows = panels->max_rows;
  const int64_t most = std::max(rows, kBytes / bytes / rows * rows);
  batch = BlocksOf(tiles(), BlocksOf(tiles(), most));
}

int64_t Winograd::scratch_bytes() const {
  return 4 * points() * (in_stride() + lanes * out_stride());
}

void Winograd::TransformInput(const float* x, float* points, int64_t first, int64_t count) const {
  ParallelFor(in.blocks * count, 16, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const Tile tile(*this, first + u % count);
      simd::WinogradInput call;
      call.src = x + tile.image * in.image + u / count * in.block;
      call.pixel = in.pixel;
      call.height = in.height;
      call.width = in.width;
      call.top = tile.top - top;
      call.left = tile.left - left;
      call.points = points + u * panels->lanes;
      call.stride = in_stride();
      panels->winograd_input(m, call);
    }
  });
}

void Winograd::Output(simd::WinogradOutput tile) const {
  if (appended.clamps()) {
    tile.lo = appended.function->a;
    tile.hi = appended.function->b;
  }
  if (appended.in_product()) {
    tile.add = appended.residual >= 0;
    panels->winograd_output(m, tile);
    return;
  }
  alignas(64) float dense[kMaxTile * kMaxTile * kMaxLanes];
  simd::WinogradOutput to = tile;
  to.dst = dense;
  to.pixel = panels->lanes;
  to.top = to.left = 0;
  to.height = std::min<int64_t>(m, tile.height - tile.top);
  to.width = std::min<int64_t>(m, tile.width - tile.left);
  panels->winograd_output(m, to);
  const int64_t vector = panels->lanes;
  const auto over = [&](auto f) { ForPixels(tile, dense, to.height, to.width, vector, f); };
  if (appended.residual >= 0 && !appended.residual_last)
    over([=](float* y, float* t) { AddTo(t, y, vector); });
  if (!appended.clamps()) appended.Apply(dense, to.height * to.width * vector);
  if (appended.residual_last)
    over([=](float* y, float* t) { AddTo(y, t, vector); });
  else
    over([=](float* y, float* t) { std::copy_n(t, vector, y); });
}

/// The products of one block of outputs, and their way back.
void Winograd::Block(const float* points_of_x, const float* weights, const float* bias,
                     float* products, float* y, int64_t block, int64_t first, int64_t count) const {
  const int64_t vector = panels->lanes, depth = in.blocks * vector;
  const RowRuns runs{count, panels->max_rows};
  for (int64_t p = 0; p < points(); ++p)
    for (int64_t run = 0; run < runs.count(); ++run) {
      simd::PanelCall call;
      call.a = points_of_x + p * in_stride() + runs.begin(run) * vector;
      call.a_stride = count * vector;
      call.b = weights + (block * points() + p) * depth * vector;
      call.blocks = in.blocks;
      call.d = products + p * out_stride() + runs.begin(run) * vector;
      call.cold = run == 0;
      panels->multiply(runs.size(run), call);
    }
  for (int64_t t = 0; t < count; ++t) {
    const Tile tile(*this, first + t);
    simd::WinogradOutput call;
    call.points = products + t * vector;
    call.stride = out_stride();
    call.dst = y + tile.image * out.image + block * out.block;
    call.pixel = out.pixel;
    call.height = out.height;
    call.width = out.width;
    call.top = tile.top;
    call.left = tile.left;
    call.bias = bias ? bias + block * vector : nullptr;
    Output(call);
  }
}

void Winograd::Run(const float* x, const float* weights, const float* bias, float* y,
                   float* scratch) const {
  float* const products = scratch + points() * in_stride();
  for (int64_t first = 0; first < tiles(); first += batch) {
    const int64_t count = std::min(batch, tiles() - first);
    TransformInput(x, scratch, first, count);
    const int64_t parts = std::min<int64_t>(lanes, CurrentLanes());
    ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part)
        for (int64_t block = out.blocks * part / parts; block < out.blocks * (part + 1) / parts;
             ++block)
          Block(scratch, weights, bias, products + part * points() * out_stride(), y, block, first,
                count);
    });
  }
}

std::shared_ptr<const Buffer> TransformWeights(const Tensor& weights, int m, int lanes) {
  const double(*g)[3] = m == 2 ? kG2 : kG4;
  const int64_t n = m + 2, points = n * n;
  const int64_t outputs = weights.dims()[0], inputs = weights.dims()[1];
  const int64_t depth = BlocksOf(inputs, lanes) * lanes, blocks = BlocksOf(outputs, lanes);
  auto buffer =
      Buffer::Allocate(static_cast<size_t>(blocks * points * depth * lanes) * sizeof(float));
  const float* from = weights.data<float>().data();
  float* to = As<float>(buffer->mutable_data());
  ParallelFor(blocks * depth, 16, [=](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t block = u / depth, i = u % depth;
      double window[9][kMaxLanes] = {}, half[6][3][kMaxLanes];
      for (int64_t j = 0; j < lanes && i < inputs && block * lanes + j < outputs; ++j)
        for (int64_t k = 0; k < 9; ++k)
          window[k][j] = static_cast<double>(from[((block * lanes + j) * inputs + i) * 9 + k]);
      for (int64_t a = 0; a < n; ++a)
        for (int64_t c = 0; c < 3; ++c)
          for (int64_t j = 0; j < lanes; ++j)
            half[a][c][j] =
                g[a][0] * window[c][j] + g[a][1] * window[3 + c][j] + g[a][2] * window[6 + c][j];
      for (int64_t a = 0; a < n; ++a)
        for (int64_t b = 0; b < n; ++b) {
          float* at = to + ((block * points + a * n + b) * depth + i) * lanes;
          for (int64_t j = 0; j < lanes; ++j)
            at[j] = static_cast<float>(g[b][0] * half[a][0][j] + g[b][1] * half[a][1][j] +
                                       g[b][2] * half[a][2][j]);
        }
    }
  });
  return buffer;
}

}  // namespace infer
