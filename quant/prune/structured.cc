#include "quant/prune/structured.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/prune/channel_space.h"
#include "quant/prune/check_same.h"
#include "quant/prune/fit_layers.h"
#include "quant/prune/goal.h"
#include "quant/prune/shrink.h"

namespace infer {
namespace {

constexpr int kMostStrides = 6;  // of shares of the FLOPs, towards a speed that only the finished
                                 // graph tells
constexpr double kLeastStride = 0.05;
constexpr int kGoalSteps = 4;   // between two strides
constexpr int kWorkSteps = 40;  // towards work that only the finished graph tells
constexpr int kDropSteps = 5;   // of a search by accuracy: each prunes the whole model
/// Noise of widths that save FLOPs and no time counts so many times where the goal is time: one by
/// one, since layers that lose a kernel alone may be faster together.
constexpr double kCostsWithoutTime[] = {1, 4, 64};
constexpr double kLeastShare = 0.1;  // of the FLOPs, that such a search looks at

Status CheckChannelRequest(const Graph& g, const Samples& samples, const ChannelOptions& o) {
  INFER_TRY(CheckNotQuantized(g));
  const double v = o.goal.value;
  using enum ChannelGoal::Kind;
  switch (o.goal.kind) {
    case kFlops:
      if (!(v > 0 && v < 1))
        return InvalidArgument("a FLOP goal is a share above 0 and below 100 %: what stays");
      break;
    case kBytes: INFER_TRY(CheckBytesGoal(v)); break;
    case kSpeedup: INFER_TRY(CheckSpeedupGoal(v, o.speedup != nullptr)); break;
    case kDrop: INFER_TRY(CheckDropGoal(v, samples.count)); break;
  }
  if (o.multiple < 1) return InvalidArgument("widths are multiples of at least 1");
  return {};
}

/// Units to remove, by usable group.
using Widths = std::vector<int64_t>;

class ChannelPruner {
 public:
  ChannelPruner(const Graph& original, const Samples& samples, const Backend& backend,
                const ChannelOptions& options)
      : original_(original),
        samples_(samples),
        backend_(backend),
        options_(options),
        result_(original.ops()) {}

  Status Run() {
    INFER_ASSIGN(space_, ChannelSpace::Make(original_, samples_, backend_, options_));
    report_.groups = space_->groups;
    report_.flops = space_->flops;
    report_.parameters = space_->constants.elements;
    report_.constant_bytes = space_->constants.bytes;
    const bool by_drop = options_.goal.kind == ChannelGoal::Kind::kDrop;
    const Samples fit = by_drop ? FitPart(samples_) : samples_;
    INFER_TRY(Plan(fit));
    Widths widths;
    if (by_drop) {
      INFER_ASSIGN(widths, SearchByDrop(fit));
    } else {
      INFER_ASSIGN(widths, WidthsForGoal());
    }
    INFER_ASSIGN(result_, Pruned(widths, samples_));
    Report(widths);
    return {};
  }
  Graph TakeGraph() { return std::move(result_); }
  ChannelReport TakeReport() { return std::move(report_); }

 private:
  Status Plan(const Samples& fit) {
    std::vector<const ChannelGroup*> groups;
    for (const size_t i : space_->usable) groups.push_back(&report_.groups[i].group);
    INFER_ASSIGN(plans_, PlanGroups(original_, space_->work, groups, space_->levels, space_->layers,
                                    fit, backend_, options_));
    report_.by_data = fit.count > 0;
    return {};
  }

  /// The noise of widths that save no time counts `factor` times.
  std::vector<WidthCurve> Curves(double factor) const {
    std::vector<WidthCurve> curves;
    for (size_t k = 0; k < plans_.size(); ++k) {
      curves.push_back(plans_[k].curve);
      const std::vector<int64_t>& levels = space_->levels[k];
      for (auto& [gone, cost] : curves.back().levels) {
        const auto at = std::lower_bound(levels.begin(), levels.end(), gone) - levels.begin();
        if (!space_->saves_time[k][static_cast<size_t>(at)]) cost *= factor;
      }
    }
    return curves;
  }

