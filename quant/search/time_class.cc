#include "quant/search/time_class.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int kFollowed = 2;  // steps: Conv -> Add -> Relu

/// The operators that read `v`, and so on.
std::string ReadersOf(const Value& v, int steps) {
  std::vector<std::string> ops;
  for (const Use& use : v.uses()) {
    std::string op = Cat(use.user->op(), "/", use.operand);
    if (steps > 1)
      for (const Value* out : use.user->outputs())
        if (out) op += Cat("(", ReadersOf(*out, steps - 1), ")");
    ops.push_back(std::move(op));
  }
  std::sort(ops.begin(), ops.end());
  return Cat(Join(ops, " "), v.is_output() ? " output" : "");
}

std::string ClassOf(const SearchLayer& layer, const Value& v) {
  const Node& n = *v.producer();
  std::string text = Cat(n.op(), " ", HashOf(n.attrs()), " ", ToString(v.type()));
  for (const Value* in : n.inputs()) {
    text += in ? Cat("; ", ToString(in->type()), in->is_constant() ? " constant" : "") : "; -";
    if (in && in->producer()) text += Cat(" of ", in->producer()->op());
  }
  for (const auto& [p, why] : layer.refused) text += Cat("; no ", Name(p));
  return Cat(text, " -> ", ReadersOf(v, kFollowed));
}

}  // namespace

std::vector<size_t> TimeClasses(const MixedModel& model) {
  std::map<std::string, size_t> first;
  std::vector<size_t> classes;
  for (const SearchLayer& layer : model.layers())
    classes.push_back(
        first.emplace(ClassOf(layer, *model.prepared().FindValue(layer.key)), classes.size())
            .first->second);
  return classes;
}

}  // namespace infer
