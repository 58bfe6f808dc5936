#pragma once
/// How coarsely a model rounds what it computes.
#include "lib/ir/graph.h"
#include "runtime/api/compute.h"

namespace infer {

/// Of models in f32 (docs/measuring.md).
inline constexpr double kRewriteTolerance = 1e-3;

/// Of products in another format than f32: ten units of its rounding.
constexpr double ToleranceOf(Compute compute) {
  return compute == Compute::kBF16  ? 10 * 0x1p-8
         : compute == Compute::kF16 ? 10 * 0x1p-11
                                    : kRewriteTolerance;
}

/// By how much of the largest number of a tensor a number may be off before its quantizer, where a
/// rewrite gives it another code (docs/adr/0034-judged-from-code-to-code.md).
inline constexpr double kCodeTolerance = 1e-5;

/// Unit roundoff of the coarsest float that a node computes; 0 for f32 and finer.
double CoarsestRoundoff(const Graph& g);
/// Largest max|d| / max|ref| of a float output that rewriting `golden` may cause:
/// kRewriteTolerance, and where it computes in 16 bits ten units of their rounding, since other
/// operators round at other places.
double RewriteTolerance(const Graph& golden);

}  // namespace infer
