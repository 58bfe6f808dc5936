#include "runtime/plan_ir/groups/strided_view.h"

#include <algorithm>

namespace infer {

StridedView StridedView::Dense(const Dims& dims) {
  StridedView v;
  const Dims strides = Strides(dims);
  for (size_t i = 0; i < dims.size(); ++i)
    v.axes_.push_back(dims[i] == 1 ? Axis{} : Axis{{dims[i], strides[i]}});
  return v;
}

Dims StridedView::dims() const {
  Dims dims;
  for (const Axis& axis : axes_) {
    int64_t n = 1;
    for (const Factor& f : axis) n *= f.size;
    dims.push_back(n);
  }
  return dims;
}

void StridedView::Permute(const std::vector<int64_t>& perm) {
  std::vector<Axis> axes;
  for (int64_t p : perm) axes.push_back(axes_[static_cast<size_t>(p)]);
  axes_ = std::move(axes);
}

StridedView::Axis StridedView::Merged(const Axis& factors) {
  Axis merged;
  for (const Factor& f : factors) {
    if (!merged.empty() && merged.back().stride == f.size * f.stride)
      merged.back() = {merged.back().size * f.size, f.stride};
    else
      merged.push_back(f);
  }
  return merged;
}

bool StridedView::Reshape(const Dims& dims) {
  Axis flat;
  for (const Axis& axis : axes_) flat.insert(flat.end(), axis.begin(), axis.end());
  flat = Merged(flat);
  const auto empty = [](const Factor& f) { return f.size == 0; };
  if (std::any_of(flat.begin(), flat.end(), empty)) return false;
  std::vector<Axis> axes;
  size_t next = 0;
  for (int64_t need : dims) {
    Axis& axis = axes.emplace_back();
    while (need > 1) {
      if (next == flat.size()) return false;
      Factor& f = flat[next];
      if (need % f.size == 0) {
        axis.push_back(f);
        need /= f.size;
        ++next;
      } else if (f.size % need == 0) {
        axis.push_back({need, f.stride * (f.size / need)});
        f.size /= need;
        need = 1;
      } else {
        return false;
      }
    }
  }
  if (next != flat.size()) return false;
  axes_ = std::move(axes);
  return true;
}

bool StridedView::Slice(size_t axis, int64_t start, int64_t step, int64_t count) {
  const Axis merged = Merged(axes_[axis]);
  if (merged.size() > 1) return false;
  if (merged.empty()) return start == 0 && count == 1;
  offset_ += start * merged[0].stride;
  axes_[axis] = count == 1 ? Axis{} : Axis{{count, merged[0].stride * step}};
  return true;
}

bool StridedView::Expand(const Dims& to) {
  const Dims from = dims();
  auto both = Broadcast(from, to);
  if (!both.ok()) return false;
  axes_.insert(axes_.begin(), both->size() - from.size(), Axis{});
  for (size_t i = 0; i < both->size(); ++i)
    if (axes_[i].empty() && (*both)[i] != 1) axes_[i] = {{(*both)[i], 0}};
  return true;
}

bool StridedView::StrideOf(size_t axis, int64_t& stride) const {
  const Axis merged = Merged(axes_[axis]);
  stride = merged.empty() ? 0 : merged[0].stride;
  return merged.size() <= 1;
}

std::vector<int64_t> StridedView::Offsets(size_t axes, const Dims& leads) const {
  std::vector<int64_t> offsets = {offset_};
  const size_t skip = leads.size() - axes;
  for (size_t i = 0; i < leads.size(); ++i) {
    // Of each position of the axis; where it broadcasts, the same.
    std::vector<int64_t> at = {0};
    if (i >= skip)
      for (const Factor& f : axes_[i - skip]) {
        std::vector<int64_t> finer;
        for (int64_t base : at)
          for (int64_t k = 0; k < f.size; ++k) finer.push_back(base + k * f.stride);
        at = std::move(finer);
      }
    if (at.size() == 1) at.assign(static_cast<size_t>(leads[i]), at[0]);
    std::vector<int64_t> next;
    for (int64_t base : offsets)
      for (int64_t a : at) next.push_back(base + a);
    offsets = std::move(next);
  }
  return offsets;
}

}  // namespace infer