  /// The noise of all groups at these widths, each measured alone.
  double NoiseOf(const Widths& w) const {
    double noise = 0;
    for (size_t k = 0; k < w.size(); ++k)
      if (w[k] > 0) noise += plans_[k].costs[static_cast<size_t>(w[k] - 1)];
    return noise;
  }

  std::vector<int64_t> Removed(const Widths& w, size_t k) const {
    const auto& order = plans_[k].order;
    std::vector<int64_t> units(order.begin(), order.begin() + w[k]);
    std::sort(units.begin(), units.end());
    return units;
  }

  AxisCuts Cuts(const Widths& w) const {
    AxisCuts cuts;
    for (size_t k = 0; k < space_->usable.size(); ++k)
      AddCuts(CutsOf(report_.groups[space_->usable[k]].group, Removed(w, k)), cuts);
    std::erase_if(cuts, [](const auto& c) { return c.second.empty(); });
    return cuts;
  }

  double WorkIn(const Graph& g) const {
    return static_cast<double>(space_->by_bytes ? ConstantsOf(g).bytes : FlopsOf(g));
  }

  double DenseWork() const {
    return static_cast<double>(space_->by_bytes ? space_->constants.bytes : space_->flops);
  }

  /// The work of the shrunk graph is at most `goal`: what the model of it missed is taken off.
  Result<Widths> WidthsFor(double goal, double factor = 1) const {
    const std::vector<WidthCurve> curves = Curves(factor);
    double asked = goal;
    for (int step = 0; step < kWorkSteps; ++step) {
      auto allocated = AllocateWidths(space_->items, curves, asked);
      if (!allocated.ok()) return SmallestWidthsFor(goal, curves);
      Widths w = *std::move(allocated);
      INFER_ASSIGN(const Graph cut, Shrink(space_->counted, Cuts(w)));
      const double work = WorkIn(cut);
      if (work <= goal) return w;
      asked -= std::max(work - goal, 5e-3 * goal);
    }
    return SmallestWidthsFor(goal, curves);
  }

  /// All groups at their smallest widths, where the shrunk graph's work is at most `goal`.
  Result<Widths> SmallestWidthsFor(double goal, std::span<const WidthCurve> curves) const {
    Widths w;
    for (const WidthCurve& c : curves) w.push_back(c.levels.empty() ? 0 : c.levels.back().first);
    INFER_ASSIGN(const Graph cut, Shrink(space_->counted, Cuts(w)));
    const double work = WorkIn(cut), all = DenseWork();
    if (work <= goal) return w;
    return Unsupported(Cat("all groups at their smallest widths leave ",
                           Rounded(100 * work / all, 3), " %, the goal is ",
                           Rounded(100 * goal / all, 3), " %"));
  }

  Result<Widths> WidthsForGoal() {
    const double v = options_.goal.value, all = DenseWork();
    switch (options_.goal.kind) {
      case ChannelGoal::Kind::kFlops: return InGoal(WidthsFor(v * all));
      case ChannelGoal::Kind::kBytes:
        INFER_TRY(CheckBytesToSave(v, all));
        return InGoal(WidthsFor(v));
      case ChannelGoal::Kind::kSpeedup: return SearchBySpeed();
      case ChannelGoal::Kind::kDrop: break;
    }
    return Internal("a goal without a way to it");
  }

  static Result<Widths> InGoal(Result<Widths> w) {
    return w.ok() ? std::move(w)
                  : Result<Widths>(std::move(w.status()).In("the goal is out of reach"));
  }

  /// Of the ways to leave out widths that save no time the one that is expected to cost least.
  Result<Widths> SearchBySpeed() {
    std::optional<Widths> best;
    double reached = 0;
    for (const double factor : kCostsWithoutTime) {
      if (factor > 1 && space_->AllSaveTime()) break;
      INFER_ASSIGN(auto found, FastEnough(factor, reached));
      if (!found || (best && NoiseOf(found->widths) >= NoiseOf(*best))) continue;
      best = std::move(found->widths);
      report_.speedup = found->speedup;
    }
    if (best) return *std::move(best);
    return SpeedupOutOfReach(options_.goal.value, reached);
  }

