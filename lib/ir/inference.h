#pragma once
/// Type and shape inference over graphs: of one node (with its body or subgraphs) and of a whole
/// graph after its inputs became more specific.
#include <map>

#include "lib/ir/graph.h"

namespace infer {

/// No tensor of a run has more axes; import has the same limit for files (ImportLimits).
inline constexpr int kMaxRank = 32;

/// One entry per output, or none at all; nullopt: not known before the run.
using KnownOutputs = std::vector<std::optional<Tensor>>;

/// Infers the outputs of `call`. `subgraphs` and `captures` are those of the node, for control
/// flow: the subgraphs are re-inferred in place with the operand types. Checks the schema first.
/// Where all operands are known and small, so are the results: the operator's own kernel makes them
/// (into `known`), and types and elements follow from them.
Status InferCall(OpCall& call,
                 const std::vector<std::pair<std::string, std::unique_ptr<Graph>>>& subgraphs,
                 std::span<const ValueType* const> captures, const OpRegistry& ops,
                 KnownOutputs* known = nullptr);

/// Re-infers every node in order and stores the results. InvalidModel names the first ill-typed
/// node.
Status InferTypes(Graph& g);
/// As InferTypes, but keeps what is stored where it says more than inference does. For graphs in
/// which single values became more specific.
Status RefineTypes(Graph& g);

/// Sets input shapes (by name) and re-infers. InvalidArgument for an unknown name or a shape that
/// contradicts the declared one.
Status SpecializeInputs(Graph& g, const std::map<std::string, Dims>& shapes);
/// Replaces a symbol by a number in all inputs and re-infers. InvalidArgument when no input has it.
Status BindSymbols(Graph& g, const std::map<std::string, int64_t>& symbols);

}  // namespace infer
