#pragma once
/// Pruning and quantization in one pass over the layers: what `quantize --sparsity` does. Layers
/// are pruned and rounded from first to last (in_order.h), each by one Hessian of what it reads,
/// zeros and codes in one sweep; it is fitted to what it makes in the dense model while it reads
/// what the pruned and rounded layers before it make. A zero is the zero point.
#include <memory>

#include "quant/prune/prune.h"

namespace infer {

/// The changes that the modes of quantization make before they round (their `change`).
class JointPruning {
 public:
  /// `options.grids` is the mode's. `backend` outlives the object.
  JointPruning(PruneOptions options, const Backend& backend)
      : options_(std::move(options)), backend_(backend) {}

  /// As PrunePrepared.
  Status Change(Graph& prepared, const Graph& original, const WeightGrids& grids,
                const Samples& samples);
  /// The same, of whatever samples it is called with. The object outlives it.
  FittedChange Fitted();
  /// The same with these samples, which are copied. The object outlives it.
  WeightChange By(const Samples& samples);
  /// Rounds as pruning did where the weights alone do not tell; `others` rounds what was not
  /// pruned. The object outlives it.
  BlockRounder Rounder(BlockRounder others) const;

  const PruneOptions& options() const { return options_; }
  /// Of the last change. Pre: there was one.
  const PruneReport& report() const { return *report_; }
  bool has_run() const { return report_.has_value(); }

 private:
  PruneOptions options_;
  const Backend& backend_;
  std::optional<PruneReport> report_;
};

}  // namespace infer