  struct Timed {
    Widths widths;
    double speedup = 0;
  };

  /// Widths of this share of the FLOPs, with their speed; nullopt: no widths have so few.
  Result<std::optional<Timed>> TimedAt(double share, double factor, double& reached) const {
    if (options_.stop.stop_requested()) return Cancelled("pruning was stopped");
    auto w = WidthsFor(share * DenseWork(), factor);
    if (!w.ok()) return std::optional<Timed>();
    INFER_ASSIGN(const Graph cut, Shrink(space_->counted, Cuts(*w)));
    INFER_ASSIGN(const double speedup, options_.speedup(space_->counted, cut));
    reached = std::max(reached, speedup);
    return std::optional(Timed{*std::move(w), speedup});
  }

  /// The largest share of the FLOPs with which the shrunk graph is fast enough; nullopt: none is.
  /// A narrower graph can be slower, where kernels have no use for a width, so that halving alone
  /// may go past the largest share to much smaller ones: in strides down to the first that is fast
  /// enough, then between it and the last that was not.
  Result<std::optional<Timed>> FastEnough(double factor, double& reached) const {
    const double first = 1 / options_.goal.value;
    const double stride = std::max(kLeastStride, (first - kLeastShare) / kMostStrides);
    double low = 0, high = 1.0;
    std::optional<Timed> best;
    for (double share = first; low == 0 && share > kLeastShare - stride / 2; share -= stride) {
      INFER_ASSIGN(auto at, TimedAt(share, factor, reached));
      if (at && at->speedup < options_.goal.value) {
        high = share;
        continue;
      }
      low = share;
      best = std::move(at);
    }
    for (int step = 0; low > 0 && step < kGoalSteps && high - low >= 0.02; ++step) {
      const double share = (low + high) / 2;
      INFER_ASSIGN(auto at, TimedAt(share, factor, reached));
      if (at && at->speedup < options_.goal.value) {
        high = share;
        continue;
      }
      low = share;
      if (at) best = std::move(at);
    }
    return best;
  }

  /// The least share of the FLOPs whose loss on samples that nothing was fitted to is allowed.
  Result<Widths> SearchByDrop(const Samples& fit) {
    INFER_ASSIGN(const HeldOut judge,
                 MakeDropJudge(original_, samples_, backend_, options_.threads, options_.stop));
    double low = kLeastShare, high = 1.0, least = 1.0;
    std::optional<Widths> best;
    for (int step = 0; step < kDropSteps; ++step) {
      const double share = (low + high) / 2;
      auto w = WidthsFor(share * DenseWork());
      if (!w.ok()) {
        low = share;
        continue;
      }
      INFER_ASSIGN(const Graph cut, Pruned(*w, fit));
      INFER_ASSIGN(const double drop, DropOf(judge, cut));
      least = std::min(least, drop);
      if (drop <= options_.goal.value) {
        best = *std::move(w);
        report_.drop = drop;
        high = share;
      } else {
        low = share;
      }
    }
    if (best) return *std::move(best);
    return Unsupported(Cat("no width that was tried loses at most ",
                           Rounded(100 * options_.goal.value, 3), " points; the least lost ",
                           Rounded(100 * least, 3)));
  }

  /// What leaves the weights that read the groups: only there the model without is another one.
  AxisCuts ReaderCuts(const Widths& w) const {
    AxisCuts cuts;
    for (size_t k = 0; k < space_->usable.size(); ++k) {
      const ChannelGroup& group = report_.groups[space_->usable[k]].group;
      const AxisCuts all = CutsOf(group, Removed(w, k));
      for (const WeightsOfGroup& r : group.readers)
        if (const auto it = all.find({r.weights, r.axis}); it != all.end())
          AddCuts({{it->first, it->second}}, cuts);
    }
    return cuts;
  }

