#include "quant/prune/group_costs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lib/ir/body.h"
#include "lib/ir/editor.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "quant/prune/layer_record.h"
#include "quant/recipe/held_out.h"

namespace infer {
namespace {

/// Shares of a group's levels at which its cost at the outputs is measured.
constexpr double kMeasuredShares[] = {0.25, 0.5, 0.8};

/// The unit of each index along an axis of a constant, -1: none.
std::vector<int64_t> UnitOfIndex(const ChannelGroup& group, const WeightsOfGroup& w,
                                 int64_t extent) {
  std::vector<int64_t> unit(static_cast<size_t>(extent), -1);
  for (size_t u = 0; u < group.units.size(); ++u)
    if (const auto it = group.units[u].find({w.weights, w.axis}); it != group.units[u].end())
      for (const int64_t i : it->second) unit[static_cast<size_t>(i)] = static_cast<int64_t>(u);
  return unit;
}

/// Calls f(element, index along the axis) for every element.
template <typename F>
void ForAxis(const Dims& dims, int axis, F f) {
  int64_t inner = 1, all = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    all *= dims[i];
    if (static_cast<int>(i) > axis) inner *= dims[i];
  }
  const int64_t extent = dims[static_cast<size_t>(axis)];
  for (int64_t e = 0; e < all; ++e) f(e, e / inner % extent);
}

/// Mean squares of what makes each unit's channels, summed.
std::vector<double> StrengthOf(const Graph& work, const ChannelGroup& group) {
  std::vector<double> strength(group.units.size(), 0.0);
  for (const WeightsOfGroup& w : group.producers) {
    const Tensor& t = *work.FindValue(w.weights)->constant();
    const std::vector<float> values = t.ToFloats();
    const auto unit = UnitOfIndex(group, w, t.dim(w.axis));
    ForAxis(t.dims(), w.axis, [&](int64_t e, int64_t i) {
      const auto v = static_cast<double>(values[static_cast<size_t>(e)]);
      if (const int64_t u = unit[static_cast<size_t>(i)]; u >= 0)
        strength[static_cast<size_t>(u)] += v * v;
    });
  }
  return strength;
}

/// The unit of each column of a reader.
std::vector<int64_t> UnitOfColumn(const Graph& work, const ChannelGroup& group,
                                  const WeightsOfGroup& w, const WeightPlace& place) {
  const Tensor& t = *work.FindValue(w.weights)->constant();
  const auto unit = UnitOfIndex(group, w, t.dim(w.axis));
  std::vector<int64_t> of_element(static_cast<size_t>(t.num_elements()));
  ForAxis(t.dims(), w.axis, [&](int64_t e, int64_t i) {
    of_element[static_cast<size_t>(e)] = unit[static_cast<size_t>(i)];
  });
  std::vector<int64_t> columns;
  const int64_t d = place.plane.depth();
  int64_t at = 0;
  place.ForEach([&](int64_t element) {
    if (at / d % place.plane.rows == 0) columns.push_back(of_element[static_cast<size_t>(element)]);
    ++at;
  });
  return columns;
}

const PrunableWeights& LayerOf(const std::vector<PrunableWeights>& layers,
                               const std::string& weights) {
  return *std::find_if(layers.begin(), layers.end(),
                       [&](const PrunableWeights& w) { return w.weights == weights; });
}

/// Readers of the group, each constant once.
std::vector<const WeightsOfGroup*> DistinctReaders(const ChannelGroup& group) {
  std::vector<const WeightsOfGroup*> readers;
  std::set<std::string> seen;
  for (const WeightsOfGroup& w : group.readers)
    if (seen.insert(w.weights).second) readers.push_back(&w);
  return readers;
}

class GroupPlanner {
 public:
  GroupPlanner(const Graph& work, const std::vector<PrunableWeights>& layers,
               const std::optional<HeldOut>& held_out, const ChannelOptions& options)
      : work_(work), layers_(layers), held_out_(held_out), options_(options) {}

