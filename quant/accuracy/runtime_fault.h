#pragma once
/// Which nodes a backend gets wrong by what it makes of them at a higher level: the graph is right
/// node by node, and the program is not.
///
/// The model runs as a chain of programs: some nodes are compiled together at the level in
/// question, all others as written (level 0). Nodes of one kind share a program as far as the order
/// of the graph allows, so that they fuse as they do in the whole model. Over sets of nodes goes
/// the delta debugging of minimal_set.h.
#include "quant/accuracy/breaking.h"

namespace infer {

struct RuntimeFault {
  /// The whole model at `level` breaks the limits, beside itself as written.
  bool breaks = false;
  MinimalSet set;  ///< layers of the map
  /// What the backend makes of them: "Conv+Relu: onednn:jit_avx512_core".
  std::vector<std::string> steps;
};

/// Pre: `map` is of one graph with itself. Unsupported: an output that is no tensor.
Result<RuntimeFault> FindRuntimeFault(const LayerMap& map, const Graph& graph,
                                      const Backend& backend, const Samples& samples, int level,
                                      const BreakOptions& options);

}  // namespace infer
