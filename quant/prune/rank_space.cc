#include "quant/prune/rank_space.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "quant/calibrate/calibrate.h"
#include "quant/prune/goal.h"
#include "quant/prune/group_costs.h"
#include "quant/prune/layer_timer.h"
#include "quant/scheme/quantize.h"

namespace infer {
namespace {

constexpr size_t kMostRanks = 12;
/// Of what a layer saves alone, the model has to save so much: neighbours that ran together with it
/// may not any more.
constexpr double kLeastInModel = 0.5;
/// Bytes that a second product takes in a file beside its weights and names.
constexpr int64_t kBytesOfNode = 160;

/// Steps of `multiple`, or less where the full rank has not two of them.
int64_t StepOf(int64_t rows, int64_t depth, int64_t multiple) {
  int64_t step = multiple;
  while (step > 1 && std::min(rows, depth) < 2 * step) step /= 2;
  return std::max<int64_t>(step, 1);
}

/// A layer as one product (`rank` 0) or two. Pre: the node's operand has static extents.
Result<double> Microseconds(LayerTimer& timer, const Node& node, const WeightPlane& plane,
                            int64_t rank, const OpRegistry& ops) {
  INFER_ASSIGN(Graph g, LayerTimer::Alone(node, ops));
  if (rank > 0) {
    PrunableWeights w;
    w.weights = g.outputs()[0]->producer()->input(1)->name();
    w.place.plane = plane;
    INFER_TRY(SplitLayer(g, w, SomeFactors(plane, rank)));
  }
  return timer.Of(std::move(g));
}

class RankSpaceMaker {
 public:
  RankSpaceMaker(RankSpace& space, const Samples& samples, const Backend& backend,
                 const LowRankOptions& options)
      : space_(space),
        samples_(samples),
        options_(options),
        timer_(backend, {options.costs, options.threads, options.stop}) {}

  Status Run() {
    for (const PrunableWeights& w : space_.weights) {
      if (options_.progress)
        options_.progress("weigh layers", static_cast<int64_t>(space_.layers.size()),
                          static_cast<int64_t>(space_.weights.size()));
      if (options_.stop.stop_requested()) return Cancelled("pruning was stopped");
      SplitProduct p;
      p.name = w.layer;
      p.op = w.op;
      p.weights = w.weights;
      p.rows = w.place.plane.all_rows();
      p.depth = w.place.plane.depth();
      p.reason = WhyNotSplit(space_.work, w);
      if (p.reason.empty()) INFER_TRY(AddLevels(w, p));
      space_.layers.push_back(std::move(p));
    }
    return {};
  }

 private:
  Status AddLevels(const PrunableWeights& w, SplitProduct& p) {
    const bool one = options_.goal.kind == LowRankGoal::Kind::kRank;
    std::vector<int64_t> ranks = RanksOf(p.rows, p.depth, options_.multiple);
    if (one) ranks = {RankOfShare(p.rows, p.depth, options_.multiple, options_.goal.value)};
    std::erase_if(ranks, [&](int64_t r) { return r * (p.rows + p.depth) >= p.rows * p.depth; });
    const std::string extents = Cat(p.rows, "x", p.depth);
    if (ranks.empty()) {
      p.reason = one ? Cat("two products are no smaller than its ", extents, " at that rank")
                     : Cat("its ", extents, " are too few for two products");
      return {};
    }
    const Value* const counted = space_.counted.FindValue(w.weights);
    for (const Use& use : counted->uses())
      for (const Value* v : use.user->inputs())
        if (v && !v->shape().is_static()) {
          p.reason = Cat("the extents of '", v->name(), "' are not known before it runs");
          return {};
        }
    p.readers = static_cast<int64_t>(counted->uses().size());
    RankedLayer layer;
    layer.report = space_.layers.size();
    layer.bytes = space_.work.FindValue(w.weights)->constant()->byte_size();
    INFER_ASSIGN(layer.us, TimeOf(*counted, w.place.plane, 0));
    p.us = layer.us;
    const auto names = static_cast<int64_t>(w.weights.size() + w.layer.size());
    for (const int64_t rank : ranks) {
      RankLevel level{rank, 0, 0};
      level.bytes = rank * (p.rows + p.depth) * static_cast<int64_t>(sizeof(float)) +
                    p.readers * (kBytesOfNode + 4 * names);
      INFER_ASSIGN(level.us, TimeOf(*counted, w.place.plane, rank));
      if (level.us <= options_.sure * layer.us && level.bytes < layer.bytes)
        layer.levels.push_back(level);
    }
    if (layer.levels.empty()) {
      p.reason = Cat("two products are no faster than its ", extents);
      return {};
    }
    INFER_ASSIGN(const bool gains, GainsInModel(w, layer));
    if (!gains)
      p.reason = "two products are no faster in the model, where it runs together with others";
    else
      space_.ranked.push_back(std::move(layer));
    return {};
  }

