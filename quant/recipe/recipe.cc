#include "quant/recipe/recipe.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "quant/algorithm/reader_ranges.h"
#include "quant/recipe/recipe_runner.h"

namespace infer {
namespace {

constexpr int64_t kLeastSplit = 3;  // samples; of fewer all fit and judge
constexpr int64_t kTrialSamples = 200;
constexpr double kBestCalmDb = 4;        // of RecipeTarget::calm_db, for `best`
constexpr double kNothingToGain = 0.25;  // of RecipeTarget::max_drop
constexpr double kBesideRun = 1.5;       // observing and summing, beside a run that is observed

struct RecipeSplit {
  std::vector<int64_t> fit, held;
};

/// With one sample or two, both are all of them. With labels enough are held out, where there are,
/// that they tell of the task.
RecipeSplit SplitForRecipe(int64_t count, bool labelled) {
  RecipeSplit s;
  int64_t every = count < 40 ? 3 : 5;
  if (labelled && count >= 2 * RecipeTarget::kEnoughRows)
    every = std::min(every, count / RecipeTarget::kEnoughRows);
  for (int64_t i = 0; i < count; ++i) {
    const bool held = i % every == every - 1;
    if (count < kLeastSplit || held) s.held.push_back(i);
    if (count < kLeastSplit || !held) s.fit.push_back(i);
  }
  return s;
}

StaticModel CopyOf(const StaticModel& m) { return {m.graph.Clone(), m.ranges, m.scheme}; }

/// Plain static INT8 of a graph whose weights are pruned first.
Result<RecipeReport> QuantizePruned(Graph& g, const Samples& samples, const Backend& backend,
                                    const RecipeOptions& options) {
  if (samples.count <= 0) return InvalidArgument("calibration: there are no samples");
  const QuantizeOptions& q = options.quantize;
  StaticModel model{Graph(g.ops()), {}, q.scheme};
  INFER_ASSIGN(model.graph, PrepareStatic(g, q.prepare));
  WeightGrids grids;
  {
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(model.graph, g, model.scheme));
    if (plan.values.empty()) return RewriteStatic(model, g, 0).status();
    grids = GridsOf(plan, model.scheme);
  }
  INFER_TRY(options.prune(model.graph, g, grids, samples));
  INFER_ASSIGN(const QuantPlan plan, PlanQuantization(model.graph, g, model.scheme));
  INFER_ASSIGN(model.ranges,
               Calibrate(model.graph, ObservedValues(plan), samples, backend, CalibrationOf(q)));
  INFER_TRY(KeepUnseen(model.graph, g, model.ranges, model.scheme).status());
  INFER_ASSIGN(StaticResult r, RewriteStatic(model, g, samples.count));
  g = std::move(r.graph);
  RecipeReport report;
  report.quantization = std::move(r.report);
  if (options.keep_prepared) report.prepared.emplace(std::move(model.graph));
  return report;
}

RecipeTarget TargetOf(const RecipeOptions& options) {
  RecipeTarget target = options.target;
  if (options.recipe == Recipe::kBest) {
    // As near to FP32 as it gets, while the task has anything to gain by that.
    if (target.by_task && !target.asks_classes)
      target.enough_drop = target.max_drop * kNothingToGain;
    target.by_task = false;
    target.flips /= 2;
    target.calm_db += kBestCalmDb;
  }
  return target;
}

}  // namespace

Samples FirstOf(const Samples& samples, int64_t most) {
  Samples first = samples;
  first.count = std::min(samples.count, most);
  return first;
}

RecipeRunner::RecipeRunner(const Graph& original, const Samples& all, const HeldOut& held,
                           const Backend& backend, const RecipeOptions& options, WorkClock& clock)
    : original_(original),
      all_(all),
      fit_(FirstOf(all, kTrialSamples)),
      held_(held),
      options_(options),
      target_(TargetOf(options)),
      clock_(clock) {
  run_.backend = &backend;
  run_.threads = options.quantize.threads;
  run_.stop = options.quantize.stop;
}

