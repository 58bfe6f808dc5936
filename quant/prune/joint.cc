#include "quant/prune/joint.h"

#include <utility>

namespace infer {

Status JointPruning::Change(Graph& prepared, const Graph& original, const WeightGrids& grids,
                            const Samples& samples) {
  PruneOptions with_grids = options_;
  with_grids.grids = &grids;
  INFER_ASSIGN(report_, PrunePrepared(prepared, original, samples, backend_, with_grids));
  return {};
}

FittedChange JointPruning::Fitted() {
  return [this](Graph& prepared, const Graph& original, const WeightGrids& grids,
                const Samples& fit) { return Change(prepared, original, grids, fit); };
}

WeightChange JointPruning::By(const Samples& samples) {
  return [this, samples](Graph& prepared, const Graph& original, const WeightGrids& grids) {
    return Change(prepared, original, grids, samples);
  };
}

BlockRounder JointPruning::Rounder(BlockRounder others) const {
  return [this, others = std::move(others)](const RoundRequest& r) -> Result<RoundedWeights> {
    const auto& codes = report_->codes;
    const auto it = codes.find(std::string(r.weights));
    if (it == codes.end() || !(it->second.grid == r.grid) || it->second.rows != r.w.rows ||
        it->second.depth != r.w.depth)
      return others(r);
    RoundedWeights rounded;
    rounded.q = it->second;
    rounded.method = "pruned";
    return rounded;
  };
}

}  // namespace infer
