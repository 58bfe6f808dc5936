#pragma once
/// Fused operators: an OpDef whose meaning is a body in text form. Parses and caches the body per
/// (definition, attributes), infers and evaluates it.
#include <span>

#include "lib/ir/graph.h"

namespace infer {

/// The body with @attributes put in; inputs untyped. Internal when the text is broken. Thread-safe.
Result<std::shared_ptr<const Graph>> BodyOf(const OpDef& def, const AttrMap& attrs,
                                            const OpRegistry& ops);
/// Output types of a call through its body.
Status InferBody(OpCall& call, const OpRegistry& ops);
/// FLOPs and traffic of a node whose types are static. A fused operator that says nothing of its
/// own computes what its body does, and moves its operands and results.
Cost CostOfNode(const Node& node, const OpRegistry& ops);
/// The graph of `def.decompose` for one call: typed, its inputs the operands that are there, in
/// order. Unsupported where the operator has no such form for the call. Pre: def.decompose.
Result<Graph> DecompositionOf(const OpCall& call, const OpRegistry& ops);
/// The operator's meaning for a node as a graph: its body or its decomposition. `operands` become
/// those of the graph's inputs, nullptr where the node leaves one out. Unsupported where the
/// operator has neither, or none for this node.
Result<Graph> PartsOf(const Node& node, const OpRegistry& ops, std::vector<Value*>& operands);
/// The graph of the operator's gradient rule (ops/gradients.h) for one call, inputs and outputs as
/// there, untyped. Unsupported where the operator or the call has none. Pre: as there.
Result<Graph> GradientOf(const OpCall& call, std::span<const size_t> wanted, const OpRegistry& ops);
/// Evaluates the body on operands; omitted optional inputs must not be read by the body.
Result<std::vector<Datum>> EvaluateBody(const OpDef& def, const AttrMap& attrs,
                                        const OpRegistry& ops,
                                        std::span<const Datum* const> inputs);

}  // namespace infer
