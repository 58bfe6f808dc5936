#include "quant/train/parameters.h"

#include <algorithm>

namespace infer {
namespace {

/// Scale and shift follow the normalized operand.
constexpr size_t kScale = 1, kShift = 2;

bool IsLearnt(const Node& n, size_t operand) {
  if (const auto layout = WeightLayoutOf(n)) {
    if (operand == 1) return true;
    if (operand == 2 && (layout->has_bias || n.Is(Trait::kContraction))) return true;
  }
  if (n.Is(Trait::kNormalization)) return operand == kScale || operand == kShift;
  // The bias of a product that has none of its own.
  if (!n.Is(Trait::kElementwise) || !n.Is(Trait::kAdditive) || n.inputs().size() != 2) return false;
  const Value* other = n.input(1 - operand);
  return other && other->producer() && WeightLayoutOf(*other->producer());
}

}  // namespace

std::vector<std::string> TrainableConstants(const Graph& g) {
  std::vector<std::string> names;
  for (const auto& n : g.nodes())
    for (size_t i = 0; i < n->inputs().size(); ++i) {
      const Value* v = n->input(i);
      if (!v || !v->constant() || !IsF32(v) || v->is_output() || !IsLearnt(*n, i)) continue;
      if (std::find(names.begin(), names.end(), v->name()) == names.end())
        names.push_back(v->name());
    }
  return names;
}

}  // namespace infer
