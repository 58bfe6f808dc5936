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

int64_t Rounded(int64_t bytes) {
  return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

/// Each buffer, in this order, at the lowest offset that none placed before and alive with it
/// covers.
void Place(std::span<const BufferLife> buffers, const std::vector<size_t>& order,
           MemoryPlan& plan) {
  plan.offsets.assign(buffers.size(), 0);
  plan.arena_bytes = 0;
  Timeline timeline(buffers);
  std::set<std::pair<int64_t, size_t>> placed;  // by offset
  std::vector<size_t> alive;
  for (size_t i : order) {
    const int64_t bytes = Rounded(buffers[i].bytes);
    int64_t offset = 0;
    // false: the gap before p is large enough.
    const auto passes = [&](size_t p) {
      if (plan.offsets[p] >= offset + bytes) return false;
      offset = std::max(offset, plan.offsets[p] + Rounded(buffers[p].bytes));
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
    plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
    placed.emplace(offset, i);
    timeline.Add(i);
  }
}

std::vector<size_t> BySize(std::span<const BufferLife> buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  return order;
}

/// By launch: the sum of sizes alive from it on, until the next key.
std::map<int, int64_t> LiveSums(std::span<const BufferLife> buffers) {
  std::map<int, int64_t> live;
  for (const BufferLife& b : buffers) {
    live[b.first] += Rounded(b.bytes);
    live[b.last + 1] -= Rounded(b.bytes);
  }
  int64_t sum = 0;
  for (auto& [at, bytes] : live) sum = bytes += sum;
  return live;
}

/// The largest sum of sizes alive at once that each buffer is part of.
std::vector<int64_t> LargestSums(std::span<const BufferLife> buffers) {
  const auto live = LiveSums(buffers);
  std::vector<int64_t> sums;
  sums.reserve(buffers.size());
  for (const BufferLife& b : buffers) {
    int64_t most = 0;
    for (auto it = live.find(b.first); it != live.end() && it->first <= b.last; ++it)
      most = std::max(most, it->second);
    sums.push_back(most);
  }
  return sums;
}

/// Above this, other orders are not tried: the search must not take longer than the compilation.
constexpr size_t kMostForOrders = 20000;

}  // namespace

MemoryPlan PlanBySize(std::span<const BufferLife> buffers) {
  MemoryPlan plan;
  for (const auto& [at, sum] : LiveSums(buffers))
    plan.lower_bound_bytes = std::max(plan.lower_bound_bytes, sum);
  Place(buffers, BySize(buffers), plan);
  return plan;
}

MemoryPlan PlanMemory(std::span<const BufferLife> buffers) {
  MemoryPlan best = PlanBySize(buffers);
  if (best.arena_bytes == best.lower_bound_bytes || buffers.size() > kMostForOrders) return best;
  std::vector<size_t> order = BySize(buffers);
  MemoryPlan other = best;
  const auto try_order = [&](auto before) {
    std::stable_sort(order.begin(), order.end(), before);
    Place(buffers, order, other);
    if (other.arena_bytes < best.arena_bytes) best = other;
  };
  const auto size = [&](size_t i) { return buffers[i].bytes; };
  const std::vector<int64_t> sums = LargestSums(buffers);
  try_order([&](size_t a, size_t b) {
    return std::pair(sums[a], size(a)) > std::pair(sums[b], size(b));
  });
  const auto length = [&](size_t i) { return buffers[i].last - buffers[i].first; };
  try_order([&](size_t a, size_t b) {
    return std::pair(length(a), size(a)) > std::pair(length(b), size(b));
  });
  try_order([&](size_t a, size_t b) { return buffers[a].first < buffers[b].first; });
  return best;
}

}  // namespace infer
