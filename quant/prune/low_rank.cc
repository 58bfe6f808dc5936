#include "quant/prune/low_rank.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/prune/check_same.h"
#include "quant/prune/goal.h"
#include "quant/prune/group_costs.h"
#include "quant/prune/rank_costs.h"

namespace infer {
namespace {

constexpr int kSpeedSteps = 6;  // towards a speed that only the finished graph tells
constexpr int kLossSteps = 6;   // of a search by accuracy: each fits the whole model
constexpr int kByteSteps = 8;   // towards bytes that only the finished graph tells

Status CheckLowRankRequest(const Graph& g, const Samples& samples, const LowRankOptions& o) {
  INFER_TRY(CheckNotQuantized(g));
  if (samples.count <= 0)
    return InvalidArgument("low rank is chosen and fitted by calibration data, and there are none");
  const double v = o.goal.value;
  using enum LowRankGoal::Kind;
  switch (o.goal.kind) {
    case kRank:
      if (!(v > 0 && v < 1))
        return InvalidArgument("a rank is a share of the full rank above 0 and below 100 %");
      break;
    case kBytes: INFER_TRY(CheckBytesGoal(v)); break;
    case kSpeedup: INFER_TRY(CheckSpeedupGoal(v, o.speedup != nullptr)); break;
    case kDrop: INFER_TRY(CheckDropGoal(v, samples.count)); break;
  }
  if (o.multiple < 1) return InvalidArgument("ranks are multiples of at least 1");
  return {};
}

class ProductSplitter {
 public:
  ProductSplitter(const Graph& original, const Samples& samples, const Backend& backend,
                  const LowRankOptions& options)
      : original_(original),
        samples_(samples),
        backend_(backend),
        options_(options),
        result_(original.ops()) {}

  Status Run() {
    INFER_ASSIGN(space_, RankSpace::Make(original_, samples_, backend_, options_));
    report_.layers = space_->layers;
    const bool by_drop = options_.goal.kind == LowRankGoal::Kind::kDrop;
    const Samples fit = by_drop ? FitPart(samples_) : samples_;
    RankChoice choice;
    if (options_.goal.kind == LowRankGoal::Kind::kRank) {
      choice.assign(space_->ranked.size(), size_t{0});
    } else {
      const bool by_bytes = options_.goal.kind == LowRankGoal::Kind::kBytes;
      INFER_ASSIGN(costs_,
                   MeasureLevels(original_, *space_, fit, backend_, options_,
                                 by_bytes ? RankLimit::kBytes : RankLimit::kMicroseconds, report_));
      auto found = ChoiceForGoal(fit);
      if (!found.ok()) return WithUnmeasured(found.status());
      choice = *std::move(found);
    }
    INFER_ASSIGN(result_, Split(choice, samples_, true));
    Report(choice);
    return {};
  }
  Graph TakeGraph() { return std::move(result_); }
  LowRankReport TakeReport() { return std::move(report_); }

 private:
  double All(RankLimit of) const {
    return LeftOf(space_->ranked, RankChoice(space_->ranked.size()), of);
  }
  /// The least that is left: each layer at its lowest rank, or at its fastest.
  double Least(RankLimit of) const {
    double left = 0;
    for (size_t i = 0; i < space_->ranked.size(); ++i) {
      const std::span<const RankedLayer> one(&space_->ranked[i], 1);
      double least = LeftOf(one, {std::nullopt}, of);
      for (size_t k = 0; k < one[0].levels.size(); ++k)
        least = std::min(least, LeftOf(one, {k}, of));
      left += least;
    }
    return left;
  }
  std::optional<RankChoice> Choose(RankLimit of, double limit) const {
    auto choice = ChooseRanks(space_->ranked, costs_, of, limit);
    if (choice &&
        std::none_of(choice->begin(), choice->end(), [](const auto& c) { return c.has_value(); }))
      return std::nullopt;
    return choice;
  }

  /// A goal may be out of reach only since the search's work was done.
  Status WithUnmeasured(Status s) const {
    const auto left = std::count_if(costs_.begin(), costs_.end(),
                                    [](const LevelCosts& c) { return c.costs.empty(); });
    if (s.code() != Code::kUnsupported || left == 0) return s;
    return Unsupported(Cat(s.message(), "; ", left, " of ", costs_.size(),
                           " layers were not measured before the search's work was done (",
                           options_.max_seconds, " s by the cost table)"));
  }

  Result<RankChoice> ChoiceForGoal(const Samples& fit) {
    switch (options_.goal.kind) {
      case LowRankGoal::Kind::kBytes: return ForBytes();
      case LowRankGoal::Kind::kSpeedup: return ForSpeed();
      case LowRankGoal::Kind::kDrop: return ForDrop(fit);
      case LowRankGoal::Kind::kRank: break;
    }
    return Internal("a goal without a way to it");
  }

