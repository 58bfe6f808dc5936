#include "tools/graph/facts.h"

#include <algorithm>

#include "lib/ir/body.h"
#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tools/common/parse_json.h"

namespace infer {
namespace {

constexpr uint64_t kMostReportBytes = uint64_t{64} << 20;

/// The value at a path of keys; null where there is none.
const Json& At(const Json& j, std::initializer_list<const char*> keys) {
  static const Json kNothing;
  const Json* at = &j;
  for (const char* key : keys) {
    if (!at->is_object() || !at->contains(key)) return kNothing;
    at = &at->at(key);
  }
  return *at;
}
std::string TextOf(const Json& j, const char* key) {
  const Json& text = At(j, {key});
  return text.is_string() ? text.get<std::string>() : "";
}

void AddStepOf(const Json& layer, Overlay& overlay) {
  Overlay::Step step;
  const Json& ms = At(layer, {"ms"});
  if (ms.is_number()) step.ms = ms.get<double>();
  step.kernel = TextOf(layer, "kernel");
  step.precision = TextOf(layer, "precision");
  std::vector<std::string> names = {TextOf(layer, "node")};
  for (const Json& name : At(layer, {"fused_from"}))
    if (name.is_string()) names.push_back(name.get<std::string>());
  std::sort(names.begin() + 1, names.end());
  names.erase(std::unique(names.begin() + 1, names.end()), names.end());
  step.nodes = static_cast<int>(std::max<size_t>(names.size() - 1, 1));
  overlay.has_times |= step.ms.has_value();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    overlay.by_node.try_emplace(names[i], step);
    step.ms.reset();  // told at the node that the step ends with
  }
}

std::optional<double> NumberOf(const Json& j) {
  if (j.is_number()) return j.get<double>();
  return j.is_string() ? ParseDouble(j.get<std::string>()) : std::nullopt;
}

}  // namespace

void Overlay::AddTimes(const NodeTimes& times) {
  for (const auto& [name, ms] : times) by_result[name].ms = ms;
  has_times |= !times.empty();
}

void Overlay::AddSteps(const Program& program) {
  for (const StepInfo& s : program.steps()) {
    Step step{std::nullopt, s.kernel, s.precision,
              static_cast<int>(std::max<size_t>(s.fused_from.size(), 1))};
    for (const std::string& name : s.fused_from)
      if (!name.empty()) by_node.try_emplace(name, step);
    if (s.outputs.empty()) continue;
    Step& last = by_result[s.outputs[0]];
    step.ms = last.ms;
    last = step;
  }
}

Status Overlay::AddReport(const std::string& path) {
  auto text = ReadFile(path, kMostReportBytes);
  if (!text.ok()) return text.status();
  auto report = ParseJson(*text);
  if (!report.ok()) return InvalidModel(Cat(path, ": ", report.status().message()));
  const Json& results = At(*report, {"results"});
  const Json& steps =
      results.is_array() && !results.empty() ? At(results[0], {"layers"}) : At(*report, {"layers"});
  const Json& layers = At(*report, {"accuracy", "layers"});
  if ((!steps.is_array() || steps.empty()) && (!layers.is_array() || layers.empty()))
    return InvalidModel(Cat(path,
                            ": no report with layers; take one of run --layers, infer-bench "
                            "run, or compare --layers"));
  if (steps.is_array())
    for (const Json& layer : steps) AddStepOf(layer, *this);
  if (layers.is_array())
    for (const Json& layer : layers)
      if (const auto sqnr = NumberOf(At(layer, {"sqnr_db"})))
        sqnr_by_value[TextOf(layer, "name")] = *sqnr;
  return {};
}

NodeFacts FactsOf(const Node& n, const Node* sized, const OpRegistry& ops, const Overlay& overlay) {
  NodeFacts f;
  const bool is_sized =
      sized && std::all_of(sized->outputs().begin(), sized->outputs().end(), [](const Value* v) {
        return !v || (v->type().is_tensor() && v->type().tensor().is_static());
      });
  if (is_sized) {
    const Cost cost = CostOfNode(*sized, ops);
    f.flops = cost.flops;
    f.bytes_moved = cost.bytes_read + cost.bytes_written;
  }
  for (const Value* v : n.inputs())
    if (v && v->constant()) f.parameters += v->constant()->num_elements();
  for (const Value* v : n.outputs()) {
    if (!v) continue;
    f.precision = Name(v->dtype());
    if (const auto it = overlay.sqnr_by_value.find(v->name()); it != overlay.sqnr_by_value.end())
      f.sqnr_db = it->second;
    const auto it = overlay.by_result.find(v->name());
    const auto named = overlay.by_node.find(n.name());
    const Overlay::Step* step = it != overlay.by_result.end()    ? &it->second
                                : named != overlay.by_node.end() ? &named->second
                                                                 : nullptr;
    if (!step) break;
    f.ms = step->ms;
    f.kernel = step->kernel;
    if (!step->precision.empty()) f.precision = step->precision;
    break;
  }
  return f;
}

NodeColour ColourOf(const Node& n) {
  if (n.IsAny(Trait::kQuantization | Trait::kConversion)) return NodeColour::kCodes;
  if (n.IsAny(Trait::kContraction | Trait::kAttention | Trait::kRecurrent | Trait::kBlock))
    return NodeColour::kProducts;
  if (n.IsAny(Trait::kNormalization | Trait::kSoftmax | Trait::kReduction | Trait::kPooling))
    return NodeColour::kStatistics;
  if (n.IsAny(Trait::kUnary | Trait::kElementwise)) return NodeColour::kElements;
  if (n.IsAny(Trait::kMove | Trait::kView | Trait::kStrided | Trait::kLookup | Trait::kGenerator |
              Trait::kShapeMath | Trait::kSampling))
    return NodeColour::kMoves;
  return NodeColour::kOther;
}

}  // namespace infer
