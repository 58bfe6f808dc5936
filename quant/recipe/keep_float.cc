#include "quant/recipe/keep_float.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

struct Ranked {
  std::string name;
  double noise = 0;  ///< at the outputs, with this layer alone integer
};

Result<HeldOutError> ErrorWith(StaticModel& m, const Graph& original, const HeldOut& held,
                               std::map<std::string, std::string> keep, int64_t samples) {
  m.scheme.keep = std::move(keep);
  auto r = RewriteStatic(m, original, 0);
  if (!r.ok()) {
    if (r.status().code() == Code::kUnsupported) return HeldOutError{};  // all is f32
    return r.status();
  }
  return held.Measure(r->graph, samples);
}

}  // namespace

Result<KeepFloatResult> FindLayersToKeep(const StaticModel& model, const Graph& original,
                                         const HeldOut& held, const KeepFloatOptions& options) {
  StaticModel m{model.graph.Clone(), model.ranges, model.scheme};
  std::vector<Ranked> layers;
  {
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(m.graph, original, m.scheme));
    for (const PlannedNode& p : plan.nodes)
      if (p.integer && p.op->role == QuantRole::kWeighted)
        layers.push_back({p.node->output(0)->name()});
  }
  KeepFloatResult result;
  result.layers = layers.size();
  if (layers.size() < 2) return result;
  for (Ranked& layer : layers) {
    if (options.out_of_time && options.out_of_time()) break;
    std::map<std::string, std::string> keep = model.scheme.keep;
    for (const Ranked& other : layers)
      if (other.name != layer.name) keep.emplace(other.name, "ranked alone");
    INFER_ASSIGN(const HeldOutError e,
                 ErrorWith(m, original, held, std::move(keep), options.ranking_samples));
    layer.noise = e.worst;
  }
  std::stable_sort(layers.begin(), layers.end(),
                   [](const Ranked& a, const Ranked& b) { return a.noise > b.noise; });
  const auto first = [&](size_t count) {
    std::map<std::string, std::string> keep = model.scheme.keep;
    for (size_t i = 0; i < count; ++i)
      keep.emplace(layers[i].name,
                   Cat("alone it would leave ", Rounded(Decibels(layers[i].noise), 3),
                       " dB at the outputs"));
    return keep;
  };
  size_t low = 0,
         high = layers.size() - 1;  // `low` misses the target; the answer is at most `high`
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    INFER_ASSIGN(const HeldOutError e, ErrorWith(m, original, held, first(middle), 0));
    if (Decibels(e.worst) >= options.target_db) {
      high = middle;
      result.keep = first(middle);
      result.error = e;
      result.reached = true;
    } else {
      low = middle;
    }
  }
  if (result.reached) return result;
  result.keep = first(high);
  INFER_ASSIGN(result.error, ErrorWith(m, original, held, result.keep, 0));
  result.reached = Decibels(result.error.worst) >= options.target_db;
  return result;
}

}  // namespace infer
