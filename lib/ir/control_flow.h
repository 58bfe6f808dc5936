#pragma once
/// If, Loop, Scan and the other operators with subgraphs: inference and reference evaluation of
/// operators that own subgraphs. Their OpDefs (schema only) stand in lib/ops; everything that needs
/// a graph is here.
#include "lib/ir/eval.h"

namespace infer {

using Subgraphs = std::vector<std::pair<std::string, std::unique_ptr<Graph>>>;

/// Sets a subgraph's input types (own inputs, then captures) and re-infers it.
Status InferInside(Graph& g, std::span<const ValueType> own,
                   std::span<const ValueType* const> captures);
/// The inputs of a subgraph: its own, then the captures.
std::vector<Datum> WithCaptures(std::vector<Datum> own, std::span<const Datum* const> captures);

/// Extents of what a Loop's body gets as input 0 (the iteration's number) and 1 (the condition): a
/// scalar by the standard; one element where the body declares a vector, as ONNX Runtime does.
Dims LoopScalarDims(const Graph& body, size_t i);

/// Whether the operator takes subgraphs.
bool IsControlFlow(const OpDef& def);
/// Whether a value of type `a` may become one of type `b`, and back: kinds and element types are
/// equal as far as they are known. What fills an optional passes for the optional.
bool SameElements(const ValueType& a, const ValueType& b);
Status InferControlFlow(OpCall& call, const Subgraphs& subgraphs,
                        std::span<const ValueType* const> captures);
/// One run of a subgraph.
struct SubgraphCall {
  const Graph& graph;
  std::span<Datum> own;                    ///< its own inputs, lent: the same when the run is over
  std::span<const Datum* const> captures;  ///< nullptr: not there. The same in all runs of a node
  /// What tensors they hold before the run may be written over where nobody else holds them.
  std::vector<Datum>& results;
};
using SubgraphRunner = std::function<Status(const SubgraphCall& call)>;
/// The runner on reference kernels.
Status EvaluateSubgraph(const SubgraphCall& call);
/// `inputs` hold the operator's own operands, then the captures. Subgraphs run by `run`; where none
/// is given, on reference kernels.
Result<std::vector<Datum>> EvaluateControlFlow(const Node& node,
                                               std::span<const Datum* const> inputs,
                                               const SubgraphRunner& run = {});
/// InvalidModel where a rank is over the limit: every kernel that takes a tensor takes the ranks
/// below it.
Status CheckRanks(const std::vector<Datum>& outputs);

}  // namespace infer
