#include "lib/ir/carried.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>

namespace infer {
namespace {

constexpr std::string_view kPresent = "present", kPast = "past";

/// The operand that result `result` extends or replaces, by the schema's names: "past_key" of
/// "present_key". nullopt: the result is no such thing.
std::optional<size_t> PastOf(const OpDef& def, size_t result) {
  if (result >= def.outputs.size() || !def.outputs[result].name.starts_with(kPresent)) return {};
  const std::string_view rest = def.outputs[result].name.substr(kPresent.size());
  for (size_t i = 0; i < def.inputs.size(); ++i)
    if (const std::string_view name = def.inputs[i].name;
        name.starts_with(kPast) && name.substr(kPast.size()) == rest)
      return i;
  return {};
}

/// The tensors whose elements result `result` of `node` keeps; empty: it computes.
std::vector<const Value*> KeptBy(const Node& node, size_t result) {
  if (const auto past = PastOf(node.def(), result); past && node.input(*past))
    return {node.input(*past)};
  if (node.Is(Trait::kConcatenation)) return {node.inputs().begin(), node.inputs().end()};
  if (node.IsAny(Traits(Trait::kView) | Trait::kStrided | Trait::kPermutation |
                 Trait::kSliceLookup) &&
      node.input(0))
    return {node.input(0)};
  return {};
}

/// The inputs of the graph whose elements come to `output` without arithmetic. What is computed on
/// the way is what the run adds.
std::vector<const Value*> Origins(const Value* output) {
  std::vector<const Value*> found, open = {output};
  std::unordered_set<const Value*> seen = {output};
  while (!open.empty()) {
    const Value* v = open.back();
    open.pop_back();
    if (v->is_input()) found.push_back(v);
    if (!v->producer()) continue;
    for (const Value* from : KeptBy(*v->producer(), v->producer_index()))
      if (from && seen.insert(from).second) open.push_back(from);
  }
  return found;
}

/// Whether values of the one may be bound to the other in some run.
bool MayFollow(const Value& output, const Value& input) {
  if (!output.type().is_tensor() || !input.type().is_tensor()) return false;
  const Shape &to = input.shape(), &from = output.shape();
  return output.dtype() == input.dtype() && to.has_rank() && from.has_rank() &&
         to.rank() == from.rank() && to.rank() > 0;
}

/// Values that hold what `outputs` are made of.
struct Sources {
  std::unordered_set<const Value*> computed;  ///< with arithmetic on the way
  std::unordered_set<const Value*> moved;     ///< without
  bool Has(const Value* v) const { return computed.contains(v) || moved.contains(v); }
};

Sources SourcesOf(const std::vector<const Value*>& outputs) {
  Sources s;
  std::vector<std::pair<const Value*, bool>> open;
  const auto visit = [&](const Value* v, bool computed) {
    if (v && (computed ? s.computed : s.moved).insert(v).second) open.emplace_back(v, computed);
  };
  for (const Value* v : outputs) visit(v, false);
  while (!open.empty()) {
    const auto [v, computed] = open.back();
    open.pop_back();
    if (!v->producer()) continue;
    const std::vector<const Value*> kept = KeptBy(*v->producer(), v->producer_index());
    for (const Value* from : v->producer()->inputs())
      visit(from, computed || std::find(kept.begin(), kept.end(), from) == kept.end());
  }
  return s;
}

bool IsPresent(const Value& v) {
  return v.producer() && PastOf(v.producer()->def(), v.producer_index());
}

/// Whether `output` only moves elements of inputs, constants and values that `others` are computed
/// from. A node that hands its past on computes its first result from it.
bool IsSeenIn(const Value* output, const Sources& others) {
  std::vector<const Value*> open = {output};
  std::unordered_set<const Value*> seen = {output};
  while (!open.empty()) {
    const Value* v = open.back();
    open.pop_back();
    if (!v->producer() || others.computed.contains(v)) continue;
    if (IsPresent(*v)) {
      if (v->producer_index() == 0 || !others.Has(v->producer()->output(0))) return false;
      continue;
    }
    const std::vector<const Value*> kept = KeptBy(*v->producer(), v->producer_index());
    if (kept.empty()) return false;
    for (const Value* from : kept)
      if (from && seen.insert(from).second) open.push_back(from);
  }
  return true;
}

}  // namespace

std::vector<CarriedValue> FindCarried(const Graph& graph) {
  std::vector<CarriedValue> pairs;
  const auto& inputs = graph.inputs();
  for (size_t o = 0; o < graph.outputs().size(); ++o) {
    const Value* output = graph.outputs()[o];
    const auto origins = Origins(output);
    if (origins.size() != 1 || origins[0] == output || !MayFollow(*output, *origins[0])) continue;
    const auto i =
        static_cast<size_t>(std::find(inputs.begin(), inputs.end(), origins[0]) - inputs.begin());
    const bool taken = std::any_of(pairs.begin(), pairs.end(),
                                   [&](const CarriedValue& p) { return p.input == i; });
    if (!taken && i < inputs.size()) pairs.push_back({i, o});
  }
  return pairs;
}

std::vector<size_t> JudgedOutputs(const Graph& graph) {
  const auto& outputs = graph.outputs();
  std::vector<bool> is_cache;
  for (const Value* v : outputs)
    is_cache.push_back(IsPresent(*v) || v->name().starts_with(kPresent));
  for (const CarriedValue& c : FindCarried(graph)) is_cache[c.output] = true;
  std::vector<const Value*> others;
  for (size_t k = 0; k < outputs.size(); ++k)
    if (!is_cache[k]) others.push_back(outputs[k]);
  const Sources sources = SourcesOf(others);
  std::vector<size_t> judged;
  for (size_t k = 0; k < outputs.size(); ++k)
    if (!is_cache[k] || !IsSeenIn(outputs[k], sources)) judged.push_back(k);
  return judged;
}

}  // namespace infer
