#pragma once
/// Whether requests of a model may be stacked along an axis and run as one: proved from the links
/// between axes of its operators (lib/ops/axes.h), not taken from the names of dimensions.
#include <string>
#include <vector>

#include "lib/ir/graph.h"

namespace infer::engine {

struct BatchAxes {
  bool proved = false;
  std::string reason = {};       ///< why not: names the first node that stands against it
  std::string symbol = {};       ///< the extent of the batch, as the model names it
  std::vector<int> inputs = {};  ///< axis of each input
  /// Axis of each output; -1: the output is the same for every request.
  std::vector<int> outputs = {};
};

/// The batch is a symbol among the extents of the first input, or the first extent of the only
/// input where the model leaves that open without a name. Every input has it on one axis, and
/// every value that depends on an input has it on one axis, alone or merged with what each request
/// holds, whose indices stay apart: what a request holds reaches its own rows of the outputs and no
/// others. Refused: inputs of fixed extents or
/// without that symbol, operators that reduce, mix or carry along the axis or of which nothing is
/// known, random operators, numbers made of the extent itself, values that are no tensors or whose
/// elements share bytes.
///
/// Linear in the nodes. The graph as it was imported: a compiled one has other operators.
BatchAxes ProveBatchAxes(const Graph& graph);

}  // namespace infer::engine