  /// Whether the model as it is fused gains by the table, too, with the layer at its lowest rank.
  Result<bool> GainsInModel(const PrunableWeights& w, const RankedLayer& layer) {
    if (dense_us_ < 0) {
      INFER_ASSIGN(dense_us_, TimeOfModel(space_.counted.Clone()));
    }
    Graph split = space_.counted.Clone();
    const RankLevel& level = layer.levels.front();
    INFER_TRY(SplitLayer(split, w, SomeFactors(w.place.plane, level.rank)));
    INFER_ASSIGN(const double us, TimeOfModel(std::move(split)));
    return dense_us_ - us >= kLeastInModel * (layer.us - level.us);
  }

  Result<double> TimeOfModel(Graph g) const {
    INFER_TRY(Optimize(g).status());
    INFER_ASSIGN(std::vector<Datum> inputs, samples_.get(0));
    return timer_.OfRun(std::move(g), std::move(inputs));
  }

  Result<double> TimeOf(const Value& weights, const WeightPlane& plane, int64_t rank) {
    double us = 0;
    for (const Use& use : weights.uses()) {
      INFER_ASSIGN(const double one,
                   Microseconds(timer_, *use.user, plane, rank, space_.work.ops()));
      us += one;
    }
    return us;
  }

  RankSpace& space_;
  const Samples& samples_;
  const LowRankOptions& options_;
  LayerTimer timer_;
  double dense_us_ = -1;  // of the model
};

Status NothingToSplit(const RankSpace& space, const LowRankOptions& options) {
  if (space.layers.empty())
    return Unsupported(
        "nothing to split: no convolution, product or recurrent layer has constant weights");
  const std::string at = options.goal.kind == LowRankGoal::Kind::kRank
                             ? Cat(" at ", Rounded(100 * options.goal.value, 4), " % of the rank")
                             : "";
  // The largest of those that are products of one matrix.
  size_t told = 0;
  int64_t most = 0;
  for (size_t i = 0; i < space.layers.size(); ++i) {
    const WeightPlane& plane = space.weights[i].place.plane;
    if (plane.taps > 1 || plane.groups > 1 || plane.size() <= most) continue;
    most = plane.size();
    told = i;
  }
  const SplitProduct& p = space.layers[told];
  return Unsupported(
      Cat("nothing to split", at, ", the model stays as it is: ", p.name, ": ", p.reason,
          space.layers.size() > 1 ? Cat(" (and ", space.layers.size() - 1, " more)") : ""));
}

}  // namespace

std::vector<int64_t> RanksOf(int64_t rows, int64_t depth, int64_t multiple) {
  const int64_t step = StepOf(rows, depth, multiple);
  const int64_t most = (rows * depth - 1) / (rows + depth) / step;  // steps
  std::vector<int64_t> ranks;
  if (most < 1) return ranks;
  const auto count = static_cast<size_t>(std::min<int64_t>(most, static_cast<int64_t>(kMostRanks)));
  for (size_t i = 0; i < count; ++i) {
    const double part = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 1.0;
    ranks.push_back(step * (1 + std::llround(part * static_cast<double>(most - 1))));
  }
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

int64_t RankOfShare(int64_t rows, int64_t depth, int64_t multiple, double share) {
  const int64_t step = StepOf(rows, depth, multiple);
  const double wanted = share * static_cast<double>(std::min(rows, depth));
  return step * std::max<int64_t>(1, std::llround(wanted / static_cast<double>(step)));
}

Result<Graph> OfFirstSample(const Graph& g, const Samples& samples) {
  Graph counted = g.Clone();
  if (IsStatic(counted)) return counted;
  INFER_ASSIGN(const auto extents, ExtentsOfFirst(counted, samples));
  INFER_TRY(SpecializeInputs(counted, extents));
  return counted;
}

LowRankFactors SomeFactors(const WeightPlane& plane, int64_t rank) {
  const auto filled = [](int64_t count) {
    const Tensor t = FilledTensor({count});
    const std::span<const float> data = t.data<float>();
    return std::vector<float>(data.begin(), data.end());
  };
  return {rank, filled(plane.rows * rank), filled(rank * plane.depth()), {}};
}

Result<RankSpace> RankSpace::Make(const Graph& original, const Samples& samples,
                                  const Backend& backend, const LowRankOptions& options) {
  RankSpace s(original);
  if (Status p = PrepareForQuantization(s.work); !p.ok())
    return std::move(p).In("preparing the model");
  INFER_TRY(InferTypes(s.work));
  INFER_ASSIGN(s.counted, OfFirstSample(s.work, samples));
  INFER_ASSIGN(s.weights, FindPrunable(s.work, original, options.scope));
  INFER_TRY(RankSpaceMaker(s, samples, backend, options).Run());
  if (s.ranked.empty()) return NothingToSplit(s, options);
  return s;
}

}  // namespace infer
