#include "quant/recipe/recipe.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "quant/algorithm/bias_correction.h"
#include "quant/algorithm/column_groups.h"
#include "quant/algorithm/equalize.h"
#include "quant/algorithm/reader_ranges.h"
#include "quant/algorithm/smooth.h"

namespace infer {
namespace {

constexpr int64_t kFewSamples = 10;
constexpr int64_t kTrialSamples = 200;
constexpr int64_t kSureSamples = 16;  // fewer cannot say what a cut tail costs
constexpr double kBestCalmDb = 4;     // of RecipeTarget::calm_db, for `best`
/// Storing weights in 8 bits may take the outputs from the target to here.
constexpr double kStoreDb = 1;
constexpr int64_t kSequentialSamples = 32;
constexpr double kBesideRun = 1.5;      // observing and summing, beside a run that is observed
constexpr double kOpsPerSecond = 1e10;  // of factorisations and coordinate descent
constexpr double kAdaRoundTimes = 8;    // as long as GPTQ
constexpr int64_t kRoundingSamples = 128;

struct RecipeSplit {
  std::vector<int64_t> fit, held;
};

/// With few samples, both are all of them. With labels enough are held out, where there are, that
/// they tell of the task.
RecipeSplit SplitForRecipe(int64_t count, bool labelled) {
  RecipeSplit s;
  int64_t every = count < 40 ? 3 : 5;
  if (labelled && count >= 2 * RecipeTarget::kEnoughRows)
    every = std::min(every, count / RecipeTarget::kEnoughRows);
  for (int64_t i = 0; i < count; ++i) {
    const bool held = i % every == every - 1;
    if (count < kFewSamples || held) s.held.push_back(i);
    if (count < kFewSamples || !held) s.fit.push_back(i);
  }
  return s;
}

Samples FirstOf(const Samples& samples, int64_t most) {
  Samples first = samples;
  first.count = std::min(samples.count, most);
  return first;
}

StaticModel CopyOf(const StaticModel& m) { return {m.graph.Clone(), m.ranges, m.scheme}; }

/// Runs steps and keeps the model whose error on the held-out samples is least.
class RecipeRunner {
 public:
  RecipeRunner(const Graph& original, const Samples& all, const HeldOut& held,
               const Backend& backend, const RecipeOptions& options, WorkClock& clock)
      : original_(original),
        all_(all),
        fit_(FirstOf(all, kTrialSamples)),
        held_(held),
        options_(options),
        clock_(clock) {
    run_.backend = &backend;
    run_.threads = options.quantize.threads;
    run_.stop = options.quantize.stop;
  }

  Status Start(StaticModel model);
  Status NarrowRanges();
  Status TryObservers(const std::vector<std::string>& names);
  Status Equalize();
  Status Smooth();
  Status GroupColumns();
  Status KeepFloat(const RecipeTarget& target);
  Status CostOfFused();
  Status RoundWeights();
  Status CorrectBias(bool sequential);
  Status StoreWeights(RecipeTarget target);
  /// Ranges from all samples, with what was chosen on the first ones.
  Status CalibrateOnAll();
  Result<RecipeReport> Finish(Graph& g, int64_t samples);

 private:
  using Change = std::function<Result<std::string>(StaticModel&)>;
  /// Applies `change` to a copy; "" means that it found nothing to do.
  Status Try(const std::string& name, const Change& change);
  /// `memory`: of these samples and the model's graph, or none.
  Status Calibrate(StaticModel& m, const ObserverFactory& observer, const Samples& with,
                   CalibrationMemory* memory = nullptr) const;
  Result<std::string> Recalibrate(StaticModel& m, std::string note,
                                  CalibrationMemory* memory = nullptr) const;
  Result<HeldOutError> ErrorOf(const StaticModel& m) const;
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  bool OutOfTime() const { return clock_.IsOver(); }
  /// So many runs of the model as it is now, with what is done beside them.
  void SpendRuns(int64_t runs) {
    clock_.Spend(kBesideRun * static_cast<double>(runs) * 1e-6 *
                 std::max(error_.us, report_.fused.us));
  }
  Result<double> RoundingSeconds() const;

