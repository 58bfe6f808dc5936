#pragma once
/// The graph's invariants, each a named function, so that a failure names the law it broke.
#include "lib/ir/graph.h"

namespace infer {

/// ssa        every operand is a graph input, a constant, or an output of an earlier node
/// uses       a value's use list is exactly the operand positions that hold it
/// names      value names are unique, not empty and indexed
/// schema     arity, attributes and element types fit the OpDef
/// types      each stored output type refines what inference gives
/// live       every node's outputs reach an output of the graph; no retired operator
/// quant      scales of Q/DQ constants are positive and finite, zero points fit
/// control    subgraphs have one input per capture, and verify themselves
struct Invariant {
  std::string_view name;
  Status (*check)(const Graph&);
};
std::span<const Invariant> Invariants();

struct VerifyOptions {
  bool types = true;  ///< re-infer everything (the only costly one)
  bool live = true;   ///< false while a pass is half done
};

/// The first broken law: InvalidModel "types: Gemm 'fc' -> 'y': stored f32[2,4], inferred
/// f32[2,8]".
Status Verify(const Graph& g, const VerifyOptions& options = {});

}  // namespace infer