  /// `moments` by constant.
  Result<GroupPlan> Plan(const ChannelGroup& group, const std::vector<int64_t>& levels,
                         const std::map<std::string, const MomentsPair*>& moments) const {
    const auto named = DistinctReaders(group);
    const std::vector<double> strength = StrengthOf(work_, group);
    std::vector<std::vector<float>> dense;
    std::vector<GroupReader> readers;
    for (const WeightsOfGroup* w : named)
      dense.push_back(
          LayerOf(layers_, w->weights).place.Read(*work_.FindValue(w->weights)->constant()));
    for (size_t i = 0; i < named.size(); ++i) {
      const PrunableWeights& layer = LayerOf(layers_, named[i]->weights);
      GroupReader r;
      r.plane = layer.place.plane;
      r.dense = dense[i];
      r.unit_of_column = UnitOfColumn(work_, group, *named[i], layer.place);
      r.strength = strength;
      r.takes_shift = layer.bias.has_value();
      if (const auto it = moments.find(named[i]->weights); it != moments.end())
        if (!it->second->fit.empty()) r.moments = it->second;
      readers.push_back(std::move(r));
    }
    UnitSweep sweep(readers, static_cast<int64_t>(group.units.size()), UnitLimits(group));
    std::vector<std::pair<int64_t, double>> measured;  // (units, noise)
    for (const double share : kMeasuredShares) {
      const auto last = static_cast<double>(levels.size() - 1);
      const int64_t gone = levels[static_cast<size_t>(std::llround(share * last))];
      if (!measured.empty() && measured.back().first == gone) continue;
      INFER_TRY(Remove(sweep, gone));
      if (!held_out_ || static_cast<int64_t>(sweep.order().size()) < gone) continue;
      INFER_ASSIGN(const double noise, NoiseOf(sweep, named));
      measured.emplace_back(gone, noise);
    }
    INFER_TRY(Remove(sweep, levels.back()));
    GroupOrder found{sweep.order(), sweep.errors(), {}};
    found.costs = CostsOf(found.errors, measured);
    if (options_.store) INFER_TRY(options_.store->Add(KeyOf(group), ToRecord(found)));
    return PlanOf(group, levels, std::move(found));
  }

  /// nullopt: it has to be measured.
  Result<std::optional<GroupPlan>> Kept(const ChannelGroup& group,
                                        const std::vector<int64_t>& levels) const {
    std::optional<GroupPlan> none;
    if (!options_.store) return none;
    INFER_ASSIGN(const auto record, options_.store->Find(KeyOf(group)));
    auto found = record ? GroupOrderOf(*record) : std::nullopt;
    const auto units = static_cast<int64_t>(group.units.size());
    if (!found || std::any_of(found->order.begin(), found->order.end(),
                              [&](int64_t u) { return u < 0 || u >= units; }))
      return none;
    return std::optional(PlanOf(group, levels, *std::move(found)));
  }

 private:
  static std::string KeyOf(const ChannelGroup& group) {
    return Cat("group ", group.axis.first, " ", group.axis.second);
  }

  static GroupPlan PlanOf(const ChannelGroup& group, const std::vector<int64_t>& levels,
                          GroupOrder found) {
    GroupPlan plan;
    plan.order = std::move(found.order);
    plan.errors = std::move(found.errors);
    plan.costs = std::move(found.costs);
    plan.curve.units = static_cast<int64_t>(group.units.size());
    for (const int64_t gone : levels)
      if (gone <= static_cast<int64_t>(plan.errors.size()))
        plan.curve.levels.emplace_back(gone, plan.costs[static_cast<size_t>(gone - 1)]);
    return plan;
  }

  Status Remove(UnitSweep& sweep, int64_t count) const {
    const LaneLease lease(options_.threads);
    sweep.RemoveUntil(count, [this] { return options_.stop.stop_requested(); });
    if (options_.stop.stop_requested()) return Cancelled("pruning was stopped");
    return {};
  }

  /// At the outputs when the readers are left as the sweep has them now.
  Result<double> NoiseOf(const UnitSweep& sweep,
                         const std::vector<const WeightsOfGroup*>& readers) const {
    Graph cut = work_.Clone();
    for (size_t i = 0; i < readers.size(); ++i) {
      const PrunableWeights& layer = LayerOf(layers_, readers[i]->weights);
      LayerResult left;
      left.matrix = sweep.Left(i);
      INFER_TRY(WriteLayer(layer, left, cut));
    }
    INFER_ASSIGN(const HeldOutError e, held_out_->Measure(cut));
    return e.noise;
  }

  /// Errors times noise per error, which is interpolated between the points that were measured.
  static std::vector<double> CostsOf(const std::vector<double>& errors,
                                     const std::vector<std::pair<int64_t, double>>& measured) {
    std::vector<double> costs = errors;
    if (measured.empty()) return costs;
    const auto ratio = [&](size_t i) {
      const double e = errors[static_cast<size_t>(measured[i].first - 1)];
      return e > 0 ? measured[i].second / e : 0;
    };
    double greatest = 0;
    for (size_t k = 0; k < errors.size(); ++k) {
      const auto gone = static_cast<int64_t>(k) + 1;
      size_t next = 0;
      while (next + 1 < measured.size() && measured[next].first < gone) ++next;
      double r = ratio(next);
      if (next > 0 && measured[next].first > gone) {
        const double part = static_cast<double>(gone - measured[next - 1].first) /
                            static_cast<double>(measured[next].first - measured[next - 1].first);
        r = ratio(next - 1) + part * (r - ratio(next - 1));
      }
      greatest = std::max(greatest, errors[k] * r);
      costs[k] = greatest;
    }
    return costs;
  }

  const Graph& work_;
  const std::vector<PrunableWeights>& layers_;
  const std::optional<HeldOut>& held_out_;
  const ChannelOptions& options_;
};

}  // namespace

