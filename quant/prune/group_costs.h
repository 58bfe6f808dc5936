#pragma once
/// What groups of channels cost and weigh, before any is cut.
#include "quant/prune/structured.h"
#include "quant/prune/widths.h"

namespace infer {

/// A group that can be narrowed: in which order its units go, and what that costs.
struct GroupPlan {
  std::vector<int64_t> order;  ///< units
  std::vector<double> errors;  ///< after each, as PrunedGroup::error
  std::vector<double> costs;   ///< after each, at the model's outputs; without data the errors
  WidthCurve curve;
};

/// Orders the units of `groups` and measures, with samples, the noise at the outputs when each
/// group alone is cut to three widths; between them costs follow the readers' errors. `levels`: by
/// group, ascending numbers of units that may go.
Result<std::vector<GroupPlan>> PlanGroups(const Graph& original, const Graph& work,
                                          std::span<const ChannelGroup* const> groups,
                                          std::span<const std::vector<int64_t>> levels,
                                          const std::vector<PrunableWeights>& layers,
                                          const Samples& samples, const Backend& backend,
                                          const ChannelOptions& options);

/// FLOPs of one run. Pre: static extents.
int64_t FlopsOf(const Graph& g);
/// Elements and bytes of floating-point constants.
struct ConstantSize {
  int64_t elements = 0, bytes = 0;
};
ConstantSize ConstantsOf(const Graph& g);
/// Whether all extents are numbers.
bool IsStatic(const Graph& g);

/// FLOPs (or, `bytes`, bytes of constants) as a function of the widths, learnt from cutting each
/// group alone. `cut[i]`: the dense graph with group i cut, `kept[i]`: the share of its units that
/// stays.
std::vector<WorkItem> WorkItemsOf(const Graph& dense, std::span<const Graph> cut,
                                  std::span<const double> kept, bool bytes);

}  // namespace infer
