#pragma once
/// Values that follow from one along its readers, without recursion: chains are as long as models.
#include <unordered_set>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

/// `v` and all that follows from it, each once, nearest first. `next(use, add)` is asked for every
/// reader of each, and calls add(value) for those that the way goes on to.
template <typename Next>
std::vector<const Value*> ReachedFrom(const Value& v, Next next) {
  std::vector<const Value*> reached = {&v};
  std::unordered_set<const Value*> seen = {&v};
  for (size_t i = 0; i < reached.size(); ++i)
    for (const Use& use : reached[i]->uses())
      next(use, [&](const Value& value) {
        if (seen.insert(&value).second) reached.push_back(&value);
      });
  return reached;
}

}  // namespace infer
