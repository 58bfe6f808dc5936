#pragma once
/// Whether two engines computed the same: without that their times are no comparison.
#include <string>
#include <vector>

#include "lib/ir/graph.h"
#include "lib/tensor/tensor.h"

namespace infer::peers {

/// Floats agree when max|d| <= max_ratio * max|peer|, or max|d| <= kUnitsOfOne: what rounding
/// leaves of a sigmoid far below 1. All other elements are equal.
///
/// Where activations are f16 or bf16, or products are computed in bf16, every engine rounds what it
/// keeps, and max_ratio is ten times that type's unit roundoff, if that is more.
///
/// Where activations are quantized, engines round at different places: a value next to a boundary
/// falls one step apart, and what follows carries the step on. There floats agree when
/// sqrt(sum d^2 / sum peer^2) <= rms_ratio, and integers when no more than `step_share` of them
/// differ by more than one.
struct AgreementRule {
  bool quantized = false;
  double max_ratio = 1e-3;
  double rms_ratio = 0.05;
  double step_share = 0.01;
  std::string ToString() const;
};
inline constexpr double kUnitsOfOne = 0x1p-22;  // two of f32 at 1

/// `rule` for this graph: what its activations are decides.
AgreementRule RuleFor(const Graph& g, AgreementRule rule);

/// Whether some node quantizes what is computed at run time (not only weights).
bool QuantizesActivations(const Graph& g);

struct OutputDifference {
  std::string name;
  double max_ratio = 0;         ///< max|d| / max|peer|; integers too
  double rms_ratio = 0;         ///< sqrt(sum d^2 / sum peer^2)
  double differing_share = 0;   ///< floats: of NaN and infinity at other places; else: unequal
  double beyond_one_share = 0;  ///< integers: elements that differ by more than one
  bool agrees = false;
  std::string why;  ///< "" where they agree
};

/// `peer` is what is divided by. Types and extents must be the same.
OutputDifference CompareOutput(const std::string& name, const Tensor& peer, const Tensor& ours,
                               const AgreementRule& rule);

}  // namespace infer::peers
