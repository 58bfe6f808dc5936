#pragma once
/// How coarsely a model rounds what it computes.
#include "lib/ir/graph.h"

namespace infer {

/// Unit roundoff of the coarsest float that a node computes; 0 for f32 and finer.
double CoarsestRoundoff(const Graph& g);

}  // namespace infer
