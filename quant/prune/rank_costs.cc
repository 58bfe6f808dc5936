#include "quant/prune/rank_costs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "lib/ir/editor.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "quant/prune/costs.h"
#include "quant/recipe/held_out.h"

namespace infer {
namespace {

/// Where among a layer's levels the model is run.
constexpr double kRunLevels[] = {0.15, 0.45, 0.85};
constexpr double kFactorOpsPerSecond = 2e9;
constexpr double kBesideRun = 1.5;  // summing moments, beside a run

std::vector<size_t> LevelsToRun(size_t count) {
  std::vector<size_t> at;
  for (const double share : kRunLevels)
    at.push_back(static_cast<size_t>(std::llround(share * static_cast<double>(count - 1))));
  at.erase(std::unique(at.begin(), at.end()), at.end());
  return at;
}

/// Noise per error between the levels that were run, straight; beyond them as at the nearest.
/// Levels of a higher rank never cost more.
std::vector<double> CostsBetween(const std::vector<double>& errors, const std::vector<size_t>& at,
                                 const std::vector<double>& noises) {
  std::vector<double> ratios;
  for (size_t i = 0; i < at.size(); ++i)
    ratios.push_back(errors[at[i]] > 0 ? noises[i] / errors[at[i]] : 0);
  std::vector<double> costs(errors.size());
  double greatest = 0;
  for (size_t k = errors.size(); k-- > 0;) {
    size_t next = 0;
    while (next + 1 < at.size() && at[next] < k) ++next;
    double ratio = ratios[next];
    if (next > 0 && at[next] > k) {
      const double part =
          static_cast<double>(k - at[next - 1]) / static_cast<double>(at[next] - at[next - 1]);
      ratio = ratios[next - 1] + part * (ratio - ratios[next - 1]);
    }
    greatest = std::max(greatest, errors[k] * ratio);
    costs[k] = greatest;
  }
  return costs;
}

std::string KeyOf(const RankedLayer& layer, const SplitProduct& p) {
  std::string key = Cat("low rank ", p.weights);
  for (const RankLevel& l : layer.levels) key += Cat(" ", l.rank);
  return key;
}

std::optional<LevelCosts> FromStore(const Numbers& numbers, size_t levels) {
  LevelCosts c;
  for (size_t k = 0; k < levels; ++k) {
    const auto error = numbers.find(Cat("error ", k)), cost = numbers.find(Cat("cost ", k));
    if (error == numbers.end() || cost == numbers.end()) return std::nullopt;
    c.errors.push_back(error->second);
    c.costs.push_back(cost->second);
  }
  return c;
}

class LevelMeter {
 public:
  LevelMeter(const RankSpace& space, const HeldOut& held_out, const LowRankOptions& options)
      : space_(space), held_out_(held_out), options_(options) {}

  Result<LevelCosts> Measure(const RankedLayer& layer, std::span<const float> dense,
                             const MomentsPair& moments) const {
    const PrunableWeights& w = space_.weights[layer.report];
    const WeightPlane& plane = w.place.plane;
    const std::vector<LayerMoments>& judge =
        moments.held_out.front().rows > 0 ? moments.held_out : moments.fit;
    const double energy = OutputEnergy(judge);
    std::vector<PrunedMatrix> products;
    LevelCosts c;
    {
      const LaneLease lease(options_.threads);
      INFER_ASSIGN(const LayerFactors factors,
                   LayerFactors::Make(plane, dense, moments.fit.front(),
                                      {.outputs = false, .with_shift = w.bias.has_value()}));
      for (const RankLevel& level : layer.levels) {
        products.push_back(ProductOf(plane, factors.At(level.rank)));
        const double error = PrunedError(plane, products.back(), judge);
        c.errors.push_back(energy > 0 ? error / energy : 0);
      }
    }
    const std::vector<size_t> at = LevelsToRun(layer.levels.size());
    std::vector<double> noises;
    for (const size_t k : at) {
      Graph split = space_.work.Clone();
      LayerResult alone;
      alone.matrix = std::move(products[k]);
      INFER_TRY(WriteLayer(w, alone, split));
      INFER_ASSIGN(const HeldOutError e, held_out_.Measure(split));
      noises.push_back(e.noise);
    }
    c.costs = CostsBetween(c.errors, at, noises);
    return c;
  }

