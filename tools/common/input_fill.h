#pragma once
/// --fill: from which numbers the values of an input without a file are drawn.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

/// Draws the tensors of `values` that `fills` name anew, a KIND without a name for all; the last
/// one that names an input holds. `values`: one per graph input. InvalidArgument: an unknown kind
/// or name, numbers that are none, or an input of strings.
Status FillInputs(const Graph& g, const std::vector<std::string>& fills, uint64_t seed,
                  std::vector<Datum>& values);

}  // namespace infer
