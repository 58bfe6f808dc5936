#include "runtime/cpu/kernels/pool/plane_pool.h"

#include <algorithm>

#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// Numbers read that are worth a lane.
constexpr int64_t kPoolGrain = 1 << 14;

/// Each axis has a table of its windows.
constexpr int64_t kMostOfAxis = 1 << 20;

/// Numbers that `count` results read along an axis at most.
int64_t ReachOf(const simd::PoolGrid& g, int64_t count) {
  return std::min(g.in, (count - 1) * g.stride + (g.kernel - 1) * g.dilation + 1);
}

}  // namespace

Result<PlanePool> PlanePool::Of(Kind kind, const Window& window, const Dims& in, const Dims& out) {
  PlanePool pool;
  pool.kind_ = kind;
  pool.planes_ = in[0] * in[1];
  for (Axis& a : pool.axes_) {
    a.spans = {{0, 1}};
    a.divisors = {1};
  }
  const size_t spatial = in.size() - 2;
  for (size_t i = 2; i < in.size(); ++i)
    if (std::max(in[i], out[i]) > kMostOfAxis)
      return Unsupported("an axis of over a million elements");
  for (size_t i = 0; i < spatial; ++i) {
    const WindowAxis& w = window.axes[i];
    Axis& a = pool.axes_[3 - spatial + i];
    a.grid = {in[i + 2], out[i + 2], w.kernel, w.stride, w.dilation, w.pad_begin};
    a.spans.clear();
    a.divisors.clear();
    for (int64_t o = 0; o < out[i + 2]; ++o) {
      const WindowSpan s = WindowSpan::Of(w, in[i + 2], o);
      a.spans.push_back({s.first, s.count});
      const int64_t divisor = kind == Kind::kAverageWithPadding ? s.padded_count : s.count;
      a.divisors.push_back(static_cast<float>(divisor));
    }
  }
  for (Axis& a : pool.axes_) a.divisors.resize(a.divisors.size() + simd::kPoolVector, 1);
  if (!pool.SetBoxes()) return Unsupported("a wide window");
  return pool;
}

/// Whole planes, halved along the axis that loses least by it until a box fits.
bool PlanePool::SetBoxes() {
  for (size_t i = 0; i < 3; ++i) box_[i] = std::max<int64_t>(axes_[i].grid.out, 1);
  const simd::PoolGrid &a = axes_[0].grid, &b = axes_[1].grid, &c = axes_[2].grid;
  while (simd::PoolLine(c, box_[2]) > simd::kPoolLines) {
    if (box_[2] == 1) return false;
    box_[2] = BlocksOf(box_[2], 2);
  }
  while (ReachOf(a, box_[0]) * ReachOf(b, box_[1]) * simd::PoolPitch(box_[2]) > simd::kPoolRows) {
    // Results of a box against what its windows read beside them.
    const auto worth = [&](size_t i) {
      const simd::PoolGrid& g = axes_[i].grid;
      const int64_t least = i == 2 ? simd::kPoolVector : 1;
      return box_[i] <= least ? -1.0
                              : static_cast<double>(box_[i] * g.stride) /
                                    static_cast<double>((g.kernel - 1) * g.dilation + 1);
    };
    size_t best = 0;
    for (size_t i = 1; i < 3; ++i)
      if (worth(i) >= worth(best)) best = i;
    if (worth(best) < 0) return false;
    box_[best] = BlocksOf(box_[best], 2);
  }
  return true;
}

void PlanePool::Run(const float* x, float* y) const {
  simd::PoolGrid grids[3];
  int64_t boxes[3];
  for (size_t i = 0; i < 3; ++i) {
    grids[i] = axes_[i].grid;
    grids[i].spans = axes_[i].spans.data();
    grids[i].divisors = axes_[i].divisors.data();
    boxes[i] = BlocksOf(grids[i].out, box_[i]);
  }
  const simd::PoolGrid &a = grids[0], &b = grids[1], &c = grids[2];
  const int64_t of_plane = a.in * b.in * c.in, results = a.out * b.out * c.out;
  const int64_t of_boxes = boxes[0] * boxes[1] * boxes[2];
  const auto run = kind_ == Kind::kMax ? simd::ThePools().max : simd::ThePools().average;
  const int64_t work = ReachOf(a, box_[0]) * ReachOf(b, box_[1]) * ReachOf(c, box_[2]) + 1;
  ForRange(planes_ * of_boxes, std::max<int64_t>(1, kPoolGrain / work),
           [&](int64_t u, int64_t end) {
             for (int64_t count; u < end; u += count) {
               count = of_boxes == 1 ? end - u : 1;
               const int64_t plane = u / of_boxes;
               int64_t at = u % of_boxes;
               simd::PoolBox box;
               for (size_t i = 3; i-- > 0; at /= boxes[i]) {
                 box.first[i] = at % boxes[i] * box_[i];
                 box.count[i] = std::min(box_[i], grids[i].out - box.first[i]);
               }
               run({count, (planes_ - plane) * of_plane}, grids, box, x + plane * of_plane,
                   y + plane * results);
             }
           });
}

}  // namespace infer
