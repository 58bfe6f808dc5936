#include "lib/pattern/rule.h"

#include "lib/support/strings.h"

namespace infer {

std::vector<Pattern> Rule::roots() const {
  std::vector<Pattern> all = {match};
  all.insert(all.end(), also.begin(), also.end());
  return all;
}

std::optional<Match> FindMatch(const Rule& rule, Value* root, Mismatch* why) {
  return FindMatch(rule, std::span<Value* const>(&root, 1), why);
}

std::optional<Match> FindMatch(const Rule& rule, std::span<Value* const> values, Mismatch* why) {
  auto match = FindMatch(rule.roots(), values, why);
  if (!match) return std::nullopt;
  for (const Rule::Guard& guard : rule.when) {
    if (guard.holds(*match)) continue;
    const int nodes = static_cast<int>(match->nodes().size());
    if (why)
      *why = {nodes, nodes, Cat("needs ", guard.text),
              std::vector<const Node*>(match->nodes().begin(), match->nodes().end())};
    return std::nullopt;
  }
  return match;
}

}  // namespace infer
