#pragma once
/// Which outputs of a model go on where its inputs were: caches of keys and values, which each step
/// extends.
#include <cstddef>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

/// Output `output` of one run becomes input `input` of the next; positions in the graph.
struct CarriedValue {
  size_t input = 0, output = 0;
  bool operator==(const CarriedValue&) const = default;
};

/// The caches of `graph`: an output that keeps the elements of one input of its element type and
/// rank, moved and extended, but not computed with. They come by Concat, by operators that hand a
/// past on, and by what only moves elements. Each input and each output stands in one pair
/// at most; in the order of the outputs.
std::vector<CarriedValue> FindCarried(const Graph& graph);

}  // namespace infer
