#pragma once
/// Extents for the dimensions that a model leaves open, so that it can be run on random inputs.
#include <map>
#include <string>

#include "lib/ir/graph.h"

namespace infer {

/// By name of an open dimension: its symbol ("batch"), or "x[1]" for a nameless one of input x.
using OpenExtents = std::map<std::string, int64_t>;

/// Pre: axis `axis` of the input is not static.
std::string OpenDimName(const Value& input, int axis);

/// Searches extents with which the graph evaluates on random inputs (reference kernels) and no
/// output is empty: small ones first, the leading dimension 1 (a batch), the others above 1, since
/// one row hides what a softmax or a broadcast does wrong. Evaluates also where no dimension is
/// open. InvalidArgument: nothing that was tried fits, with the last reason.
Result<OpenExtents> FindExtents(const Graph& g, uint64_t seed);

/// "batch = 1, length = 4", or "".
std::string ToString(const OpenExtents& extents);

}  // namespace infer
