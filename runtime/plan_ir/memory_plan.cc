#include "runtime/plan_ir/memory_plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

namespace infer {
namespace {

bool Together(const BufferLife& a, const BufferLife& b) {
  return a.first <= b.last && b.first <= a.last;
}

/// Buffers by lifetime. In a long chain each meets few others; looking at all of them for each
/// would be quadratic.
class Timeline {
 public:
  explicit Timeline(std::span<const BufferLife> buffers) : buffers_(buffers) {
    int end = 1;
    for (const BufferLife& b : buffers) end = std::max(end, b.last + 1);
    size_ = std::bit_ceil(static_cast<size_t>(end));
    covering_.resize(2 * size_);
  }

  void Add(size_t i) {
    const BufferLife& b = buffers_[i];
    starts_.emplace(b.first, i);
    // The nodes of a binary tree over launches that tile the lifetime: at most one on each path.
    size_t lo = static_cast<size_t>(b.first) + size_, hi = static_cast<size_t>(b.last) + size_ + 1;
    for (; lo < hi; lo /= 2, hi /= 2) {
      if (lo & 1) covering_[lo++].push_back(i);
      if (hi & 1) covering_[--hi].push_back(i);
    }
  }

  /// Those added that live while buffer i does, each once, in no order; false: more than `most`.
  bool Find(size_t i, size_t most, std::vector<size_t>& out) const {
    const BufferLife& b = buffers_[i];
    out.clear();
    for (size_t n = static_cast<size_t>(b.first) + size_; n > 0; n /= 2) {
      if (out.size() + covering_[n].size() > most) return false;
      out.insert(out.end(), covering_[n].begin(), covering_[n].end());
    }
    for (auto it = starts_.upper_bound(b.first); it != starts_.end() && it->first <= b.last; ++it) {
      if (out.size() == most) return false;
      out.push_back(it->second);
    }
    return true;
  }

 private:
  std::span<const BufferLife> buffers_;
  size_t size_ = 1;
  std::vector<std::vector<size_t>> covering_;  // by node; the children of n are 2n and 2n + 1
  std::multimap<int, size_t> starts_;
};

}  // namespace

MemoryPlan PlanMemory(std::span<const BufferLife> buffers) {
  MemoryPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  auto rounded = [&](size_t i) {
    return (buffers[i].bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
  };
  std::map<int, int64_t> change;  // of the live sum, by launch
  for (size_t i = 0; i < buffers.size(); ++i) {
    change[buffers[i].first] += rounded(i);
    change[buffers[i].last + 1] -= rounded(i);
  }
  int64_t live = 0;
  for (const auto& [at, delta] : change) {
    live += delta;
    plan.lower_bound_bytes = std::max(plan.lower_bound_bytes, live);
  }
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  Timeline timeline(buffers);
  std::set<std::pair<int64_t, size_t>> placed;  // by offset
  std::vector<size_t> alive;
  for (size_t i : order) {
    int64_t offset = 0;
    // false: the gap before p is large enough.
    const auto passes = [&](size_t p) {
      if (plan.offsets[p] >= offset + rounded(i)) return false;
      offset = std::max(offset, plan.offsets[p] + rounded(p));
      return true;
    };
    if (timeline.Find(i, placed.size() / 16, alive)) {
      std::sort(alive.begin(), alive.end(), [&](size_t a, size_t b) {
        return std::pair(plan.offsets[a], a) < std::pair(plan.offsets[b], b);
      });
      for (size_t p : alive)
        if (!passes(p)) break;
    } else {
      for (const auto& [at, p] : placed)
        if (Together(buffers[p], buffers[i]) && !passes(p)) break;
    }
    plan.offsets[i] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + rounded(i));
    placed.emplace(offset, i);
    timeline.Add(i);
  }
  return plan;
}

}  // namespace infer