void RecipeRunner::SpendRuns(int64_t runs) {
  clock_.Spend(kBesideRun * static_cast<double>(runs) * 1e-6 *
               std::max(error_.us, report_.fused.us));
}

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
  const bool is_ours = options_.costs.runtime == CostsOf::kOurs;
  const RewriteFor as_fuse_writes = is_ours ? RewriteFor::kAll : RewriteFor::kOnnxRuntime;
  {
    Graph fused = original_.Clone();
    if (options_.quantize.prepare) INFER_TRY(Optimize(fused, {.reader = as_fuse_writes}).status());
    INFER_ASSIGN(report_.fused, held_.CostOf(fused));
  }
  if (options_.elsewhere) {
    Graph plain = original_.Clone();
    if (options_.quantize.prepare)
      INFER_TRY(Optimize(plain, {.reader = RewriteFor::kPlain}).status());
    INFER_ASSIGN(report_.fused.elsewhere_us, held_.ElsewhereMicroseconds(plain));
  }
  // Blocks that hide the weights of their layers leave nothing to store in 8 bits.
  OptimizeOptions visible;
  // FusedConv has no weights that could be stored, and ONNX Runtime makes it itself.
  visible.reader = is_ours ? RewriteFor::kAll : RewriteFor::kPlain;
  visible.disable = {"fuse-mlp", "fuse-squeeze-excite", "fuse-dense-squeeze-excite"};
  fused_ = original_.Clone();
  if (options_.quantize.prepare) INFER_TRY(Optimize(fused_, visible).status());
  report_.weighed = !is_ours || run_.backend->name() == "cpu" || options_.always_weigh;
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

Result<RecipeReport> RecipeRunner::Finish(Graph& g, int64_t samples) {
  fused_ = Graph(original_.ops());
  INFER_ASSIGN(StaticResult r, RewriteStatic(model_, original_, samples));
  report_.quantization = std::move(r.report);
  report_.fit_samples = all_.count;
  report_.held_out_samples = held_.count();
  report_.is_held_out = all_.count + held_.count() <= samples;
  INFER_ASSIGN(const double elsewhere_us, held_.ElsewhereMicroseconds(r.graph));
  report_.cost = {error_.us, EstimatedFileBytes(r.graph), elsewhere_us};
  report_.held_out_db = Decibels(error_.worst);
  report_.seconds = Seconds();
  report_.work_seconds = clock_.seconds();
  if (OutOfTime())
    report_.quantization.warnings.push_back(
        Cat("the recipe's work (", options_.max_seconds,
            " s by the cost table) was done before its last step"));
  g = std::move(r.graph);
  if (options_.keep_prepared) report_.prepared.emplace(std::move(model_.graph));
  return std::move(report_);
}

std::optional<Recipe> ParseRecipe(std::string_view text) {
  if (text == "none") return Recipe::kNone;
  if (text == "fast") return Recipe::kFast;
  if (text == "balanced") return Recipe::kBalanced;
  if (text == "best") return Recipe::kBest;
  return std::nullopt;
}

Result<RecipeReport> QuantizeByRecipe(Graph& g, const Samples& samples, const Backend& backend,
                                      const RecipeOptions& options) {
  if (options.recipe == Recipe::kNone && options.prune)
    return QuantizePruned(g, samples, backend, options);
  if (options.recipe == Recipe::kNone) {
    RecipeReport report;
    if (options.keep_prepared) {
      INFER_ASSIGN(Graph prepared, PrepareStatic(g, options.quantize.prepare));
      report.prepared.emplace(std::move(prepared));
    }
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
  held_options.reader = options.reader;
  held_options.elsewhere = options.elsewhere;
  WorkClock clock(options.max_seconds);
  held_options.clock = &clock;
  INFER_ASSIGN(const HeldOut held,
               HeldOut::Make(g, Subset(samples, split.held), backend, held_options));
  // Prepared again, so that its weights are not held beside the golden program's.
  INFER_ASSIGN(Graph prepared, PrepareStatic(g, options.quantize.prepare));
  RecipeRunner runner(g, fit, held, backend, options, clock);
  if (samples.count < kLeastSplit) runner.FitToHeldOut();
  INFER_TRY(runner.Start({std::move(prepared), {}, options.quantize.scheme}));
  INFER_TRY(runner.RunSteps());
  return runner.Finish(g, samples.count);
}

}  // namespace infer