 private:
  const RankSpace& space_;
  const HeldOut& held_out_;
  const LowRankOptions& options_;
};

Status Keep(MeasurementStore* store, const std::string& key, const LevelCosts& c, double work) {
  if (!store) return {};
  Numbers numbers = {{"work", work}};
  for (size_t k = 0; k < c.errors.size(); ++k) {
    numbers[Cat("error ", k)] = c.errors[k];
    numbers[Cat("cost ", k)] = c.costs[k];
  }
  return store->Add(key, std::move(numbers));
}

/// The most that splitting the layer saves.
double MostSaved(const RankedLayer& layer, RankLimit of) {
  double most = 0;
  for (const RankLevel& l : layer.levels)
    most = std::max(most, of == RankLimit::kBytes ? static_cast<double>(layer.bytes - l.bytes)
                                                  : layer.us - l.us);
  return most;
}

/// Of the decomposition of a layer, whose singular values take most.
double FactorSeconds(const WeightPlane& plane) {
  const auto d = static_cast<double>(plane.depth()), r = static_cast<double>(plane.all_rows());
  return (d * d * d + 20 * d * r * std::min(d, r)) / kFactorOpsPerSecond;
}

}  // namespace

Result<std::vector<LevelCosts>> MeasureLevels(const Graph& original, const RankSpace& space,
                                              const Samples& samples, const Backend& backend,
                                              const LowRankOptions& options, RankLimit of,
                                              LowRankReport& report) {
  WorkClock clock(options.max_seconds);
  std::vector<LevelCosts> all(space.ranked.size());
  std::vector<SelectedLayer> left;
  std::vector<size_t> index, order(space.ranked.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return MostSaved(space.ranked[a], of) > MostSaved(space.ranked[b], of);
  });
  for (const size_t i : order) {
    const RankedLayer& layer = space.ranked[i];
    const Numbers* const known =
        options.store ? options.store->Find(KeyOf(layer, space.layers[layer.report])) : nullptr;
    auto found = known ? FromStore(*known, layer.levels.size()) : std::nullopt;
    if (found) {
      if (const auto work = known->find("work"); work != known->end()) clock.Spend(work->second);
      all[i] = *std::move(found);
      ++report.reused;
      continue;
    }
    left.push_back({space.weights[layer.report], 0, 0, {}});
    index.push_back(i);
  }
  if (left.empty()) return all;
  const auto [some, judged] = CostSamplesOf(samples);
  HeldOut::Options judge;
  judge.threads = options.threads;
  judge.stop = options.stop;
  judge.costs = options.costs;
  judge.clock = &clock;
  INFER_ASSIGN(const HeldOut held_out, HeldOut::Make(original, judged, backend, judge));
  const LevelMeter meter(space, held_out, options);
  MomentsOptions sum;
  sum.threads = options.threads;
  sum.stop = options.stop;
  INFER_ASSIGN(const ModelCost run, held_out.CostOf(space.work));
  for (size_t begin = 0; begin < left.size() && !clock.IsOver();) {
    const MomentsBatch batch = NextBatch(space.work, left, begin, left.size(), options.max_bytes);
    INFER_ASSIGN(const auto moments,
                 SumMoments(space.work, nullptr, batch.requests, some, backend, sum));
    const double sums = kBesideRun * static_cast<double>(some.count) * run.us * 1e-6 /
                        static_cast<double>(batch.requests.size());
    for (; begin < batch.end && !clock.IsOver(); ++begin) {
      if (options.stop.stop_requested()) return Cancelled("pruning was stopped");
      const RankedLayer& layer = space.ranked[index[begin]];
      const size_t at = begin - (batch.end - batch.requests.size());
      const double before = clock.seconds();
      clock.Spend(sums + FactorSeconds(space.weights[layer.report].place.plane));
      auto costs = meter.Measure(layer, batch.dense[at], moments[at]);
      if (!costs.ok()) return std::move(costs.status()).In(space.layers[layer.report].name);
      all[index[begin]] = *std::move(costs);
      INFER_TRY(Keep(options.store, KeyOf(layer, space.layers[layer.report]), all[index[begin]],
                     clock.seconds() - before));
      ++report.measured;
      if (options.progress)
        options.progress("measure layers", static_cast<int64_t>(begin) + 1,
                         static_cast<int64_t>(left.size()));
    }
  }
  return all;
}

double LeftOf(std::span<const RankedLayer> layers, const RankChoice& choice, RankLimit of) {
  double left = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const RankedLayer& l = layers[i];
    const RankLevel* const level = choice[i] ? &l.levels[*choice[i]] : nullptr;
    left += of == RankLimit::kBytes ? static_cast<double>(level ? level->bytes : l.bytes)
            : level                 ? level->us
                                    : l.us;
  }
  return left;
}

std::optional<RankChoice> ChooseRanks(std::span<const RankedLayer> layers,
                                      std::span<const LevelCosts> costs, RankLimit of,
                                      double limit) {
  std::vector<std::vector<LayerCost>> options;
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool bytes = of == RankLimit::kBytes;
    const auto cost = [&](double error, int64_t b, double us) {
      return LayerCost{error, bytes ? b : 0, bytes ? 0.0 : us / 1e3};
    };
    std::vector<LayerCost> own = {cost(0, layers[i].bytes, layers[i].us)};
    for (size_t k = 0; k < costs[i].costs.size(); ++k)
      own.push_back(cost(costs[i].costs[k], layers[i].levels[k].bytes, layers[i].levels[k].us));
    options.push_back(std::move(own));
  }
  std::optional<RankChoice> best;
  double least = 0;
  for (const Assignment& a : SolvePrecisions(options)) {
    RankChoice choice;
    for (const int c : a.choice)
      choice.push_back(c > 0 ? std::optional(static_cast<size_t>(c - 1)) : std::nullopt);
    if (LeftOf(layers, choice, of) > limit || (best && !(a.total.error < least))) continue;
    best = std::move(choice);
    least = a.total.error;
  }
  return best;
}

}  // namespace infer