  Result<RankChoice> ForBytes() {
    const auto goal = options_.goal.value;
    const auto all = static_cast<double>(ConstantsOf(space_->work).bytes);
    INFER_TRY(CheckBytesToSave(goal, all));
    const double others = all - All(RankLimit::kBytes);
    // Layers that are fitted may get a bias that they had not.
    double limit = goal - others - static_cast<double>(BytesOfNewBiases());
    for (int step = 0; step < kByteSteps; ++step) {
      const auto choice = Choose(RankLimit::kBytes, limit);
      if (!choice) break;
      INFER_ASSIGN(const Graph split, Drafted(*choice));
      const auto bytes = static_cast<double>(ConstantsOf(split).bytes + BytesOfNewBiases());
      if (bytes <= goal) return *choice;
      limit -= bytes - goal;
    }
    const double least = others + Least(RankLimit::kBytes);
    return Unsupported(Cat("the goal is out of reach: all layers at their lowest ranks leave ",
                           Rounded(100 * least / all, 3), " % of the weights, the goal is ",
                           Rounded(100 * goal / all, 3), " %"));
  }

  int64_t BytesOfNewBiases() const {
    int64_t bytes = 0;
    for (const PrunableWeights& w : space_->weights) {
      if (!w.reason.empty() || !w.bias) continue;
      const Node& node = *space_->work.FindValue(w.bias->output)->producer();
      if (WeightLayoutOf(node)->has_bias && !node.input(2))
        bytes += w.place.plane.all_rows() * static_cast<int64_t>(sizeof(float));
    }
    return bytes;
  }

  /// The model with factors of the right extents, whatever they hold.
  Result<Graph> Drafted(const RankChoice& choice) const {
    Graph draft = space_->work.Clone();
    for (size_t i = 0; i < choice.size(); ++i) {
      if (!choice[i]) continue;
      const RankedLayer& l = space_->ranked[i];
      const PrunableWeights& w = space_->weights[l.report];
      INFER_TRY(SplitLayer(draft, w, SomeFactors(w.place.plane, l.levels[*choice[i]].rank)));
    }
    return draft;
  }

  /// From the store, or measured now.
  Result<double> Known(const std::string& what, const RankChoice& choice,
                       const std::function<Result<double>()>& measure) {
    std::string key = what;
    for (size_t i = 0; i < choice.size(); ++i)
      key += Cat(" ", choice[i] ? space_->ranked[i].levels[*choice[i]].rank : 0);
    if (const Numbers* n = options_.store ? options_.store->Find(key) : nullptr)
      if (const auto it = n->find("value"); it != n->end()) {
        ++report_.reused;
        return it->second;
      }
    if (options_.stop.stop_requested()) return Cancelled("pruning was stopped");
    INFER_ASSIGN(const double value, measure());
    ++report_.measured;
    if (options_.store) INFER_TRY(options_.store->Add(key, {{"value", value}}));
    return value;
  }

  Result<double> SpeedOf(const RankChoice& choice) const {
    INFER_ASSIGN(const Graph draft, Drafted(choice));
    return options_.speedup(space_->work, draft);
  }

  Result<double> DropOf(const RankChoice& choice, const Samples& fit, const HeldOut& judge) {
    INFER_ASSIGN(const Graph split, Split(choice, fit, false));
    return infer::DropOf(judge, split);
  }

  /// The most time by the table with which the rewritten graph is fast enough.
  Result<RankChoice> ForSpeed() {
    const double all = All(RankLimit::kMicroseconds), least = Least(RankLimit::kMicroseconds);
    double low = least, high = all, reached = 0;
    std::optional<RankChoice> best;
    double limit = std::max(least, all / options_.goal.value);
    for (int step = 0; step < kSpeedSteps; ++step) {
      const auto choice = Choose(RankLimit::kMicroseconds, limit);
      if (!choice) break;
      INFER_ASSIGN(const double speedup,
                   Known("speedup", *choice, [&] { return SpeedOf(*choice); }));
      reached = std::max(reached, speedup);
      if (speedup >= options_.goal.value) {
        best = *choice;
        report_.speedup = speedup;
        low = limit;
      } else {
        if (limit <= least) break;
        high = limit;
      }
      // The end that can be reached at all comes before the middle.
      limit = !best && step == 0 ? least : (low + high) / 2;
      if (high - low < 0.02 * all) break;
    }
    if (best) return *std::move(best);
    return SpeedupOutOfReach(options_.goal.value, reached);
  }

  /// The least time by the table whose loss on samples that nothing was fitted to is allowed.
  Result<RankChoice> ForDrop(const Samples& fit) {
    INFER_ASSIGN(const HeldOut judge,
                 MakeDropJudge(original_, samples_, backend_, options_.threads, options_.stop));
    double low = Least(RankLimit::kMicroseconds), high = All(RankLimit::kMicroseconds), least = 1;
    std::optional<RankChoice> best;
    for (int step = 0; step < kLossSteps; ++step) {
      const double limit = (low + high) / 2;
      const auto choice = Choose(RankLimit::kMicroseconds, limit);
      if (!choice) {
        low = limit;
        continue;
      }
      INFER_ASSIGN(const double drop,
                   Known("drop", *choice, [&] { return DropOf(*choice, fit, judge); }));
      least = std::min(least, drop);
      if (drop <= options_.goal.value) {
        best = *choice;
        report_.drop = drop;
        high = limit;
      } else {
        low = limit;
      }
    }
    if (best) return *std::move(best);
    return Unsupported(Cat("no ranks that were tried lose at most ",
                           Rounded(100 * options_.goal.value, 3), " points; the least lost ",
                           Rounded(100 * least, 3)));
  }

