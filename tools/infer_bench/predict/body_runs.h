#pragma once
/// How often a run of If, Loop, Scan or SequenceMap runs each of its subgraphs, as far as it is
/// known without a run.
#include <vector>

#include "lib/ir/graph.h"

namespace infer::bench {

struct BodyRun {
  const Graph* body = nullptr;
  double runs = 1;  ///< expected: 0.5 each for the branches of an If whose condition hangs on data
};

struct BodyRuns {
  std::vector<BodyRun> bodies;  ///< without those that never run
  bool at_least = false;        ///< how often hangs on data: counted once
};

BodyRuns BodyRunsOf(const Node& node);

/// A copy of a subgraph of `node` in which captured constants are constants.
Result<Graph> BodyOf(const Node& node, const Graph& subgraph);

}  // namespace infer::bench
