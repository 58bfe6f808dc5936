#include <algorithm>
#include <cmath>

#include "lib/support/strings.h"
#include "quant/algorithm/bias_correction.h"
#include "quant/algorithm/column_groups.h"
#include "quant/algorithm/equalize.h"
#include "quant/algorithm/reader_ranges.h"
#include "quant/algorithm/smooth.h"
#include "quant/recipe/recipe_runner.h"
#include "quant/scheme/op_rules.h"

namespace infer {
namespace {

constexpr int64_t kSureSamples = 16;  // fewer cannot say what a cut tail costs
/// Storing weights in 8 bits may take the outputs from the target to here.
constexpr double kStoreDb = 1;
constexpr int64_t kSequentialSamples = 32;
constexpr double kOpsPerSecond = 1e10;  // of factorisations and coordinate descent
constexpr int64_t kRoundingSamples = 128;

}  // namespace

struct RecipeRunner::Step {
  Recipe least;  ///< the cheapest recipe that has it
  Status (RecipeRunner::*run)();
};

const RecipeRunner::Step RecipeRunner::kSteps[] = {
    {Recipe::kFast, &RecipeRunner::TryChannelScales},
    {Recipe::kFast, &RecipeRunner::NarrowRanges},
    {Recipe::kBalanced, &RecipeRunner::TryObservers},
    {Recipe::kBalanced, &RecipeRunner::Equalize},
    {Recipe::kBalanced, &RecipeRunner::Smooth},
    {Recipe::kBalanced, &RecipeRunner::GroupColumns},
    {Recipe::kBalanced, &RecipeRunner::KeepFloat},
    {Recipe::kFast, &RecipeRunner::PruneWeights},
    {Recipe::kFast, &RecipeRunner::CalibrateOnAll},
    {Recipe::kBest, &RecipeRunner::RoundWeights},
    {Recipe::kFast, &RecipeRunner::CorrectBias},
    {Recipe::kBest, &RecipeRunner::CorrectBiasInOrder},
    {Recipe::kBalanced, &RecipeRunner::StoreWeights},
};

Status RecipeRunner::RunSteps() {
  for (const Step& step : kSteps)
    if (options_.recipe >= step.least) INFER_TRY((this->*step.run)());
  return {};
}

/// No Try: the file's opset is a price that a small gain does not pay for.
Status RecipeRunner::TryChannelScales() {
  if (!options_.may_have_channel_scales || OutOfTime()) return {};
  const double begin = Seconds();
  StaticModel candidate{model_.graph.Clone(), model_.ranges, model_.scheme};
  candidate.scheme.per_channel = candidate.scheme.has_channel_scales = true;
  INFER_TRY(Calibrate(candidate, observer_, fit_, &seen_));
  INFER_ASSIGN(HeldOutError e, ErrorOf(candidate));
  RecipeStep step{"channel-scales", "a scale per channel of weights", Decibels(error_.noise),
                  Decibels(e.noise)};
  const double gain = step.db_after - step.db_before;
  if (std::isfinite(gain)) report_.channel_scales_db = gain;
  step.kept = report_.channel_scales = gain >= kChannelScalesDb;
  if (step.kept) {
    model_ = std::move(candidate);
    error_ = std::move(e);
  }
  step.seconds = Seconds() - begin;
  report_.steps.push_back(std::move(step));
  return {};
}

Status RecipeRunner::NarrowRanges() {
  INFER_TRY(Try("reader-ranges", [&](StaticModel& m) -> Result<std::string> {
    INFER_ASSIGN(const int n, NarrowByReaders(m, original_));
    return n > 0 ? Cat(n, " values") : std::string();
  }));
  narrowed_ = report_.steps.back().name == "reader-ranges" && report_.steps.back().kept;
  return {};
}

Status RecipeRunner::TryObservers() {
  if (held_.count() < kSureSamples) return {};
  std::vector<std::string> names;
  if (options_.recipe == Recipe::kBest) names.emplace_back("percentile:99.999");
  names.insert(names.end(), {"percentile:99.99", "percentile:99.9"});
  for (const std::string& name : names) {
    INFER_ASSIGN(const ObserverFactory observer, ParseObserver(name));
    const ObserverFactory before = observer_;
    observer_ = observer;
    const size_t steps = report_.steps.size();
    INFER_TRY(Try("observer", [&](StaticModel& m) { return Recalibrate(m, name, &seen_); }));
    if (report_.steps.size() == steps || !report_.steps.back().kept) observer_ = before;
  }
  seen_.clear();
  return {};
}

Status RecipeRunner::Equalize() {
  const auto with = [&](EqualizeOptions options, std::string_view what) {
    return Try("equalize", [&, options](StaticModel& m) -> Result<std::string> {
      SpendRuns(2 * fit_.count);
      INFER_ASSIGN(const int n, EqualizeLayers(m, original_, fit_, run_, options));
      if (n == 0) return std::string();
      return Recalibrate(m, Cat(n, " pairs", what));
    });
  };
  const size_t before = report_.steps.size();
  INFER_TRY(with({}, ""));
  if (report_.steps.size() == before || report_.steps.back().kept) return {};
  EqualizeOptions depthwise;
  depthwise.depthwise_only = true;
  return with(depthwise, " before depthwise layers");
}

Status RecipeRunner::Smooth() {
  if (fits_held_out_) return {};
  return Try("smooth", [&](StaticModel& m) -> Result<std::string> {
    SpendRuns(2 * fit_.count);
    INFER_ASSIGN(const int n, SmoothLayers(m, original_, fit_, run_));
    if (n == 0) return std::string();
    return Recalibrate(m, Cat(n, " normalizations"));
  });
}

Status RecipeRunner::GroupColumns() {
  if (options_.column_groups < 2) return {};
  return Try("embedding-groups", [&](StaticModel& m) -> Result<std::string> {
    ColumnGroupOptions options;
    options.groups = options_.column_groups;
    SpendRuns(2 * fit_.count);
    INFER_ASSIGN(const ColumnGroupResult r, SplitColumnGroups(m, original_, fit_, run_, options));
    if (r.values == 0) return std::string();
    return Recalibrate(m, Cat(r.values, " values, ", r.parts, " products for ", r.products));
  });
}

Status RecipeRunner::KeepFloat() {
  report_.basis = target_.Basis(error_);
  if (OutOfTime()) return {};
  const double begin = Seconds();
  ChooseOptions options;
  options.target = target_;
  options.fused_graph = &fused_;
  options.fused = report_.fused;
  options.sure = options_.costs.sure;
  options.weigh = report_.weighed;
  options.may_be_float = !options_.prune;  // its layers are fused: no weights to prune
  options.out_of_time = [&] { return OutOfTime(); };
  options.progress = options_.on_layer;
  if (options_.on_step) options_.on_step("keep-f32");
  INFER_ASSIGN(LayerChoice found, ChooseLayers(model_, original_, held_, error_, options));
  is_float_ = found.graph.has_value();
  const size_t kept = is_float_ ? found.layers : found.keep.size() - model_.scheme.keep.size();
  const auto chosen = std::find_if(found.candidates.begin(), found.candidates.end(),
                                   [](const RecipeCandidate& c) { return c.chosen; });
  report_.candidates = found.candidates;
  report_.pays = found.pays;
  if (kept == 0) return {};
  RecipeStep step{"keep-f32",
                  Cat(chosen->name, ": ", kept, " of ", found.layers, " layers",
                      found.reached ? "" : ", the target is not reached"),
                  Decibels(error_.noise), Decibels(found.error.noise)};
  step.kept = true;
  if (found.graph) model_.graph = std::move(*found.graph);
  model_.scheme.keep = std::move(found.keep);
  model_.scheme.store.merge(found.store);
  error_ = std::move(found.error);
  step.seconds = Seconds() - begin;
  report_.steps.push_back(std::move(step));
  return {};
}

/// No Try: it was asked for, whatever it costs. Weights get codes on the way, which no later step
/// changes.
Status RecipeRunner::PruneWeights() {
  if (!options_.prune) return {};
  const double begin = Seconds();
  if (options_.on_step) options_.on_step("prune");
  RecipeStep step{"prune", "", Decibels(error_.noise)};
  {
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(model_.graph, original_, model_.scheme));
    const WeightGrids grids = GridsOf(plan, model_.scheme);
    INFER_TRY(options_.prune(model_.graph, original_, grids, all_));
    step.note = Cat("and codes of ", grids.size(), " constants");
  }
  SpendRuns(2 * all_.count);
  seen_.clear();
  INFER_TRY(Recalibrate(model_, "").status());
  INFER_ASSIGN(error_, ErrorOf(model_));
  step.db_after = Decibels(error_.noise);
  step.kept = true;
  step.seconds = Seconds() - begin;
  report_.steps.push_back(std::move(step));
  return {};
}

