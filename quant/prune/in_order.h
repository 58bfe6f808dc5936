#pragma once
/// Prunes layers from first to last, each fitted to what it makes of its inputs in the dense model
/// while it reads what the pruned layers before it make.
#include "quant/prune/costs.h"
#include "quant/search/record_store.h"

namespace infer {

struct InOrderOptions {
  SparsityPattern pattern;
  PruneMethod method = PruneMethod::kAuto;
  int64_t max_bytes = int64_t{256} << 20;  ///< of moments held at once
  int threads = 0;
  std::function<void(const std::string& step, int64_t done, int64_t total)> progress = nullptr;
  std::stop_token stop = {};
  /// Makes layer i of the job that PruneLayer would get; nullptr: PruneLayer does.
  std::function<Result<LayerResult>(size_t i, const LayerJob& job, MomentsPair&& moments)> make =
      nullptr;
  /// Keeps each layer's result under `record` and the name of its weights; what it has is taken.
  /// Not of weights with a grid. nullptr: nothing is kept.
  RecordStore* store = nullptr;
  std::string record;
  /// Called between rounds and after the last with the position of the first layer that is not
  /// pruned yet; all before it are. nullptr: nothing.
  std::function<Status(size_t next, Graph& pruned)> between = nullptr;
};

/// Writes weights, and a shift of the results into the layer's bias.
Status WriteLayer(const PrunableWeights& w, const LayerResult& done, Graph& pruned);

/// Told of each layer, by its position, once its weights are in the pruned graph.
using LayerDone = std::function<void(size_t i, const LayerResult& result)>;

/// Writes new weights (and biases, where layers can carry them) into `pruned`, a copy of `work`. A
/// layer with a mask keeps it; the others give up `zero_units`. Without samples by magnitude.
Status PruneLayersInOrder(const Graph& work, Graph& pruned, std::span<const SelectedLayer> layers,
                          const Samples& samples, const Backend& backend,
                          const InOrderOptions& options, const LayerDone& done);

}  // namespace infer
