#include "runtime/cpu/kernels/pool/plane_places.h"

#include <algorithm>
#include <limits>

#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/folds.h"

namespace infer {
namespace {

/// Numbers read that are worth a lane.
constexpr int64_t kPlacesGrain = 1 << 14;

/// The least o with o * stride >= n. Pre: stride > 0.
int64_t LeastResult(int64_t n, int64_t stride) { return n > 0 ? (n + stride - 1) / stride : 0; }

}  // namespace

int64_t PoolAxis::first_tap(int64_t o) const {
  return at(o) >= 0 ? 0 : std::min(kernel, (-at(o) + dilation - 1) / dilation);
}

int64_t PoolAxis::end_tap(int64_t o) const {
  return at(o) >= in ? 0 : std::min(kernel, (in - 1 - at(o)) / dilation + 1);
}

bool PlanePlaces::fits() const {
  int64_t largest = 1;
  for (const PoolAxis& a : axes) {
    if (a.in > std::numeric_limits<int32_t>::max() / largest) return false;
    largest *= a.in;
  }
  return true;
}

int64_t PlanePlaces::PlaceOf(int64_t at) const {
  if (!column_major) return at;
  const int64_t w = at % axes[2].in, h = at / axes[2].in % axes[1].in,
                d = at / axes[2].in / axes[1].in;
  return (w * axes[1].in + h) * axes[0].in + d;
}

void PlanePlaces::Part(const float* x, int64_t plane, int64_t row, int64_t first, int64_t count,
                       float* y, int64_t* places) const {
  const PoolAxis &a = axes[0], &b = axes[1], &c = axes[2];
  const int64_t size = a.in * b.in * c.in, d = row / b.out, h = row % b.out;
  const float* const from = x + plane * size;
  const auto larger = simd::TheFolds().larger;
  float best[kResults];
  int32_t at[kResults];
  std::fill_n(best, count, -std::numeric_limits<float>::infinity());
  std::fill_n(at, count, -1);
  for (int64_t i = a.first_tap(d); i < a.end_tap(d); ++i)
    for (int64_t j = b.first_tap(h); j < b.end_tap(h); ++j) {
      const int64_t line = ((a.at(d) + i * a.dilation) * b.in + b.at(h) + j * b.dilation) * c.in;
      for (int64_t k = 0; k < c.kernel; ++k) {
        // Results o of which o * stride - shift lies in the row.
        const int64_t shift = c.pad - k * c.dilation;
        const int64_t low = std::max(first, LeastResult(shift, c.stride)),
                      high = std::min(first + count, LeastResult(c.in + shift, c.stride));
        if (low >= high) continue;
        const int64_t start = line + low * c.stride - shift;
        larger(from + start, c.stride, static_cast<int32_t>(start), static_cast<int32_t>(c.stride),
               best + (low - first), at + (low - first), high - low);
      }
    }
  if (y) std::copy_n(best, count, y);
  for (int64_t o = 0; places && o < count; ++o)
    places[o] = at[o] < 0 ? -1 : plane * size + PlaceOf(at[o]);
}

void PlanePlaces::Run(const float* x, float* y, int64_t* places) const {
  const PoolAxis &a = axes[0], &b = axes[1], &c = axes[2];
  const int64_t rows = a.out * b.out, parts = (c.out + kResults - 1) / kResults;
  const int64_t work = std::min(c.out, kResults) * a.kernel * b.kernel * c.kernel;
  ForRange(planes * rows * parts, std::max<int64_t>(1, kPlacesGrain / work),
           [&](int64_t u, int64_t end) {
             for (; u < end; ++u) {
               const int64_t line = u / parts, first = u % parts * kResults;
               const int64_t to = line * c.out + first;
               Part(x, line / rows, line % rows, first, std::min(kResults, c.out - first),
                    y ? y + to : nullptr, places ? places + to : nullptr);
             }
           });
}

}  // namespace infer