Status RecipeRunner::CorrectBias() {
  if (is_float_) return {};
  return Try("bias-correction", [&](StaticModel& m) -> Result<std::string> {
    SpendRuns(fit_.count);
    INFER_ASSIGN(const int n, CorrectBiasFast(m, original_, fit_, run_));
    return n > 0 ? Cat("fast, ", n, " layers") : std::string();
  });
}

Status RecipeRunner::CorrectBiasInOrder() {
  if (is_float_) return {};
  const Samples some = FirstOf(fit_, kSequentialSamples);
  return Try("bias-correction", [&](StaticModel& m) -> Result<std::string> {
    SequentialOptions options;
    options.out_of_time = [&] {
      SpendRuns(some.count);
      return OutOfTime();
    };
    INFER_ASSIGN(const int n, CorrectBiasSequential(m, original_, some, run_, options));
    return n > 0 ? Cat("sequential, ", n, " layers") : std::string();
  });
}

/// Of all layers: a factorisation of [depth, depth] and products with it.
Result<double> RecipeRunner::RoundingSeconds() const {
  const Graph g = model_.graph.Clone();
  INFER_ASSIGN(const QuantPlan plan, PlanQuantization(g, original_, model_.scheme));
  double ops = 0;
  for (const PlannedNode& p : plan.nodes) {
    const Value* w = p.node->inputs().size() > 1 ? p.node->input(1) : nullptr;
    if (!p.integer || !w || !w->is_constant() || w->constant()->rank() < 2) continue;
    const auto all = static_cast<double>(w->constant()->num_elements());
    const int axis = WeightAxis(*p.node, 1);
    if (axis < 0) continue;
    const auto outs = static_cast<double>(std::max<int64_t>(w->constant()->dim(axis), 1));
    const double depth = all / outs;
    ops += depth * depth * (depth + outs);
  }
  double times = 0;
  for (const CodeRounder* rounder : options_.rounders) times += rounder->time;
  return ops * times / kOpsPerSecond;
}