  /// Rank of each of the space's layers.
  std::vector<int64_t> RanksOfLayers(const RankChoice& choice) const {
    std::vector<int64_t> ranks(space_->layers.size(), 0);
    for (size_t i = 0; i < choice.size(); ++i)
      if (choice[i]) ranks[space_->ranked[i].report] = space_->ranked[i].levels[*choice[i]].rank;
    return ranks;
  }

  /// Fits from the first layer that is split on: before it nothing changes.
  Result<Graph> Split(const RankChoice& choice, const Samples& samples, bool report) {
    const std::vector<int64_t> ranks = RanksOfLayers(choice);
    std::vector<SelectedLayer> selected;
    std::vector<size_t> index;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (!space_->weights[i].reason.empty() || (selected.empty() && ranks[i] == 0)) continue;
      selected.push_back({space_->weights[i], 0, 0, {}});
      index.push_back(i);
    }
    std::vector<LowRankFactors> factors(ranks.size());
    InOrderOptions in_order;
    in_order.max_bytes = options_.max_bytes;
    in_order.threads = options_.threads;
    in_order.progress = options_.progress;
    in_order.stop = options_.stop;
    in_order.make = [&](size_t k, const LayerJob& job,
                        MomentsPair&& moments) -> Result<LayerResult> {
      const size_t i = index[k];
      if (ranks[i] == 0) return PruneLayer(job, std::move(moments));
      auto made =
          FactorLayer({job.plane, job.dense, ranks[i], job.takes_shift}, std::move(moments));
      if (!made.ok()) return std::move(made.status()).In(space_->layers[i].name);
      factors[i] = std::move(made->factors);
      if (report) report_.layers[i].plain_error = made->plain_error;
      return std::move(made->layer);
    };
    Graph products = space_->work.Clone();
    INFER_TRY(PruneLayersInOrder(space_->work, products, selected, samples, backend_, in_order,
                                 [&](size_t k, const LayerResult& r) {
                                   if (report) Note(index[k], ranks[index[k]], r);
                                 }));
    Graph out = products.Clone();
    for (size_t i = 0; i < ranks.size(); ++i)
      if (ranks[i] > 0) INFER_TRY(SplitLayer(out, space_->weights[i], factors[i]));
    INFER_TRY(CheckSame(products, out, samples, backend_, options_.threads,
                        "the model of two products differs from the one of their product"));
    return out;
  }

  void Note(size_t i, int64_t rank, const LayerResult& r) {
    if (rank == 0) {
      report_.fitted += r.method != "dense" ? 1 : 0;
      return;
    }
    SplitProduct& p = report_.layers[i];
    p.method = r.method;
    p.error = r.error;
    p.dense_error = r.dense_error;
  }

  void Report(const RankChoice& choice) {
    report_.calibration_samples = samples_.count;
    const ConstantSize was = ConstantsOf(space_->work), is = ConstantsOf(result_);
    report_.parameters = was.elements;
    report_.parameters_after = is.elements;
    report_.constant_bytes = was.bytes;
    report_.constant_bytes_after = is.bytes;
    report_.us = All(RankLimit::kMicroseconds);
    report_.us_after = LeftOf(space_->ranked, choice, RankLimit::kMicroseconds);
    for (size_t i = 0; i < choice.size(); ++i) {
      const RankedLayer& l = space_->ranked[i];
      SplitProduct& p = report_.layers[l.report];
      if (!choice[i]) {
        p.reason = !costs_.empty() && costs_[i].costs.empty()
                       ? "it was not measured: the search's work was done before it"
                       : "it stays whole: other layers give more for their error";
        continue;
      }
      p.rank = l.levels[*choice[i]].rank;
      p.us_after = l.levels[*choice[i]].us;
      if (!costs_.empty()) p.cost = costs_[i].costs[*choice[i]];
    }
    if (!IsStatic(space_->counted)) return;
    report_.flops = FlopsOf(space_->counted);
    if (const auto after = OfFirstSample(result_, samples_); after.ok())
      report_.flops_after = FlopsOf(*after);
  }

  const Graph& original_;
  const Samples& samples_;
  const Backend& backend_;
  const LowRankOptions& options_;
  Graph result_;
  std::optional<RankSpace> space_;
  std::vector<LevelCosts> costs_;
  LowRankReport report_;
};

}  // namespace

Result<LowRankReport> SplitProducts(Graph& g, const Samples& samples, const Backend& backend,
                                    const LowRankOptions& options) {
  INFER_TRY(CheckLowRankRequest(g, samples, options));
  ProductSplitter splitter(g, samples, backend, options);
  INFER_TRY(splitter.Run());
  g = splitter.TakeGraph();
  return splitter.TakeReport();
}

}  // namespace infer
