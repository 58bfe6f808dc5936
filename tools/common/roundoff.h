#pragma once
/// How coarsely a model rounds what it computes.
#include "lib/ir/graph.h"

namespace infer {

/// Of models in f32 (docs/measuring.md).
inline constexpr double kRewriteTolerance = 1e-3;

/// Unit roundoff of the coarsest float that a node computes; 0 for f32 and finer.
double CoarsestRoundoff(const Graph& g);
/// Largest max|d| / max|ref| of a float output that rewriting `golden` may cause:
/// kRewriteTolerance, and where it computes in 16 bits ten units of their rounding, since other
/// operators round at other places.
double RewriteTolerance(const Graph& golden);

}  // namespace infer
