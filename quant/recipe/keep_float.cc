#include "quant/recipe/keep_float.h"

#include <algorithm>
#include <cmath>

#include "lib/ir/roles.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/recipe/subset_search.h"
#include "quant/scheme/stored.h"

namespace infer {
namespace {

/// Elements; extents that are not known count 1.
double ElementsOf(const Value* v) {
  if (!v || !v->type().is_tensor() || !v->shape().has_rank()) return 1;
  double n = 1;
  for (int i = 0; i < v->shape().rank(); ++i)
    if (v->shape()[i].is_static())
      n *= static_cast<double>(std::max<int64_t>(v->shape()[i].value(), 1));
  return n;
}

/// What integers spare: products, and some for every number that is read and written, which is most
/// of what depthwise layers do.
double WorkOf(const Node& n) {
  constexpr double kWorkOfNumber = 16;
  const double results = ElementsOf(n.output(0));
  const Value* w = n.input(1);
  double depth = 1;
  if (IsTransposedConvolution(n)) return ElementsOf(n.input(0)) * ElementsOf(w);
  if (IsConvolution(n)) {
    const double channels = w->shape().has_rank() && w->shape()[0].is_static()
                                ? static_cast<double>(w->shape()[0].value())
                                : 1;
    depth = ElementsOf(w) / channels;
  } else if (const Value* x = n.input(0);
             x && x->shape().has_rank() && x->shape().rank() > 0 && x->shape()[-1].is_static()) {
    depth = static_cast<double>(x->shape()[-1].value());
  }
  return results * depth + kWorkOfNumber * (results + ElementsOf(n.input(0)));
}

/// One-sided 95 % of what was counted, given how many rows changed: not significantly more than
/// `share` of the rows.
bool CountsAtMost(double share, const HeldOutError& e) {
  constexpr double kNormal95 = 1.645;
  const double counted = static_cast<double>(e.lost - e.gained);
  const double spread = kNormal95 * std::sqrt(static_cast<double>(e.lost + e.gained));
  return counted - spread <= share * static_cast<double>(e.labelled);
}

}  // namespace

bool RecipeTarget::HasNothingToGain(const HeldOutError& e) const {
  return enough_drop && e.labelled >= kEnoughRows && e.drop <= *enough_drop &&
         CountsAtMost(*enough_drop, e) && Decibels(e.others_sure_worst) >= db;
}

bool RecipeTarget::Holds(const HeldOutError& e) const {
  if (HasNothingToGain(e)) return true;
  if (IsByNoise(e)) {
    const double found = Decibels(e.sure_worst);
    return found >= db && (e.flips <= flips || found >= calm_db);
  }
  if (Decibels(e.others_sure_worst) < db) return false;
  if (e.labelled < kEnoughRows) return e.flips <= task_flips;
  return e.drop <= std::max(max_drop, e.drop_error) && CountsAtMost(max_drop, e);
}

std::string_view RecipeTarget::Basis(const HeldOutError& e) const {
  if (HasNothingToGain(e)) return "top-1 drop";
  if (IsByNoise(e)) return "SQNR";
  return e.labelled < kEnoughRows ? "same classes" : "top-1 drop";
}

Result<HeldOutError> ErrorWith(const StaticModel& m, const Graph& original, const HeldOut& held,
                               int64_t samples) {
  auto r = RewriteStatic(m, original, 0);
  if (r.ok()) return held.Measure(r->graph, samples);
  if (r.status().code() != Code::kUnsupported) return r.status();
  return held.Measure(m.graph, samples);  // all is f32
}

Result<std::vector<std::string>> WeightedLayers(const StaticModel& model, const Graph& original) {
  const Graph g = model.graph.Clone();
  INFER_ASSIGN(const QuantPlan plan, PlanQuantization(g, original, model.scheme));
  std::vector<std::string> layers;
  for (const PlannedNode& p : plan.nodes)
    if (p.integer && p.op->role == QuantRole::kWeighted) layers.push_back(p.first_result);
  return layers;
}

Result<KeepFloatResult> FindLayersToKeep(const StaticModel& model, const Graph& original,
                                         const HeldOut& held, const KeepFloatOptions& options) {
  StaticModel m{model.graph.Clone(), model.ranges, model.scheme};
  std::vector<std::string> layers;
  std::vector<double> work;
  {
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(m.graph, original, m.scheme));
    for (const PlannedNode& p : plan.nodes) {
      if (!p.integer || p.op->role != QuantRole::kWeighted) continue;
      layers.push_back(p.first_result);
      work.push_back(WorkOf(*p.node));
    }
  }
  KeepFloatResult result;
  result.layers = layers.size();
  if (layers.size() < 2) return result;
  if (options.gain.size() == work.size()) work = options.gain;
  const SubsetError error = [&](const std::vector<bool>& in,
                                int64_t samples) -> Result<HeldOutError> {
    m.scheme.keep = model.scheme.keep;
    for (size_t i = 0; i < layers.size(); ++i)
      if (!in[i]) m.scheme.keep.emplace(layers[i], "not tried");
    return ErrorWith(m, original, held, samples);
  };
  SubsetOptions search;
  search.ranking_samples = options.ranking_samples;
  search.out_of_time = options.out_of_time;
  search.progress = options.progress;
  search.accept = [&](const HeldOutError& e) { return options.target.Holds(e); };
  INFER_ASSIGN(SubsetResult found, SearchSubset(work, error, search));
  if (std::none_of(found.in.begin(), found.in.end(), [](bool in) { return in; })) {
    // A model without an integer layer would not be what was asked for: the least harmful stays.
    const auto least = std::min_element(found.alone.begin(), found.alone.end());
    found.in[static_cast<size_t>(least - found.alone.begin())] = true;
    INFER_ASSIGN(found.error, error(found.in, 0));
    found.reached = options.target.Holds(found.error);
  }
  result.reached = found.reached;
  result.error = found.error;
  result.keep = model.scheme.keep;
  for (size_t i = 0; i < layers.size(); ++i)
    if (!found.in[i])
      result.keep.emplace(
          layers[i],
          Cat("alone it would leave ", Rounded(Decibels(found.alone[i]), 3), " dB at the outputs"));
  return result;
}

