#include "runtime/cpu/kernels/pool/plane_pool.h"

#include <algorithm>
#include <limits>

#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

/// Numbers read that are worth a lane.
constexpr int64_t kPoolGrain = 1 << 14;
/// Windows so many times as wide as there are results are walked one by one.
constexpr int64_t kWideWindow = 4;

}  // namespace

int64_t PoolAxis::first_tap(int64_t o) const {
  return at(o) >= 0 ? 0 : std::min(kernel, (-at(o) + dilation - 1) / dilation);
}

int64_t PoolAxis::end_tap(int64_t o) const {
  return at(o) >= in ? 0 : std::min(kernel, (in - 1 - at(o)) / dilation + 1);
}

int64_t PlanePool::RowTaps(int64_t row) const {
  const PoolAxis &a = axes[0], &b = axes[1];
  const int64_t d = row / b.out, h = row % b.out;
  return (a.end_tap(d) - a.first_tap(d)) * (b.end_tap(h) - b.first_tap(h));
}

void PlanePool::CombineRows(const float* plane, int64_t row, int64_t left, int64_t width,
                            float* to) const {
  const simd::Loops& loops = simd::TheLoops();
  const auto combine =
      loops.binary[static_cast<int>(kind == Kind::kMax ? simd::Binary::kMax : simd::Binary::kAdd)];
  const PoolAxis &a = axes[0], &b = axes[1], &c = axes[2];
  const int64_t d = row / b.out, h = row % b.out;
  const int64_t begin = std::clamp<int64_t>(left, 0, c.in);
  const int64_t count = std::clamp<int64_t>(left + width, begin, c.in) - begin;
  const float nothing = kind == Kind::kMax ? -std::numeric_limits<float>::infinity() : 0;
  std::fill(to, to + (begin - left), nothing);
  std::fill(to + (begin - left) + count, to + width, nothing);
  bool is_first = true;
  for (int64_t i = a.first_tap(d); i < a.end_tap(d); ++i)
    for (int64_t j = b.first_tap(h); j < b.end_tap(h); ++j) {
      const float* const from =
          plane + ((a.at(d) + i * a.dilation) * b.in + b.at(h) + j * b.dilation) * c.in + begin;
      if (is_first)
        std::copy_n(from, count, to + (begin - left));
      else
        combine(to + (begin - left), from, to + (begin - left), count);
      is_first = false;
    }
}

void PlanePool::Divide(int64_t row, int64_t first, int64_t count, float* y) const {
  const PoolAxis& c = axes[2];
  if (kind == Kind::kAverageWithPadding) {
    const auto all = static_cast<float>(axes[0].kernel * axes[1].kernel * c.kernel);
    for (int64_t j = 0; j < count; ++j) y[j] /= all;
    return;
  }
  const int64_t rows = RowTaps(row);
  const auto whole = static_cast<float>(rows * c.kernel);
  for (int64_t j = 0; j < count; ++j) {
    const int64_t at = c.at(first + j);
    if (at >= 0 && at + c.reach() <= c.in)
      y[j] /= whole;
    else
      y[j] /= static_cast<float>(rows * (c.end_tap(first + j) - c.first_tap(first + j)));
  }
}

void PlanePool::Part(const float* plane, int64_t row, int64_t first, int64_t count,
                     float* y) const {
  const simd::Loops& loops = simd::TheLoops();
  const auto combine =
      loops.binary[static_cast<int>(kind == Kind::kMax ? simd::Binary::kMax : simd::Binary::kAdd)];
  const PoolAxis& c = axes[2];
  const int64_t width = (count - 1) * c.stride + c.reach(), of_phase = BlocksOf(width, c.stride);
  float line[kPart], phases[2 * kPart];
  CombineRows(plane, row, c.at(first), width, line);
  if (c.dilation == 1 && count * kWideWindow <= c.kernel) {
    for (int64_t j = 0; j < count; ++j) {
      const float* const window = line + j * c.stride;
      y[j] = kind == Kind::kMax ? loops.max(window, c.kernel)
                                : static_cast<float>(loops.sum(window, c.kernel));
    }
    if (kind != Kind::kMax) Divide(row, first, count, y);
    return;
  }
  // Numbers a stride apart lie side by side, so that a tap of all results is one run.
  const float* from = line;
  if (c.stride > 1) {
    for (int64_t r = 0; r < std::min(c.stride, width); ++r)
      for (int64_t i = 0; i * c.stride + r < width; ++i)
        phases[r * of_phase + i] = line[i * c.stride + r];
    from = phases;
  }
  const auto tap = [&](int64_t k) {
    return from + k * c.dilation % c.stride * of_phase + k * c.dilation / c.stride;
  };
  std::copy_n(tap(0), count, y);
  for (int64_t k = 1; k < c.kernel; ++k) combine(y, tap(k), y, count);
  if (kind != Kind::kMax) Divide(row, first, count, y);
}

void PlanePool::Run(const float* x, float* y) const {
  const PoolAxis &a = axes[0], &b = axes[1], &c = axes[2];
  const int64_t rows = a.out * b.out, of_plane = a.in * b.in * c.in;
  const int64_t of_part = (kPart - c.reach()) / c.stride + 1, parts = BlocksOf(c.out, of_part);
  const int64_t work = BlocksOf(c.out, parts) * c.stride * a.kernel * b.kernel + 1;
  ForRange(planes * rows * parts, std::max<int64_t>(1, kPoolGrain / work),
           [&](int64_t u, int64_t end) {
             for (; u < end; ++u) {
               const int64_t plane = u / (rows * parts), row = u / parts % rows;
               const int64_t first = u % parts * of_part;
               Part(x + plane * of_plane, row, first, std::min(of_part, c.out - first),
                    y + (plane * rows + row) * c.out + first);
             }
           });
}

}  // namespace infer
