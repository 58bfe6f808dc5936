#include "lib/ir/carried.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>

namespace infer {
namespace {

/// The operand that result `result` extends or replaces, by the schema's names: "past_key" of
/// "present_key". nullopt: the result is no such thing.
std::optional<size_t> PastOf(const OpDef& def, size_t result) {
  constexpr std::string_view kPresent = "present", kPast = "past";
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

}  // namespace infer
