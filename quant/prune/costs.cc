#include "quant/prune/costs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/ir/editor.h"
#include "lib/support/parallel.h"
#include "quant/algorithm/layer_rows.h"
#include "quant/prune/goal.h"
#include "quant/prune/layer_record.h"

namespace infer {
namespace {

/// Shares at which a layer's own error is told.
constexpr double kCurveShares[] = {0.2, 0.35, 0.5, 0.65, 0.75, 0.85, 0.92, 0.97};
constexpr int64_t kCostSamples = 32;    // that the model runs on for each layer
constexpr int64_t kCurveSamples = 512;  // that a layer's moments are summed of

/// Units of a layer at each point of its curve; `at` is where the share asked for stands.
std::vector<int64_t> CurveUnits(int64_t units, const SparsityPattern& p, size_t& at) {
  std::vector<int64_t> all;
  const int64_t asked = std::clamp<int64_t>(UnitsToZero(units, p), 1, units);
  if (p.kind != SparsityPattern::Kind::kNm)
    for (const double share : kCurveShares)
      all.push_back(std::llround(share * static_cast<double>(units)));
  all.push_back(asked);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::erase_if(all, [](int64_t n) { return n <= 0; });
  at = static_cast<size_t>(std::find(all.begin(), all.end(), asked) - all.begin());
  return all;
}

/// Where there are no moments: the share of the weights' squares that is dropped.
std::vector<double> MagnitudeCurve(const LayerJob& job, std::span<const int64_t> units) {
  double energy = 0;
  for (const float w : job.dense) energy += static_cast<double>(w) * static_cast<double>(w);
  std::vector<double> errors;
  for (const int64_t n : units) {
    const KeepMask keep = KeepBest(job.plane, job.pattern, MagnitudeScores(job.dense), n);
    double lost = 0;
    for (size_t i = 0; i < keep.size(); ++i)
      if (!keep[i]) lost += static_cast<double>(job.dense[i]) * static_cast<double>(job.dense[i]);
    errors.push_back(energy > 0 ? lost / energy : 0);
  }
  return errors;
}

/// Those of which no layer's weights are fitted to: a layer that only knows them by heart would
/// look cheap. Of few samples all, since rows are held out of each.
Samples ThatJudge(const Samples& some) {
  if (some.count < kHoldOutSamplesFrom) return some;
  return EvenlySpaced(JudgePart(some), kCostSamples);
}

class CostMeter {
 public:
  CostMeter(const Graph& work, const HeldOut& held_out, const PruneOptions& options)
      : work_(work), held_out_(held_out), options_(options) {}

  Result<KeptCost> Measure(const SelectedLayer& layer, std::span<const float> dense,
                           const MomentsPair& moments) const {
    const PrunableWeights& w = layer.weights;
    LayerJob job{w.place.plane, dense, options_.pattern, 0, PruneMethod::kSparseGpt};
    job.takes_shift = w.bias.has_value();
    job.use_held_out = false;
    size_t at = 0;
    const std::vector<int64_t> units = CurveUnits(layer.units, options_.pattern, at);
    Graph pruned = work_.Clone();
    std::vector<double> errors;
    {
      const LaneLease lease(options_.threads);
      const auto curve = ErrorCurve(job, moments, units);
      errors = curve ? *curve : MagnitudeCurve(job, units);
      job.units = units[at];
      const LayerResult done = PruneLayer(job, moments);
      Value* const v = pruned.FindValue(w.weights);
      GraphEditor(pruned).SetConstant(v, w.place.Write(done.matrix.weights, *v->constant()));
    }
    INFER_ASSIGN(const HeldOutError error, held_out_.Measure(pruned));
    KeptCost c{error.noise, {}};
    for (size_t k = 0; k < units.size(); ++k)
      c.points.emplace_back(units[k],
                            error.noise * (errors[at] > 0 ? errors[k] / errors[at] : 1.0));
    return c;
  }

