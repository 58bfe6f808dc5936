#include "quant/scheme/stored.h"

#include <unordered_set>

#include "quant/weight_only/weight_only.h"

namespace infer {
namespace {

const Value* FirstResult(const Node& n) {
  for (const Value* v : n.outputs())
    if (v) return v;
  return nullptr;
}

WeightScheme SchemeFor(const std::vector<const Node*>& nodes) {
  WeightScheme s;
  s.grid = {8, 0, true, true};
  s.format = WeightFormat::kQdq;
  s.layer_error = 1;  // the error of the model's outputs decides
  for (const Node* n : nodes)
    s.include.push_back({NodePattern::Kind::kValue, FirstResult(*n)->name()});
  return s;
}

bool HasWeights(const Node& n) {
  return WeightLayoutOf(n) || IsRecurrentLayer(n) || LargeTableOf(n);
}

}  // namespace

Result<std::vector<std::string>> StorableLayers(const Graph& g, const QuantPlan& plan) {
  // A layer in INT8 that shares its weights with one in f32 gets codes of its own: it is no reader
  // that wants them in f32.
  std::vector<const Node*> nodes;
  std::unordered_set<const Node*> in_f32;
  for (const PlannedNode& p : plan.nodes) {
    if (p.unwanted || !HasWeights(*p.node) || !FirstResult(*p.node)) continue;
    nodes.push_back(p.node);
    if (!p.integer) in_f32.insert(p.node);
  }
  if (in_f32.empty()) return std::vector<std::string>();
  INFER_ASSIGN(const WeightPlan weights, PlanWeights(g, g, SchemeFor(nodes)));
  std::vector<std::string> names;
  for (const WeightReader& r : weights.readers) {
    if (!in_f32.contains(r.node)) continue;
    const std::string& name = FirstResult(*r.node)->name();
    if (r.reason.empty() && (names.empty() || names.back() != name)) names.push_back(name);
  }
  return names;
}

Result<std::set<std::string>> StoreLayers(Graph& g, const QuantPlan& plan,
                                          const std::set<std::string>& names,
                                          QuantizeReport& report) {
  using Names = std::set<std::string>;
  // A value that was rounded has given its name away: nodes are known by place.
  std::vector<const Node*> nodes;
  for (const PlannedNode& p : plan.nodes)
    if (!p.integer && HasWeights(*p.node) && FirstResult(*p.node) && names.count(p.first_result))
      nodes.push_back(p.node);
  if (nodes.empty()) return Names();
  Names results;
  for (const Node* n : nodes) results.insert(FirstResult(*n)->name());
  WeightOnlyOptions options;
  options.scheme = SchemeFor(nodes);
  options.prepare = false;
  std::vector<size_t> rows;
  {
    const auto row = plan.ReportRows();
    INFER_ASSIGN(const WeightPlan weights, PlanWeights(g, g, options.scheme));
    for (const WeightReader& r : weights.readers) rows.push_back(row.at(r.node));
  }
  auto stored = QuantizeWeightOnly(g, options);
  if (!stored.ok()) {
    if (stored.status().code() != Code::kUnsupported) return stored.status();
    return Names();
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const QuantizedLayer& from = stored->layers[i];
    if (from.precision == "f32") continue;
    QuantizedLayer& to = report.layers[rows[i]];
    to.precision = from.precision;
    to.method = from.method;
    to.note = from.note;
    to.weight_error = std::max(to.weight_error, from.weight_error);
    to.nearest_error = to.weight_error;
    to.weight_bytes_before += from.weight_bytes_before;
    to.weight_bytes_after += from.weight_bytes_after;
  }
  CountLayers(report);
  return results;
}

}  // namespace infer
