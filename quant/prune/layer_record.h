#pragma once
/// Costs and results of layers, and orders of groups, as bytes of a RecordStore.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/prune/choose.h"

namespace infer {

/// Of a result what the model and its report take: no mask and no codes.
std::string ToRecord(const LayerResult& r);
/// nullopt: no such record, or of another number of weights.
std::optional<LayerResult> LayerResultOf(std::string_view record, int64_t weights);

/// Noise at the outputs when a layer alone is pruned, and the points of its curve.
struct KeptCost {
  double at_share = 0;
  std::vector<std::pair<int64_t, double>> points;  ///< as CostCurve
};
std::string ToRecord(const KeptCost& c);
std::optional<KeptCost> KeptCostOf(std::string_view record);

/// In which order the units of a group of channels go.
struct GroupOrder {
  std::vector<int64_t> order;
  std::vector<double> errors, costs;  ///< after each
};
std::string ToRecord(const GroupOrder& g);
std::optional<GroupOrder> GroupOrderOf(std::string_view record);

}  // namespace infer
