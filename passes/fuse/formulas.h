#pragma once
/// Pieces that the formulas of activations and normalizations are put together from, in the
/// spellings that exporters write.
#include "lib/pattern/match.h"

namespace infer {

/// A tensor whose rank is known: a constant of a higher rank cannot hide in its formula.
Pattern Operand();
/// p * c or p / (1/c).
Pattern Scaled(const Pattern& p, double c);
/// c * x * a, however it is bracketed.
Pattern Product(const Pattern& x, const Pattern& a, double c);
/// x^2 or x * x.
Pattern Square(const Pattern& x);
/// 1 / sqrt(x): Reciprocal or Div of a Sqrt, or Pow with -0.5.
Pattern InverseSqrt(const Pattern& x);
/// n / sqrt(x), in all the ways that divide or multiply. `n` may be cast on the way.
Pattern OverSqrt(const Pattern& n, const Pattern& x);
/// ReduceMean(v, axes) that keeps its dimensions.
Pattern MeanOf(const Pattern& v, const Pattern& axes);
/// The same, or the GlobalAveragePool that tf2onnx writes for a mean over the last of three axes.
Pattern RowMeanOf(const Pattern& v, const Pattern& axes);
/// A Cast of `x` between float types to one that holds all its values, or `x` itself.
Pattern MaybeWider(const Pattern& x);
/// A Cast of `x` between float types to a shorter one, or `x` itself.
Pattern MaybeNarrower(const Pattern& x);

/// How a value is cast, for conditions on Cast nodes of floats.
bool Widens(const Value& cast);
bool Narrows(const Value& cast);

}  // namespace infer
