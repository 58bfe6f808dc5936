#include "quant/prune/in_order.h"

#include <algorithm>
#include <optional>

#include "lib/ir/editor.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "quant/prune/layer_record.h"

namespace infer {
namespace {

/// Layers are pruned in so many groups at most: the data run through the model once for each.
constexpr size_t kMaxPruneRounds = 24;

std::string KeyOf(const InOrderOptions& options, const SelectedLayer& l) {
  return Cat(options.record, l.weights.weights);
}

/// Of layers [begin, end) the results that the store has.
Result<std::vector<std::optional<LayerResult>>> Kept(const InOrderOptions& options,
                                                     std::span<const SelectedLayer> layers,
                                                     size_t begin, size_t end) {
  std::vector<std::optional<LayerResult>> kept(end - begin);
  if (!options.store) return kept;
  for (size_t i = begin; i < end; ++i) {
    if (layers[i].grid) continue;
    INFER_ASSIGN(const auto record, options.store->Find(KeyOf(options, layers[i])));
    if (record) kept[i - begin] = LayerResultOf(*record, layers[i].weights.size());
  }
  return kept;
}

}  // namespace

Status WriteLayer(const PrunableWeights& w, const LayerResult& done, Graph& pruned) {
  if (done.method == "dense") return {};
  Value* const v = pruned.FindValue(w.weights);
  GraphEditor(pruned).SetConstant(v, w.place.Write(done.matrix.weights, *v->constant()));
  if (done.matrix.shift.empty() || !w.bias) return {};
  std::vector<double> shift = done.matrix.shift;
  const Node& node = *pruned.FindValue(w.bias->output)->producer();
  for (double& s : shift) s *= static_cast<double>(WeightLayoutOf(node)->alpha);
  return AddToBias(pruned, *w.bias, shift).status();
}

Status PruneLayersInOrder(const Graph& work, Graph& pruned, std::span<const SelectedLayer> layers,
                          const Samples& samples, const Backend& backend,
                          const InOrderOptions& options, const LayerDone& done) {
  const size_t of_round = (layers.size() + kMaxPruneRounds - 1) / kMaxPruneRounds;
  for (size_t begin = 0; begin < layers.size();) {
    if (options.stop.stop_requested()) return Cancelled("pruning was stopped");
    const MomentsBatch batch = NextBatch(work, layers, begin, of_round, options.max_bytes);
    std::vector<MomentsPair> moments(batch.requests.size());
    INFER_ASSIGN(auto kept, Kept(options, layers, begin, batch.end));
    const bool all_kept = std::all_of(kept.begin(), kept.end(), [](const auto& k) { return !!k; });
    // Of a part that is kept the others are made of the same sums, before any of the batch is
    // written.
    if (samples.count > 0 && !all_kept) {
      MomentsOptions sum;
      sum.threads = options.threads;
      sum.stop = options.stop;
      INFER_ASSIGN(moments, SumMoments(work, begin == 0 ? nullptr : &pruned, batch.requests,
                                       samples, backend, sum));
    }
    for (size_t i = begin; i < batch.end; ++i) {
      const SelectedLayer& l = layers[i];
      LayerJob job{l.weights.place.plane, batch.dense[i - begin], options.pattern,
                   l.zero_units,          options.method,         l.weights.bias.has_value()};
      if (l.grid) job.grid = &*l.grid;
      if (!l.keep.empty()) {
        job.keep = &l.keep;
        job.units = ZerosIn(l.keep);
      }
      LayerResult result;
      const bool was_kept = kept[i - begin].has_value();
      if (was_kept) {
        result = *std::move(kept[i - begin]);
      } else {
        const LaneLease lease(options.threads);
        if (options.make) {
          INFER_ASSIGN(result, options.make(i, job, std::move(moments[i - begin])));
        } else {
          result = PruneLayer(job, std::move(moments[i - begin]));
        }
      }
      moments[i - begin] = {};
      if (options.store && !was_kept && !l.grid)
        INFER_TRY(options.store->Add(KeyOf(options, l), ToRecord(result)));
      INFER_TRY(WriteLayer(l.weights, result, pruned));
      done(i, result);
    }
    begin = batch.end;
    if (options.between) INFER_TRY(options.between(begin, pruned));
    if (options.progress)
      options.progress("prune", static_cast<int64_t>(begin), static_cast<int64_t>(layers.size()));
  }
  return {};
}

}  // namespace infer