Status RecipeRunner::RoundWeights() {
  if (options_.rounders.empty() || is_float_ || options_.prune) return {};
  return Try("round", [&](StaticModel& m) -> Result<std::string> {
    StaticRoundingOptions options;
    options.rounders = options_.rounders;
    INFER_ASSIGN(const auto layers, WeightedLayers(m, original_));
    INFER_ASSIGN(const double seconds, RoundingSeconds());
    const double each = seconds / static_cast<double>(std::max<size_t>(layers.size(), 1));
    SpendRuns(std::min(fit_.count, kRoundingSamples));
    options.out_of_time = [&, each] {  // asked before each layer
      clock_.Spend(each);
      return OutOfTime();
    };
    INFER_ASSIGN(const StaticRoundingResult r,
                 RoundStaticWeights(m, original_, fit_, run_, options));
    std::vector<std::string> parts;
    for (const CodeRounder* rounder : options_.rounders)
      if (const auto it = r.by.find(rounder->name); it != r.by.end())
        parts.push_back(Cat(it->first, " ", it->second));
    return parts.empty() ? std::string() : Cat(Join(parts, ", "), " of ", r.layers, " layers");
  });
}

/// The one step that may cost accuracy, within the target: it makes the file smaller.
Status RecipeRunner::StoreWeights() {
  if (OutOfTime() || is_float_) return {};
  if (options_.on_step) options_.on_step("int8-weights");
  const double begin = Seconds();
  StoreWeightsOptions options;
  options.target = target_;
  options.target.db -= kStoreDb;
  options.target.calm_db -= kStoreDb;
  options.out_of_time = [&] { return OutOfTime(); };
  options.progress = options_.on_layer;
  INFER_ASSIGN(StoreWeightsResult found,
               FindWeightsToStore(model_, original_, held_, error_, options));
  if (found.layers == 0) return {};
  RecipeStep step{"int8-weights", Cat(found.store.size(), " of ", found.layers, " f32 layers"),
                  Decibels(error_.noise), Decibels(found.error.noise)};
  step.kept = !found.store.empty();
  if (step.kept) {
    model_.scheme.store = std::move(found.store);
    error_ = found.error;
  }
  step.seconds = Seconds() - begin;
  report_.steps.push_back(std::move(step));
  return {};
}

Status RecipeRunner::CalibrateOnAll() {
  if (all_.count <= fit_.count || is_float_) return {};
  return Try("calibrate", [&](StaticModel& m) -> Result<std::string> {
    SpendRuns(all_.count);
    INFER_TRY(Calibrate(m, observer_, all_));
    if (narrowed_) INFER_TRY(NarrowByReaders(m, original_).status());
    return Cat("all ", all_.count, " samples");
  });
}

}  // namespace infer