Result<std::vector<GroupPlan>> PlanGroups(const Graph& original, const Graph& work,
                                          std::span<const ChannelGroup* const> groups,
                                          std::span<const std::vector<int64_t>> levels,
                                          const std::vector<PrunableWeights>& layers,
                                          const Samples& samples, const Backend& backend,
                                          const ChannelOptions& options) {
  std::optional<HeldOut> held_out;
  CostSamples some;
  if (samples.count > 0) {
    some = CostSamplesOf(samples);
    HeldOut::Options judge;
    judge.threads = options.threads;
    judge.stop = options.stop;
    INFER_ASSIGN(held_out, HeldOut::Make(original, some.judge, backend, judge));
  }
  const GroupPlanner planner(work, layers, held_out, options);
  std::vector<GroupPlan> plans;
  for (size_t begin = 0; begin < groups.size();) {
    INFER_ASSIGN(auto kept, planner.Kept(*groups[begin], levels[begin]));
    if (kept) {
      plans.push_back(*std::move(kept));
      ++begin;
      continue;
    }
    // As many groups as the budget holds, at least one; layers that several read are summed once.
    std::vector<SelectedLayer> batch;
    std::set<std::string> in_batch;
    size_t end = begin;
    int64_t bytes = 0;
    for (; end < groups.size(); ++end) {
      std::vector<SelectedLayer> more;
      int64_t more_bytes = 0;
      for (const WeightsOfGroup* w : DistinctReaders(*groups[end])) {
        if (in_batch.contains(w->weights)) continue;
        more.push_back({LayerOf(layers, w->weights), 0, 0, {}});
        more_bytes += MomentsBytes({&more.back().weights, {}, IsTooDeep(more.back())});
      }
      if (end > begin && (bytes + more_bytes > options.max_bytes || samples.count == 0)) break;
      bytes += more_bytes;
      for (SelectedLayer& l : more) {
        in_batch.insert(l.weights.weights);
        batch.push_back(std::move(l));
      }
    }
    std::map<std::string, const MomentsPair*> by_name;
    std::vector<MomentsPair> moments;
    if (samples.count > 0 && !batch.empty()) {
      const MomentsBatch requests =
          NextBatch(work, batch, 0, batch.size(), std::numeric_limits<int64_t>::max());
      MomentsOptions sum;
      sum.threads = options.threads;
      sum.stop = options.stop;
      INFER_ASSIGN(moments, SumMoments(work, nullptr, requests.requests, some.curve, backend, sum));
      for (size_t i = 0; i < batch.size(); ++i) by_name[batch[i].weights.weights] = &moments[i];
    }
    for (; begin < end; ++begin) {
      INFER_ASSIGN(GroupPlan plan, planner.Plan(*groups[begin], levels[begin], by_name));
      plans.push_back(std::move(plan));
      if (options.progress)
        options.progress("measure groups", static_cast<int64_t>(begin) + 1,
                         static_cast<int64_t>(groups.size()));
    }
  }
  return plans;
}

int64_t FlopsOf(const Graph& g) {
  int64_t sum = 0;
  for (const auto& n : g.nodes()) sum += CostOfNode(*n, g.ops()).flops;
  return sum;
}

ConstantSize ConstantsOf(const Graph& g) {
  ConstantSize size;
  for (const auto& v : g.values()) {
    if (!v->is_constant() || !v->type().is_tensor() || !IsFloat(v->dtype())) continue;
    size.elements += v->constant()->num_elements();
    size.bytes += v->constant()->byte_size();
  }
  return size;
}

bool IsStatic(const Graph& g) {
  return std::all_of(g.inputs().begin(), g.inputs().end(), [](const Value* v) {
    return v->type().is_tensor() && v->tensor_type().is_static();
  });
}

std::vector<WorkItem> WorkItemsOf(const Graph& dense, std::span<const Graph> cut,
                                  std::span<const double> kept, bool bytes) {
  const auto work_of = [&](const Graph& g) {
    std::map<std::string, double> work;
    if (bytes) {
      for (const auto& v : g.values())
        if (v->is_constant() && IsFloat(v->dtype()))
          work[v->name()] = static_cast<double>(v->constant()->byte_size());
    } else {
      for (const auto& n : g.nodes())
        if (n->output(0))
          work[n->output(0)->name()] = static_cast<double>(CostOfNode(*n, g.ops()).flops);
    }
    return work;
  };
  std::map<std::string, WorkItem> items;
  for (const auto& [name, base] : work_of(dense)) items[name].base = base;
  for (size_t i = 0; i < cut.size(); ++i)
    for (const auto& [name, after] : work_of(cut[i])) {
      const auto it = items.find(name);
      if (it == items.end() || it->second.base <= 0 || after >= it->second.base) continue;
      const double ratio = std::max(after, 1.0) / it->second.base;
      it->second.groups.emplace_back(i, std::log(ratio) / std::log(kept[i]));
    }
  std::vector<WorkItem> all;
  for (auto& [name, item] : items)
    if (item.base > 0) all.push_back(std::move(item));
  return all;
}

}  // namespace infer
