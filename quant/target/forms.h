#pragma once
/// Forms that a runtime computes as they are meant, in place of equal ones that it does not.
#include <vector>

#include "lib/ir/graph.h"
#include "quant/target/target.h"

namespace infer {

/// Convolutions of g whose bias OpenVINO 2026.4 loses: rounded ones, behind which codes are joined
/// by Concat with what is computed from constants and extents alone (the class token of a vision
/// transformer, expanded to the batch). A bias that is added by a node of its own is kept.
std::vector<Node*> ConvolutionsThatLoseTheirBias(const Graph& g);

/// Whether ToFormsOf changes g.
bool HasOtherForms(const Graph& g, const Target& t);
/// The main graph in the forms that `t` computes as they are meant.
Status ToFormsOf(Graph& g, const Target& t);

}  // namespace infer
