#include "runtime/cpu/kernels/norm/reduce_plan.h"

#include <algorithm>

#include "lib/ops/common.h"

namespace infer {

Result<std::vector<int>> ReducedAxes(std::span<const Operand> in, int axes_at,
                                     bool none_means_none) {
  const Dims& dims = in[0].dims;
  std::vector<int64_t> axes;
  if (axes_at >= 0) {
    const Tensor* t = in[static_cast<size_t>(axes_at)].constant;
    if (!t) return Unsupported("the axes are not known");
    axes = t->ToInts();
  }
  if (axes.empty()) {
    if (none_means_none) return Unsupported("no axis");
    for (size_t i = 0; i < dims.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  INFER_ASSIGN(std::vector<int> sorted, NormalizeAxes(axes, static_cast<int>(dims.size())));
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

Result<ReducePlan> ReducePlan::Of(const Dims& dims, const std::vector<int>& axes) {
  constexpr int64_t kMostOffsets = 1 << 20;
  struct Group {
    bool reduced;
    int64_t extent, stride;
  };
  std::vector<Group> groups;
  const Dims strides = Strides(dims);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    const bool reduced = std::binary_search(axes.begin(), axes.end(), static_cast<int>(i));
    if (!groups.empty() && groups.back().reduced == reduced) {
      groups.back().extent *= dims[i];
      groups.back().stride = strides[i];
    } else {
      groups.push_back({reduced, dims[i], strides[i]});
    }
  }
  ReducePlan p;
  if (!groups.empty()) {
    (groups.back().reduced ? p.row : p.columns) = groups.back().extent;
    groups.pop_back();
  }
  p.offsets = {0};
  for (const Group& g : groups) {
    if (!g.reduced) {
      p.kept.push_back(g.extent);
      p.strides.push_back(g.stride);
      p.blocks *= g.extent;
      continue;
    }
    if (std::ssize(p.offsets) > kMostOffsets / g.extent) return Unsupported("too many offsets");
    std::vector<int64_t> next;
    for (int64_t o : p.offsets)
      for (int64_t k = 0; k < g.extent; ++k) next.push_back(o + k * g.stride);
    p.offsets = std::move(next);
  }
  p.n = std::ssize(p.offsets) * p.row;
  return p;
}

}  // namespace infer