  Result<Graph> Pruned(const Widths& w, const Samples& samples) {
    INFER_ASSIGN(FittedChannels fitted, FitLayers(space_->work, space_->layers, ReaderCuts(w),
                                                  samples, backend_, options_));
    INFER_ASSIGN(const AxisCuts cuts, CutsIn(fitted.graph, w));
    INFER_ASSIGN(Graph out, Shrink(fitted.graph, cuts));
    INFER_TRY(
        CheckSame(fitted.graph, out, samples, backend_, options_.threads,
                  "the model without its channels differs from the one in which they are zero"));
    report_.layers = std::move(fitted.layers);
    report_.statistics = fitted.statistics;
    return out;
  }

  /// The same units in a graph whose layers got other biases.
  Result<AxisCuts> CutsIn(const Graph& g, const Widths& w) const {
    INFER_ASSIGN(const auto layers, FindPrunable(g, original_, {}));
    const auto groups = FindGroups(g, layers);
    AxisCuts cuts;
    for (size_t k = 0; k < space_->usable.size(); ++k) {
      if (w[k] == 0) continue;
      const ChannelGroup& before = report_.groups[space_->usable[k]].group;
      const auto now = std::find_if(groups.begin(), groups.end(),
                                    [&](const ChannelGroup& o) { return o.axis == before.axis; });
      if (now == groups.end()) return Internal(Cat("the group of ", before.name, " is gone"));
      for (const int64_t u : Removed(w, k)) {
        const auto& own = before.units[static_cast<size_t>(u)].at(before.axis);
        const auto same =
            std::find_if(now->units.begin(), now->units.end(),
                         [&](const AxisCuts& unit) { return unit.at(now->axis) == own; });
        if (same == now->units.end())
          return Internal(Cat("the group of ", before.name, " has other units"));
        AddCuts(*same, cuts);
      }
    }
    return cuts;
  }

  void Report(const Widths& w) {
    report_.calibration_samples = samples_.count;
    const ConstantSize size = ConstantsOf(result_);
    report_.parameters_after = size.elements;
    report_.constant_bytes_after = size.bytes;
    if (report_.flops >= 0)
      if (auto cut = Shrink(space_->counted, Cuts(w)); cut.ok())
        report_.flops_after = FlopsOf(*cut);
    const auto elements = [](const Graph& g, const std::string& name) {
      const Value* v = g.FindValue(name);
      return v && v->constant() ? v->constant()->num_elements() : 0;
    };
    for (PrunedGroup& p : report_.groups) {
      std::set<std::string> weights;
      for (const auto* part : {&p.group.producers, &p.group.readers})
        for (const WeightsOfGroup& k : *part) weights.insert(k.weights);
      for (const std::string& name : weights) {
        p.parameters += elements(space_->work, name);
        p.parameters_after += elements(result_, name);
      }
    }
    for (size_t k = 0; k < space_->usable.size(); ++k) {
      PrunedGroup& p = report_.groups[space_->usable[k]];
      p.removed = w[k];
      p.width_after = p.group.width - w[k] * p.group.unit_width();
      if (w[k] == 0) continue;
      p.error = plans_[k].errors[static_cast<size_t>(w[k] - 1)];
      if (report_.by_data) p.cost = plans_[k].costs[static_cast<size_t>(w[k] - 1)];
    }
  }

  const Graph& original_;
  const Samples& samples_;
  const Backend& backend_;
  const ChannelOptions& options_;
  Graph result_;
  std::optional<ChannelSpace> space_;
  std::vector<GroupPlan> plans_;
  ChannelReport report_;
};

}  // namespace

Result<ChannelReport> PruneChannels(Graph& g, const Samples& samples, const Backend& backend,
                                    const ChannelOptions& options) {
  INFER_TRY(CheckChannelRequest(g, samples, options));
  ChannelPruner pruner(g, samples, backend, options);
  INFER_TRY(pruner.Run());
  g = pruner.TakeGraph();
  return pruner.TakeReport();
}

}  // namespace infer
