#include "quant/prune/widths.h"

#include <algorithm>
#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

double Kept(const WidthCurve& c, int64_t gone) {
  return c.units > 0 ? static_cast<double>(c.units - gone) / static_cast<double>(c.units) : 1.0;
}

class WidthAllocator {
 public:
  WidthAllocator(std::span<const WorkItem> items, std::span<const WidthCurve> curves)
      : items_(items), curves_(curves), gone_(curves.size(), 0), level_(curves.size(), 0) {
    of_group_.resize(curves.size());
    for (size_t i = 0; i < items.size(); ++i)
      for (const auto& [g, exponent] : items[i].groups) of_group_[g].push_back(i);
  }

  Result<std::vector<int64_t>> Run(double goal) {
    const double all = WorkOf(items_, curves_, gone_);
    double work = all;
    while (work > goal) {
      double best = -1;
      size_t group = 0, level = 0;
      for (size_t g = 0; g < curves_.size(); ++g)
        for (size_t l = level_[g]; l < curves_[g].levels.size(); ++l) {
          const double worth = WorthOf(g, l, work - goal);
          if (worth <= best) continue;
          best = worth;
          group = g;
          level = l;
        }
      if (best <= 0)
        return Unsupported(Cat("all groups at their smallest widths leave ",
                               Rounded(100 * work / all, 3), " %, the goal is ",
                               Rounded(100 * goal / all, 3), " %"));
      gone_[group] = curves_[group].levels[level].first;
      level_[group] = level + 1;
      work = WorkOf(items_, curves_, gone_);
    }
    while (GiveBack(goal)) {
    }
    return gone_;
  }

 private:
  /// Levels are coarse, so that a later step may have made an earlier one needless: takes the
  /// dearest back that the goal does not need.
  bool GiveBack(double goal) {
    double most = 0;
    size_t group = 0, level = 0;
    for (size_t g = 0; g < curves_.size(); ++g)
      for (size_t l = 0; l < level_[g]; ++l) {  // `l` levels stay
        const int64_t now = gone_[g];
        gone_[g] = UnitsAt(g, l);
        const bool enough = WorkOf(items_, curves_, gone_) <= goal;
        gone_[g] = now;
        const double saved = CostAt(g, level_[g]) - CostAt(g, l);
        if (!enough || saved <= most) continue;
        most = saved;
        group = g;
        level = l;
      }
    if (most <= 0) return false;
    gone_[group] = UnitsAt(group, level);
    level_[group] = level;
    return true;
  }

  /// After so many levels.
  int64_t UnitsAt(size_t g, size_t levels) const {
    return levels > 0 ? curves_[g].levels[levels - 1].first : 0;
  }
  double CostAt(size_t g, size_t levels) const {
    return levels > 0 ? curves_[g].levels[levels - 1].second : 0;
  }

  /// Work that is saved by going to this level, over what it costs.
  double WorthOf(size_t g, size_t level, double needed) {
    const auto& [units, cost] = curves_[g].levels[level];
    const double before = CostAt(g, level_[g]);
    const double now = WorkOfGroup(g);
    const int64_t kept = gone_[g];
    gone_[g] = units;
    const double saved = now - WorkOfGroup(g);
    gone_[g] = kept;
    return std::min(saved, needed) / std::max(cost - before, 1e-12);
  }

  double WorkOfGroup(size_t g) const {
    double sum = 0;
    for (const size_t i : of_group_[g]) sum += WorkOf(items_.subspan(i, 1), curves_, gone_);
    return sum;
  }

  std::span<const WorkItem> items_;
  std::span<const WidthCurve> curves_;
  std::vector<int64_t> gone_;
  std::vector<size_t> level_;  // how many levels a group has gone down
  std::vector<std::vector<size_t>> of_group_;
};

}  // namespace

double WorkOf(std::span<const WorkItem> items, std::span<const WidthCurve> curves,
              std::span<const int64_t> gone) {
  double sum = 0;
  for (const WorkItem& item : items) {
    double part = item.base;
    for (const auto& [g, exponent] : item.groups)
      part *= std::pow(Kept(curves[g], gone[g]), exponent);
    sum += part;
  }
  return sum;
}

Result<std::vector<int64_t>> AllocateWidths(std::span<const WorkItem> items,
                                            std::span<const WidthCurve> curves, double goal) {
  return WidthAllocator(items, curves).Run(goal);
}

std::vector<int64_t> LevelsOf(int64_t units, int64_t unit_width, int64_t width, int64_t multiple) {
  int64_t step = unit_width == 1 ? multiple : 1;
  while (step > 1 && width < 2 * step) step /= 2;
  std::vector<int64_t> levels;
  for (int64_t gone = 1; gone < units; ++gone) {
    const int64_t left = width - gone * unit_width;
    if (left >= step && left % step == 0) levels.push_back(gone);
  }
  return levels;
}

}  // namespace infer