 private:
  const Graph& work_;
  const HeldOut& held_out_;
  const PruneOptions& options_;
};

/// Of layers [begin, end) the costs that the store has.
Result<std::vector<std::optional<KeptCost>>> KeptCosts(RecordStore* store,
                                                       std::span<const SelectedLayer> layers,
                                                       size_t begin, size_t end) {
  std::vector<std::optional<KeptCost>> kept(end - begin);
  for (size_t i = begin; store && i < end; ++i) {
    INFER_ASSIGN(const auto record, store->Find("cost " + layers[i].weights.weights));
    if (record) kept[i - begin] = KeptCostOf(*record);
  }
  return kept;
}

}  // namespace

MomentsBatch NextBatch(const Graph& work, std::span<const SelectedLayer> layers, size_t begin,
                       size_t most, int64_t max_bytes) {
  MomentsBatch batch;
  int64_t bytes = 0;
  for (batch.end = begin; batch.end < layers.size() && batch.end - begin < most; ++batch.end) {
    const PrunableWeights& w = layers[batch.end].weights;
    const MomentsRequest r{&w, {}, IsTooDeep(layers[batch.end])};
    bytes += MomentsBytes(r);
    if (batch.end > begin && bytes > max_bytes) break;
    batch.dense.push_back(w.place.Read(*work.FindValue(w.weights)->constant()));
    batch.requests.push_back(r);
  }
  for (size_t i = 0; i < batch.requests.size(); ++i) batch.requests[i].dense = batch.dense[i];
  return batch;
}

bool IsTooDeep(const SelectedLayer& layer) {
  return layer.weights.place.plane.depth() > kMaxPruneDepth;
}

CostSamples CostSamplesOf(const Samples& samples) {
  Samples some = EvenlySpaced(samples, kCurveSamples);
  Samples judge = EvenlySpaced(ThatJudge(some), kCostSamples);
  return {std::move(some), std::move(judge)};
}

Result<MeasuredCosts> MeasureCosts(const Graph& original, const Graph& work,
                                   std::span<const SelectedLayer> layers, const Samples& samples,
                                   const Backend& backend, const PruneOptions& options) {
  HeldOut::Options judge;
  judge.threads = options.threads;
  judge.max_samples = kCostSamples;
  judge.stop = options.stop;
  const auto [some, judged] = CostSamplesOf(samples);
  INFER_ASSIGN(const HeldOut held_out, HeldOut::Make(original, judged, backend, judge));
  const CostMeter meter(work, held_out, options);
  MomentsOptions sum;
  sum.threads = options.threads;
  sum.stop = options.stop;
  MeasuredCosts costs;
  for (size_t begin = 0; begin < layers.size();) {
    const MomentsBatch batch = NextBatch(work, layers, begin, layers.size(), options.max_bytes);
    INFER_ASSIGN(auto kept, KeptCosts(options.store, layers, begin, batch.end));
    std::vector<MomentsPair> moments;
    if (!std::all_of(kept.begin(), kept.end(), [](const auto& k) { return !!k; })) {
      INFER_ASSIGN(moments, SumMoments(work, nullptr, batch.requests, some, backend, sum));
    }
    for (size_t i = begin; i < batch.end; ++i) {
      std::optional<KeptCost>& cost = kept[i - begin];
      if (!cost) {
        INFER_ASSIGN(cost, meter.Measure(layers[i], batch.dense[i - begin], moments[i - begin]));
        if (options.store)
          INFER_TRY(options.store->Add("cost " + layers[i].weights.weights, ToRecord(*cost)));
      }
      costs.at_share.push_back(cost->at_share);
      costs.curves.push_back({layers[i].units, std::move(cost->points)});
      if (options.progress)
        options.progress("measure layers", static_cast<int64_t>(i) + 1,
                         static_cast<int64_t>(layers.size()));
    }
    begin = batch.end;
  }
  return costs;
}

std::vector<int64_t> AllocateByWeights(const Graph& work, std::span<const SelectedLayer> layers,
                                       const SparsityPattern& pattern, PruneAllocation by,
                                       int64_t total) {
  std::vector<std::pair<float, uint32_t>> all;
  for (size_t i = 0; i < layers.size(); ++i) {
    const PrunableWeights& w = layers[i].weights;
    std::vector<float> scores = w.place.Read(*work.FindValue(w.weights)->constant());
    for (float& s : scores) s *= s;
    std::vector<float> units = UnitScores(w.place.plane, pattern, scores);
    if (by == PruneAllocation::kLamp) {
      std::sort(units.begin(), units.end());
      double rest = std::accumulate(units.begin(), units.end(), 0.0);
      for (float& u : units) {
        const double energy = static_cast<double>(u);
        u = rest > 0 ? static_cast<float>(energy / rest) : 0;
        rest -= energy;
      }
    }
    for (const float u : units) all.emplace_back(u, static_cast<uint32_t>(i));
  }
  std::vector<int64_t> zeros(layers.size(), 0);
  const auto last = all.begin() + static_cast<std::ptrdiff_t>(total);
  if (last != all.end()) std::nth_element(all.begin(), last, all.end());
  for (auto u = all.begin(); u != last; ++u) ++zeros[u->second];
  return zeros;
}

}  // namespace infer
