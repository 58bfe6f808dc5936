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

/// The outputs by which a model is judged, in their order: all but caches of what other outputs are
/// computed from, since an error in them is seen in those. A cache is an output that FindCarried
/// pairs, a result "present..." of a node, or one of such a name, and moves elements only: of
/// inputs, and of values that an output which is no cache is computed from. All outputs, where
/// nothing else is left.
std::vector<size_t> JudgedOutputs(const Graph& graph);

}  // namespace infer
