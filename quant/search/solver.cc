#include "quant/search/solver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace infer {
namespace {

/// How a choice for the layers so far came about: the state before the last of them.
struct Origin {
  int from = -1, option = -1;
};
struct State {
  LayerCost total;
  Origin origin;
  bool marked = false;  // the option of the last layer, with terms of neighbours
};

LayerCost Sum(const LayerCost& a, const LayerCost& b) {
  return {a.error + b.error, a.bytes + b.bytes, a.ms + b.ms};
}

bool NoWorse(const LayerCost& a, const LayerCost& b) {
  return a.error <= b.error && a.bytes <= b.bytes && a.ms <= b.ms;
}

/// Where sums lie between the least and the largest, in `count` parts of equal ratio: a few bytes
/// matter where there are few. Sums count from `floor`, which none is below.
class Buckets {
 public:
  Buckets(const std::vector<State>& states, double (*of)(const LayerCost&), int64_t count,
          double floor = 0)
      : of_(of), last_(count - 1), floor_(floor) {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (const State& s : states) {
      least = std::min(least, of(s.total) - floor);
      most = std::max(most, of(s.total) - floor);
    }
    // What is next to nothing beside the largest is one bucket.
    least_ = std::max(least, most * (floor > 0 ? 1e-3 : 1e-6));
    if (most > least_) per_log_ = static_cast<double>(count) / std::log(most / least_);
  }
  int64_t Of(const LayerCost& c) const {
    const double x = of_(c) - floor_;
    if (per_log_ <= 0 || x <= least_) return 0;
    return std::min(last_, static_cast<int64_t>(std::log(x / least_) * per_log_));
  }

 private:
  double (*of_)(const LayerCost&);
  int64_t last_;
  double floor_, least_ = 0, per_log_ = 0;
};

/// Keeps of each bucket the state of least error; ties go to fewer bytes, then to less time.
std::vector<State> Merge(const std::vector<State>& states, bool bytes_differ, bool ms_differ,
                         int buckets, double ms_floor) {
  // Time is measured, bytes are exact: of two costs bytes get four times as many parts.
  const auto side = static_cast<int64_t>(std::sqrt(buckets / 4));
  const bool both = bytes_differ && ms_differ;
  const Buckets by_bytes(
      states, [](const LayerCost& c) { return static_cast<double>(c.bytes); },
      both           ? 4 * side
      : bytes_differ ? buckets
                     : 1);
  const Buckets by_ms(
      states, [](const LayerCost& c) { return c.ms; },
      both        ? side
      : ms_differ ? buckets
                  : 1,
      ms_floor);
  std::unordered_map<int64_t, size_t> best;
  std::vector<State> kept;
  for (const State& s : states) {
    const int64_t at =
        (by_bytes.Of(s.total) * (buckets + 1) + by_ms.Of(s.total)) * 2 + (s.marked ? 1 : 0);
    const auto [it, fresh] = best.emplace(at, kept.size());
    if (fresh) {
      kept.push_back(s);
      continue;
    }
    State& held = kept[it->second];
    const auto key = [](const LayerCost& c) { return std::tuple(c.error, c.bytes, c.ms); };
    if (key(s.total) < key(held.total)) held = s;
  }
  return kept;
}

/// Sorted by bytes, then error, then time; nothing that another is no worse than.
std::vector<int> Undominated(const std::vector<State>& states) {
  std::vector<int> order(states.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int i) -> const LayerCost& { return states[static_cast<size_t>(i)].total; };
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::tuple(at(a).bytes, at(a).error, at(a).ms, a) <
           std::tuple(at(b).bytes, at(b).error, at(b).ms, b);
  });
  std::vector<int> front;
  std::map<double, double> least_ms;  // by error: falling, among those with no more bytes
  for (const int i : order) {
    const LayerCost& c = at(i);
    auto next = least_ms.upper_bound(c.error);
    if (next != least_ms.begin() && std::prev(next)->second <= c.ms) continue;
    while (next != least_ms.end() && next->second >= c.ms) next = least_ms.erase(next);
    least_ms[c.error] = c.ms;
    front.push_back(i);
  }
  return front;
}

}  // namespace

std::vector<Assignment> SolvePrecisions(std::span<const std::vector<LayerCost>> layers,
                                        const SolverOptions& options, const ChainTerms* chain) {
  // Small layers first: their buckets are fine then.
  std::vector<size_t> order(layers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto size = [&](size_t l) {
    int64_t most = 0;
    for (const LayerCost& c : layers[l]) most = std::max(most, c.bytes);
    return most;
  };
  if (!chain)
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return size(a) < size(b); });
  const auto marked = [&](size_t l, size_t o) { return chain && chain->marked[l][o]; };
  bool bytes_differ = false, ms_differ = false;
  for (const auto& layer : layers)
    for (const LayerCost& c : layer) {
      bytes_differ = bytes_differ || c.bytes != layer[0].bytes;
      ms_differ = ms_differ || c.ms != layer[0].ms;
    }
  double ms_floor = 0;  // with neighbours: what the time is above matters, not the time
  std::vector<State> states = {State{}};
  std::vector<std::vector<Origin>> steps;
  for (const size_t l : order) {
    std::vector<int> usable;  // an option that another is no worse than in everything is none
    for (size_t o = 0; o < layers[l].size(); ++o) {
      const bool beaten = [&] {
        for (size_t p = 0; p < layers[l].size(); ++p)
          if (p != o && marked(l, p) == marked(l, o) && NoWorse(layers[l][p], layers[l][o]) &&
              (p < o || !NoWorse(layers[l][o], layers[l][p])))
            return true;
        return false;
      }();
      if (!beaten) usable.push_back(static_cast<int>(o));
    }
    std::vector<State> next;
    for (size_t s = 0; s < states.size(); ++s)
      for (const int o : usable) {
        const bool mark = marked(l, static_cast<size_t>(o));
        LayerCost total = Sum(states[s].total, layers[l][static_cast<size_t>(o)]);
        if (mark && states[s].marked) total.ms += chain->ms[l - 1];
        next.push_back({total, {static_cast<int>(s), o}, mark});
      }
    if (chain) {
      double least = std::numeric_limits<double>::infinity();
      for (const LayerCost& c : layers[l]) least = std::min(least, c.ms);
      ms_floor += least;
    }
    states = Merge(next, bytes_differ, ms_differ, options.buckets, ms_floor);
    steps.emplace_back();
    for (const State& s : states) steps.back().push_back(s.origin);
  }
  std::vector<Assignment> front;
  for (const int last : Undominated(states)) {
    Assignment a;
    a.total = states[static_cast<size_t>(last)].total;
    a.choice.resize(layers.size());
    int at = last;
    for (size_t step = order.size(); step > 0; --step) {
      const Origin& o = steps[step - 1][static_cast<size_t>(at)];
      a.choice[order[step - 1]] = o.option;
      at = o.from;
    }
    front.push_back(std::move(a));
  }
  return front;
}

LayerCost TotalOf(std::span<const std::vector<LayerCost>> layers, std::span<const int> choice,
                  const ChainTerms* chain) {
  LayerCost total;
  for (size_t l = 0; l < layers.size(); ++l) {
    const auto at = static_cast<size_t>(choice[l]);
    total = Sum(total, layers[l][at]);
    if (chain && l > 0 && chain->marked[l][at] &&
        chain->marked[l - 1][static_cast<size_t>(choice[l - 1])])
      total.ms += chain->ms[l - 1];
  }
  return total;
}

}  // namespace infer