Result<StoreWeightsResult> FindWeightsToStore(const StaticModel& model, const Graph& original,
                                              const HeldOut& held, const HeldOutError& before,
                                              const StoreWeightsOptions& options) {
  StaticModel m{model.graph.Clone(), model.ranges, model.scheme};
  std::vector<std::string> layers;
  std::vector<double> bytes;
  {
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(m.graph, original, m.scheme));
    INFER_ASSIGN(layers, StorableLayers(m.graph, plan));
    for (const PlannedNode& p : plan.nodes) {
      if (std::find(layers.begin(), layers.end(), p.first_result) == layers.end()) continue;
      double n = 0;
      for (const Value* v : p.node->inputs())
        if (v && v->is_constant()) n += static_cast<double>(v->constant()->byte_size());
      bytes.push_back(std::max(n, 1.0));
    }
  }
  StoreWeightsResult result;
  result.layers = layers.size();
  result.error = before;
  if (layers.empty()) return result;
  const SubsetError error = [&](const std::vector<bool>& in,
                                int64_t samples) -> Result<HeldOutError> {
    m.scheme.store = model.scheme.store;
    for (size_t i = 0; i < layers.size(); ++i)
      if (in[i]) m.scheme.store.insert(layers[i]);
    return ErrorWith(m, original, held, samples);
  };
  SubsetOptions search;
  search.ranking_samples = options.ranking_samples;
  search.rounds = 0;
  search.out_of_time = options.out_of_time;
  search.progress = options.progress;
  search.accept = [&](const HeldOutError& e) {
    if (e.noise <= before.noise * options.growth && e.worst <= before.worst * options.growth)
      return true;
    return options.target.Holds(e);
  };
  // Mostly all of them may, which spares trying each.
  INFER_ASSIGN(const HeldOutError all, error(std::vector<bool>(layers.size(), true), 0));
  if (search.accept(all)) {
    result.store = m.scheme.store;
    result.error = all;
    return result;
  }
  INFER_ASSIGN(const SubsetResult found, SearchSubset(bytes, error, search));
  if (!found.reached) return result;
  result.store = model.scheme.store;
  for (size_t i = 0; i < layers.size(); ++i)
    if (found.in[i]) result.store.insert(layers[i]);
  result.error = found.error;
  return result;
}

}  // namespace infer