  const Graph& original_;
  const Samples& all_;
  const Samples fit_;  // what steps are tried with
  const HeldOut& held_;
  const RecipeOptions& options_;
  WorkClock& clock_;
  ChannelRun run_;
  ObserverFactory observer_;
  CalibrationMemory seen_;  // in model_ as it came, of fit_: until steps change the graph
  bool narrowed_ = false;
  StaticModel model_{Graph(original_.ops()), {}, {}};
  Graph fused_{original_.ops()};
  bool is_float_ = false;  // no layer computes in integers
  HeldOutError error_;
  RecipeReport report_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Status RecipeRunner::Calibrate(StaticModel& m, const ObserverFactory& observer, const Samples& with,
                               CalibrationMemory* memory) const {
  INFER_ASSIGN(const QuantPlan plan, PlanQuantization(m.graph, original_, m.scheme));
  CalibrationOptions c = CalibrationOf(options_.quantize);
  c.observer = observer;
  c.grid = m.scheme.activations;
  c.memory = memory;
  INFER_ASSIGN(m.ranges, infer::Calibrate(m.graph, ObservedValues(plan), with, *run_.backend, c));
  return KeepUnseen(m.graph, original_, m.ranges, m.scheme).status();
}

Result<std::string> RecipeRunner::Recalibrate(StaticModel& m, std::string note,
                                              CalibrationMemory* memory) const {
  INFER_TRY(Calibrate(m, observer_, fit_, memory));
  if (narrowed_) INFER_TRY(NarrowByReaders(m, original_).status());
  return note;
}

Result<HeldOutError> RecipeRunner::ErrorOf(const StaticModel& m) const {
  INFER_ASSIGN(const StaticResult r, RewriteStatic(m, original_, fit_.count));
  return held_.Measure(r.graph);
}

Status RecipeRunner::Start(StaticModel model) {
  model_ = std::move(model);
  observer_ = options_.quantize.observer;
  RecipeStep step{"calibrate", Cat(fit_.count, " samples")};
  if (options_.on_step) options_.on_step(step.name);
  INFER_TRY(CostOfFused());
  SpendRuns(fit_.count);
  INFER_TRY(Calibrate(model_, observer_, fit_, &seen_));
  INFER_ASSIGN(error_, ErrorOf(model_));
  step.db_before = step.db_after = Decibels(error_.noise);
  step.kept = true;
  step.seconds = Seconds();
  report_.steps.push_back(std::move(step));
  return {};
}

/// The model as `infer-opt fuse` writes it: what no result should be slower or larger than.
Status RecipeRunner::CostOfFused() {
  {
    Graph fused = original_.Clone();
    if (options_.quantize.prepare) INFER_TRY(Optimize(fused).status());
    INFER_ASSIGN(report_.fused, held_.CostOf(fused));
  }
  // Blocks that hide the weights of their layers leave nothing to store in 8 bits.
  OptimizeOptions visible;
  visible.disable = {"fuse-mlp", "fuse-squeeze-excite", "fuse-dense-squeeze-excite"};
  fused_ = original_.Clone();
  if (options_.quantize.prepare) INFER_TRY(Optimize(fused_, visible).status());
  report_.weighed = run_.backend->name() == "cpu" || options_.always_weigh;
  report_.cost_table = options_.costs.name;
  return {};
}

Status RecipeRunner::Try(const std::string& name, const Change& change) {
  if (OutOfTime()) return {};
  if (options_.on_step) options_.on_step(name);
  const double begin = Seconds();
  StaticModel candidate = CopyOf(model_);
  INFER_ASSIGN(std::string note, change(candidate));
  if (note.empty()) return {};
  RecipeStep step{name, std::move(note), Decibels(error_.noise)};
  INFER_ASSIGN(const HeldOutError e, ErrorOf(candidate));
  step.db_after = Decibels(e.noise);
  step.kept = IsLess(e, error_);
  if (step.kept) {
    model_ = std::move(candidate);
    error_ = e;
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

Status RecipeRunner::TryObservers(const std::vector<std::string>& names) {
  if (held_.count() < kSureSamples) return {};
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

Status RecipeRunner::KeepFloat(const RecipeTarget& target) {
  report_.basis = target.Basis(error_);
  if (OutOfTime()) return {};
  const double begin = Seconds();
  ChooseOptions options;
  options.target = target;
  options.fused_graph = &fused_;
  options.fused = report_.fused;
  options.weigh = report_.weighed;
  options.out_of_time = [&] { return OutOfTime(); };
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

Status RecipeRunner::CorrectBias(bool sequential) {
  if (is_float_) return {};
  if (!sequential)
    return Try("bias-correction", [&](StaticModel& m) -> Result<std::string> {
      SpendRuns(fit_.count);
      INFER_ASSIGN(const int n, CorrectBiasFast(m, original_, fit_, run_));
      return n > 0 ? Cat("fast, ", n, " layers") : std::string();
    });
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
    const auto outs = static_cast<double>(std::max<int64_t>(
        w->constant()->dim(p.node->Is("Conv") ? 0 : w->constant()->rank() - 1), 1));
    const double depth = all / outs;
    ops += depth * depth * (depth + outs);
  }
  double times = 0;
  for (const CodeMethod method : options_.rounding)
    times += method == CodeMethod::kAdaRound ? kAdaRoundTimes : 1;
  return ops * times / kOpsPerSecond;
}

Status RecipeRunner::RoundWeights() {
  if (options_.rounding.empty() || is_float_) return {};
  return Try("round", [&](StaticModel& m) -> Result<std::string> {
    StaticRoundingOptions options;
    options.methods = options_.rounding;
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
    if (r.gptq > 0) parts.push_back(Cat("gptq ", r.gptq));
    if (r.adaround > 0) parts.push_back(Cat("adaround ", r.adaround));
    return parts.empty() ? std::string() : Cat(Join(parts, ", "), " of ", r.layers, " layers");
  });
}

/// The one step that may cost accuracy, within the target: it makes the file smaller.
Status RecipeRunner::StoreWeights(RecipeTarget target) {
  if (OutOfTime() || is_float_) return {};
  if (options_.on_step) options_.on_step("int8-weights");
  const double begin = Seconds();
  StoreWeightsOptions options;
  target.db -= kStoreDb;
  target.calm_db -= kStoreDb;
  options.target = target;
  options.out_of_time = [&] { return OutOfTime(); };
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

Result<RecipeReport> RecipeRunner::Finish(Graph& g, int64_t samples) {
  fused_ = Graph(original_.ops());
  INFER_ASSIGN(StaticResult r, RewriteStatic(model_, original_, samples));
  report_.quantization = std::move(r.report);
  report_.fit_samples = all_.count;
  report_.held_out_samples = held_.count();
  report_.cost = {error_.us, EstimatedFileBytes(r.graph)};
  report_.held_out_db = Decibels(error_.worst);
  report_.seconds = Seconds();
  report_.work_seconds = clock_.seconds();
  if (OutOfTime())
    report_.quantization.warnings.push_back(
        Cat("the recipe's work (", options_.max_seconds,
            " s by the cost table) was done before its last step"));
  g = std::move(r.graph);
  return std::move(report_);
}

}  // namespace

std::optional<Recipe> ParseRecipe(std::string_view text) {
  if (text == "none") return Recipe::kNone;
  if (text == "fast") return Recipe::kFast;
  if (text == "balanced") return Recipe::kBalanced;
  if (text == "best") return Recipe::kBest;
  return std::nullopt;
}

Result<RecipeReport> QuantizeByRecipe(Graph& g, const Samples& samples, const Backend& backend,
                                      const RecipeOptions& options) {
  if (options.recipe == Recipe::kNone) {
    RecipeReport report;
    INFER_ASSIGN(report.quantization, QuantizeStatic(g, samples, backend, options.quantize));
    return report;
  }
  if (samples.count <= 0) return InvalidArgument("calibration: there are no samples");
  {
    INFER_ASSIGN(Graph prepared, PrepareStatic(g, options.quantize.prepare));
    StaticModel check{std::move(prepared), {}, options.quantize.scheme};
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(check.graph, g, options.quantize.scheme));
    if (plan.values.empty()) return RewriteStatic(check, g, 0).status();
  }
  const RecipeSplit split = SplitForRecipe(samples.count, samples.labels != nullptr);
  const Samples fit = Subset(samples, split.fit);
  HeldOut::Options held_options;
  held_options.threads = options.quantize.threads;
  held_options.stop = options.quantize.stop;
  held_options.costs = &options.costs;
  WorkClock clock(options.max_seconds);
  held_options.clock = &clock;
  INFER_ASSIGN(const HeldOut held,
               HeldOut::Make(g, Subset(samples, split.held), backend, held_options));
  // Prepared again, so that its weights are not held beside the golden program's.
  INFER_ASSIGN(Graph prepared, PrepareStatic(g, options.quantize.prepare));
  RecipeRunner runner(g, fit, held, backend, options, clock);
  INFER_TRY(runner.Start({std::move(prepared), {}, options.quantize.scheme}));
  INFER_TRY(runner.NarrowRanges());
  const bool best = options.recipe == Recipe::kBest;
  RecipeTarget target = options.target;
  if (best) {
    target.by_task = false;  // as near to FP32 as it gets, whatever the task bears
    target.flips /= 2;
    target.calm_db += kBestCalmDb;
  }
  if (options.recipe != Recipe::kFast) {
    std::vector<std::string> observers = {"percentile:99.99", "percentile:99.9"};
    if (best) observers.insert(observers.begin(), "percentile:99.999");
    INFER_TRY(runner.TryObservers(observers));
    INFER_TRY(runner.Equalize());
    INFER_TRY(runner.Smooth());
    INFER_TRY(runner.GroupColumns());
    INFER_TRY(runner.KeepFloat(target));
  }
  INFER_TRY(runner.CalibrateOnAll());
  if (best) INFER_TRY(runner.RoundWeights());
  INFER_TRY(runner.CorrectBias(false));
  if (best) INFER_TRY(runner.CorrectBias(true));
  if (options.recipe != Recipe::kFast) INFER_TRY(runner.StoreWeights(target));
  return runner.Finish(g, samples.count);
}

}  // namespace infer
