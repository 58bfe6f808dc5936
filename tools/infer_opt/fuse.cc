/// infer-opt fuse: simplify and fuse a model, prove it against the model as it came, write it.
#include <algorithm>

#include "lib/onnx/export.h"
#include "lib/support/parallel.h"
#include "lib/support/path_parts.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "passes/rewrite/bisect.h"
#include "tools/common/accuracy_report.h"
#include "tools/common/backend_values.h"
#include "tools/common/export_options.h"
#include "tools/common/rule_files.h"
#include "tools/common/verification.h"
#include "tools/graph/graph_page.h"
#include "tools/infer_opt/commands.h"
#include "tools/infer_opt/fuse/analysis.h"
#include "tools/infer_opt/fuse/measure.h"
#include "tools/infer_opt/fuse/report.h"
#include "tools/infer_opt/fuse/rewrite.h"

namespace infer {
namespace {

class FuseCommand : public Command {
 public:
  std::string_view name() const override { return "fuse"; }
  std::string_view help() const override {
    return "Simplify and fuse a model; every rewrite is checked";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt fuse model.onnx -o fused.onnx\n"
           "  infer-opt fuse model.onnx -o fused.onnx --disable 'fuse-gelu*' --json fuse.json\n"
           "  infer-opt fuse model.onnx --analyze --near-misses\n"
           "  infer-opt fuse model.onnx --analyze --explain 'fuse-layernorm@/encoder/*'\n"
           "  infer-opt fuse model.onnx -o fused.onnx --measure --threads 1\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "The ONNX model (not needed for --list)", false, PathUse::kRead);
    export_.Declare(o);
    model_.DeclareForWriter(o);
    o.Section("Rewriting");
    o.Choice("--rewrites", &rewrites_, {kLevelNames.begin(), kLevelNames.end()},
             "simplify: the same operators, fewer of them; fuse: also fused layers; blocks: also "
             "attention, feed-forward nets, skip connections");
    o.Values("--rules FILE", &rule_files_, "Also rules of these files (docs/rules.md)",
             PathUse::kRead);
    o.Values("--patterns RULES", &options_.only, "Only rules of these names (globs)");
    o.Values("--disable RULES", &options_.disable, "Not these rules (globs)");
    o.Flag("--list", &list_, "List the rules and end");
    o.Rarely();
    o.Value("--level", &level_, "The same as a number: 0 none, ... 3 blocks; -1: as --rewrites",
            -1);
    o.Value("--fold-budget", &options_.max_fold_growth_bytes,
            "Bytes that folding one node may add to the constants; the report says what it left",
            options_.max_fold_growth_bytes);
    o.Value("--stop-after", &options_.stop_after, "Stop after so many rewrites; -1: never", -1);
    o.Section("Questions");
    o.Flag("--analyze", &analyze_, "Show what rewriting is worth by prediction; write nothing");
    o.Values("--explain", &options_.explain, "RULE or RULE@NODE: say why it did not match");
    o.OptionalValue("--near-misses", &near_misses_text_, "10",
                    "Show regions that almost matched; --near-misses=N: at most N");
    o.Flag("--bisect", &bisect_,
           "Find the first rewrite after which outputs leave the tolerance; write nothing");
    o.Flag("--measure", &measure_,
           "Time every rule on --device; leave out those that make it slower");
    o.Value("--graph", &graph_,
            "Write a picture of what changed: a page (.html) or an image (.svg)", PathUse::kWrite);
    o.Section("Checks");
    o.Flag("--no-verify", &no_verify_, "Do not compare with the model as it came");
    o.Flag("--no-match-check", &no_match_check_, "Do not check every match alone, too");
    o.Flag("--keep-failed", &keep_failed_, "Write the model even if the check fails");
    o.Rarely();
    o.Value("--runs", &runs_, "Without data: check on so many random inputs", 1);
    o.Value("--seed", &seed_, "Seed of random inputs");
    data_.Declare(o, "", "Samples to check on");
    device_.device = "cpu";
    device_.level = 0;  // what is judged is the rewritten graph, node by node
    o.Section("Running");
    DeclareDevice(o, &device_.device, "Where to check and to measure");
    o.Value("--threads", &device_.threads, "Threads of both; 0: the usable physical cores");
  }

  Result<ExitCode> Run(Context& context) override {
    INFER_ASSIGN(const std::vector<UserRule> user_rules, LoadRules(rule_files_, context.ops()));
    for (const UserRule& r : user_rules) options_.extra_rules.push_back(r.rule);
    if (list_) return List(context);
    if (level_ > kMaxLevel)
      return InvalidArgument(Cat("--level: ", level_, " is not in 0..", kMaxLevel));
    const auto word = std::find(kLevelNames.begin(), kLevelNames.end(), rewrites_);
    options_.level = level_ >= 0 ? level_ : static_cast<int>(word - kLevelNames.begin());
    if (path_.empty()) return InvalidArgument("model is required");
    if (!graph_.empty()) INFER_TRY(CheckGraphPath(graph_));
    if (!near_misses_text_.empty()) {
      const auto n = ParseInt(near_misses_text_);
      if (!n || *n < 1)
        return InvalidArgument(Cat("--near-misses: no number: ", near_misses_text_));
      near_misses_ = *n;
    }
    const bool writes = !analyze_ && !bisect_;
    if (export_.output.empty() && writes)
      return InvalidArgument("-o FILE is missing (or --analyze, --bisect)");
    if (analyze_ && device_.device != DeviceOptions().device)
      return Unsupported(Cat("--analyze predicts for the ", DeviceOptions().device,
                             " alone, not for ", device_.device, ": --measure times on it"));
    if (bisect_ && no_verify_) return InvalidArgument("--bisect checks; --no-verify does not");
    INFER_TRY(export_.Check(context));
    options_.reader = export_.Reader();
    context.Step("import");
    INFER_ASSIGN(Model model, LoadModel(context, path_, model_));
    if (writes) INFER_TRY(export_.CheckBefore(model));
    INFER_ASSIGN(const Graph golden, WithShapes(model.graph, model_));
    Samples samples;
    Json extents = Json::object();
    if (!no_verify_ || measure_) {
      context.Step("golden");
      INFER_ASSIGN(std::shared_ptr<const Backend> backend, MakeBackend(device_.device));
      SetLaneBudget(device_.threads > 0 ? device_.threads : AvailableCores());
      options_.run_values = ValuesOn(std::move(backend), device_.threads, context.stop());
      INFER_TRY(FindBoundaries(golden));
      INFER_ASSIGN(samples, ChooseSamples(context, golden, extents));
      if (no_match_check_ || no_verify_) options_.captured.reset();
    }
    Json report = NewReport(context, "infer-opt/fuse@1");
    report["model"] = infer::ToJson(model, path_);
    report["extents"] = extents;
    report["device"] = device_.device;
    if (bisect_) return Bisect(context, model, samples, std::move(report));
    if (measure_) INFER_TRY(LeaveOutSlowRules(context, golden, samples, report));
    context.Step("fuse");
    const OptimizeOptions options = options_;
    INFER_ASSIGN(OptimizeReport done,
                 RewriteForFile(context, model, options, writes ? &export_ : nullptr));
    // Costs of dynamic shapes are those of extents that fit, so that they can be compared.
    const Graph static_before = WithFoundExtents(golden);
    INFER_ASSIGN(const Graph shaped, WithShapes(model.graph, model_));
    const Graph static_after = WithFoundExtents(shaped);
    done.before.cost = StatisticsOf(static_before).cost;
    done.after.cost = StatisticsOf(static_after).cost;
    context.Print(SummaryText(done));
    if (context.verbose) context.Print("\n" + PassText(done));
    report["optimize"] = ToJson(done, static_before, static_after);
    if (near_misses_ > 0) {
      const auto misses = NearMisses(model.graph, done.records, options);
      context.Print("\n" + ToText(misses));
      report["near_misses"] = ToJson(misses);
    }
    if (analyze_) {
      context.Step("analyze");
      INFER_ASSIGN(report["analysis"], Analyze(context, golden, options));
    }
    GraphPage page{.title = export_.output.empty() ? "fused" : BaseName(export_.output),
                   .graph = model.graph,
                   .before = &golden,
                   .before_title = BaseName(path_)};
    if (measure_) INFER_TRY(Measure(context, golden, model.graph, samples, page, report));
    if (!graph_.empty()) INFER_TRY(WriteGraph(graph_, page));
    bool passed = true;
    if (!no_verify_ && writes) {
      INFER_ASSIGN(passed, Verify(context, golden, model.graph, samples, report));
    }
    if (writes) {
      context.Step("target");
      INFER_ASSIGN(const bool fits, export_.Fits(context, model, report));
      passed = passed && fits;
    }
    report["passed"] = passed;
    if (writes && (passed || keep_failed_)) {
      context.Step("export");
      INFER_ASSIGN(ExportReport written, export_.Write(context, model));
      report["output"] = export_.Report(written);
      const int64_t bytes = written.file_bytes + written.external_bytes;
      if (bytes - model.info.file_bytes > FoldingBudget(done.before))
        context.Warn(Cat("the file grew from ", HumanBytes(model.info.file_bytes), " to ",
                         HumanBytes(bytes), ": constants take ",
                         HumanBytes(done.after.constant_bytes), " instead of ",
                         HumanBytes(done.before.constant_bytes)));
    } else if (!passed) {
      context.Note("not written, because the check failed (--keep-failed writes it)");
    }
    INFER_TRY(WriteReport(context, std::move(report)));
    return passed ? kExitOk : kExitGateFailed;
  }

 private:
  /// The data, or random inputs on which the golden model runs. The values of the first sample's
  /// run, node by node, go to options_: every match is checked alone on them.
  Result<Samples> ChooseSamples(Context& context, const Graph& golden, Json& extents) {
    if (data_.given()) {
      INFER_ASSIGN(auto data, OpenData(data_));
      INFER_ASSIGN(Samples samples,
                   MakeSamples(data, golden, FirstSamples(*data, data_.max_samples)));
      INFER_ASSIGN(auto inputs, samples.get(0));
      INFER_TRY(Capture(golden, inputs).status());
      return samples;
    }
    std::vector<Datum> captured;
    auto found =
        RandomSamples(context, golden, runs_, seed_, [&](const std::vector<Datum>& inputs) {
          captured = inputs;
          return Capture(golden, inputs);
        });
    if (found.status().code() == Code::kInvalidArgument)
      return found.status().In("the whole model cannot be checked (--no-verify does without)");
    if (!found.ok()) return found.status();
    // The last extents that were tried need not be the best.
    INFER_ASSIGN(const auto first, found->samples.get(0));
    if (ShapesOf(first) != ShapesOf(captured)) INFER_TRY(Capture(golden, first).status());
    extents = found->extents;
    run_extents_ = found->extents;
    return std::move(found->samples);
  }

  /// The values that matches begin and end at, as far as rewriting without checks tells: of a large
  /// model others would take gigabytes. Values that a check misses it computes.
  Status FindBoundaries(const Graph& golden) {
    boundaries_ = {};
    if (no_match_check_ || no_verify_) return {};
    Graph g = golden.Clone();
    BoundaryRecorder recorder;
    OptimizeOptions options = options_;
    options.verify_each = false;
    options.explain.clear();
    options.reviewers.push_back(&recorder);
    INFER_TRY(Optimize(g, std::move(options)).status());
    boundaries_ = recorder.names();
    return {};
  }

  Result<std::vector<Datum>> Capture(const Graph& golden, const std::vector<Datum>& inputs) {
    std::vector<Datum> outputs;
    INFER_ASSIGN(options_.captured, CapturedValues::Capture(golden, std::span(&inputs, 1), &outputs,
                                                            options_.run_values, &boundaries_));
    return outputs;
  }

  static std::vector<Dims> ShapesOf(const std::vector<Datum>& values) {
    std::vector<Dims> shapes;
    for (const Datum& d : values) shapes.push_back(d.is_tensor() ? d.tensor().dims() : Dims());
    return shapes;
  }

  Result<RewriteJudgement> Judge(Context& context, const Graph& golden, const Graph& fused,
                                 const Samples& samples, const AccuracyReport& accuracy) const {
    return JudgeRewrite(context, golden, fused, device_, samples, accuracy,
                        RewriteTolerance(golden));
  }

  /// The device that was named, with groups and epilogues as a run has them.
  DeviceOptions MeasuredOn() const {
    DeviceOptions measured;
    measured.device = device_.device;
    measured.threads = device_.threads;
    return measured;
  }

  Status LeaveOutSlowRules(Context& context, const Graph& golden, const Samples& samples,
                           Json& report) {
    context.Step("measure rules");
    INFER_ASSIGN(const auto inputs, samples.get(0));
    INFER_ASSIGN(const auto timings, ChooseRules(context, golden, options_, MeasuredOn(), inputs));
    context.Print(ToText(timings) + "\n");
    report["measured_rules"] = ToJson(timings);
    for (const RuleTiming& t : timings)
      if (!t.kept) options_.disable.push_back(t.rule);
    return {};
  }

  Status Measure(Context& context, const Graph& golden, const Graph& fused, const Samples& samples,
                 GraphPage& page, Json& report) {
    context.Step("measure");
    INFER_ASSIGN(const auto inputs, samples.get(0));
    INFER_ASSIGN(const auto before, CompileFor(golden, MeasuredOn()));
    INFER_ASSIGN(const auto after, CompileFor(fused, MeasuredOn()));
    INFER_ASSIGN(const PairTiming t, TimePair(*before, *after, inputs, context.stop()));
    context.Print("\n" + ToText(t));
    report["latency"] = ToJson(t);
    if (graph_.empty()) return {};
    INFER_ASSIGN(const NodeTimes before_ms, TimesByNode(*before, inputs, context.stop()));
    INFER_ASSIGN(const NodeTimes after_ms, TimesByNode(*after, inputs, context.stop()));
    page.before_overlay.AddSteps(*before);
    page.before_overlay.AddTimes(before_ms);
    page.overlay.AddSteps(*after);
    page.overlay.AddTimes(after_ms);
    return {};
  }

  Result<bool> Verify(Context& context, const Graph& golden, const Graph& fused,
                      const Samples& samples, Json& report) {
    context.Step("verify");
    INFER_ASSIGN(AccuracyReport accuracy,
                 CompareGraphs(context, golden, fused, device_, samples, false));
    INFER_ASSIGN(const RewriteJudgement judged, Judge(context, golden, fused, samples, accuracy));
    context.Print("\n" + AccuracyText(accuracy, context.verbose) + "\n" + GateText(judged.gates));
    report["accuracy"] = infer::ToJson(accuracy);
    report["gates"] = infer::ToJson(judged.gates);
    if (judged.codes) report["codes"] = infer::ToJson(*judged.codes);
    return AllPassed(judged.gates);
  }

  /// Rules that may have had a say.
  std::vector<NearMiss> NearMisses(const Graph& fused, const std::vector<MatchRecord>& records,
                                   const OptimizeOptions& options) const {
    const auto fits = [](const std::vector<std::string>& globs, const std::string& name) {
      return std::any_of(globs.begin(), globs.end(),
                         [&](const std::string& glob) { return GlobMatch(glob, name); });
    };
    const std::vector<ListedRule> listed = AllRules();
    std::vector<const Rule*> rules;
    for (const ListedRule& r : listed)
      if (r.level <= options.level && (!r.ort_only || options.reader == RewriteFor::kOnnxRuntime) &&
          !fits(options.disable, r.rule.name) &&
          (options.only.empty() || fits(options.only, r.rule.name)))
        rules.push_back(&r.rule);
    for (const Rule& r : options.extra_rules)
      if (!fits(options.disable, r.name)) rules.push_back(&r);
    return FindNearMisses(fused, rules, records, static_cast<size_t>(near_misses_));
  }

  /// A copy with extents that fit. A run knows more of them than inference does: that the length of
  /// a mask is that of the cache and the new tokens together.
  Graph WithExtentsThatFit(const Graph& golden) const {
    if (!run_extents_.empty())
      if (auto known = WithExtents(golden, run_extents_); known.ok()) return *std::move(known);
    Graph found = WithFoundExtents(golden);
    Graph tried = found.Clone();
    return Optimize(tried, {.level = kSimplifyLevel}).ok() ? std::move(found) : golden.Clone();
  }

  /// The worth of rewriting by prediction.
  Result<Json> Analyze(Context& context, const Graph& golden, OptimizeOptions options) const {
    Graph g = WithExtentsThatFit(golden);
    if (HasOpenDims(g))
      context.Warn(
          "extents that fit are not known without a run: nodes that have them count for "
          "nothing in the prediction; --set NAME=N says them");
    SetLaneBudget(device_.threads > 0 ? device_.threads : AvailableCores());
    const Roofline& roofline = MeasuredRoofline(LaneBudget());
    const int64_t program_bytes = StatisticsOf(g).constant_bytes;
    PricingReviewer prices(roofline, program_bytes);
    Analysis a{roofline, GraphFloorMs(g, roofline, program_bytes), 0, {}};
    options.captured.reset();  // checked already
    options.explain.clear();
    options.reviewers.push_back(&prices);
    INFER_TRY(Optimize(g, std::move(options)).status());
    a.after_ms = GraphFloorMs(g, roofline, program_bytes);
    a.found = prices.found();
    context.Print("\n" + ToText(a));
    return ToJson(a);
  }

  /// Which rewrite is the first after which the outputs leave the tolerance.
  Result<ExitCode> Bisect(Context& context, const Model& model, const Samples& samples,
                          Json report) {
    context.Step("bisect");
    std::vector<MatchRecord> records;  // of the longest run
    int64_t total = 0;
    const auto judge = [&](int64_t n) -> Result<BisectStep> {
      Graph g = model.graph.Clone();
      OptimizeOptions options = options_;
      options.stop_after = n;
      INFER_ASSIGN(OptimizeReport done, Optimize(g, std::move(options)));
      if (records.empty()) {
        records = std::move(done.records);
        total = done.rewrites;
        n = total;
      }
      INFER_ASSIGN(const AccuracyReport accuracy,
                   CompareGraphs(context, model.graph, g, device_, samples, false));
      INFER_ASSIGN(const RewriteJudgement judged,
                   Judge(context, model.graph, g, samples, accuracy));
      BisectStep step{n, AllPassed(judged.gates), 0};
      for (const ValueAccuracy& v : accuracy.outputs)
        step.error = std::max(step.error, v.is_float ? v.metrics.max_error_ratio
                                                     : static_cast<double>(v.metrics.unequal));
      return step;
    };
    // The first judgement is of all rewrites, and tells how many there are.
    const int64_t all = options_.stop_after >= 0 ? options_.stop_after : INT64_MAX;
    INFER_ASSIGN(const auto found, FindFirstBad(all, judge));
    Json& j = report["bisect"] = {{"rewrites", total}, {"first_bad", nullptr}};
    if (!found) {
      context.PrintLine(Cat("all ", total, " rewrites together are within the tolerance"));
    } else {
      int64_t applied = 0;
      const auto culprit = std::find_if(records.begin(), records.end(), [&](const MatchRecord& r) {
        return r.outcome == MatchRecord::Outcome::kApplied && ++applied == found->after.rewrites;
      });
      if (culprit == records.end()) return Internal("the rewrite is not on record");
      context.PrintLine(Cat("rewrite ", found->after.rewrites, " of ", total,
                            " is the first that breaks the model: ", culprit->rule, " at '",
                            Printable(culprit->at), "'"));
      context.PrintLine(Cat("  for ", Printable(Join(culprit->nodes, ", "))));
      context.PrintLine(Cat("  error ", Rounded(found->before.error, 3), " before, ",
                            Rounded(found->after.error, 3), " after; tolerance ",
                            FormatDouble(RewriteTolerance(model.graph)), "; ", found->tried,
                            " tries"));
      j["first_bad"] = {{"rewrite", found->after.rewrites},
                        {"rule", culprit->rule},
                        {"at", culprit->at},
                        {"nodes", culprit->nodes},
                        {"error_before", JsonNumber(found->before.error)},
                        {"error_after", JsonNumber(found->after.error)}};
    }
    report["passed"] = !found;
    INFER_TRY(WriteReport(context, std::move(report)));
    return found ? kExitGateFailed : kExitOk;
  }

  static Result<ExitCode> List(Context& context) {
    std::vector<std::vector<std::string>> rows = {{"rule", "rewrites", "what it does"}};
    for (const ListedRule& r : AllRules())
      rows.push_back({r.rule.name, kLevelNames[static_cast<size_t>(r.level)], r.rule.doc});
    context.Print(TextTable(rows));
    return kExitOk;
  }

  std::vector<std::string> rule_files_;
  std::string path_, graph_, rewrites_ = kLevelNames.back();
  OptimizeOptions options_;
  OpenExtents run_extents_;  ///< with which the golden model ran on random inputs
  ValueNames boundaries_;    // that matches begin and end at
  ExportFlags export_;
  ModelOptions model_;
  DeviceOptions device_;
  DataFlags data_;
  std::string near_misses_text_;
  bool no_verify_ = false, no_match_check_ = false, keep_failed_ = false, list_ = false;
  bool analyze_ = false, bisect_ = false, measure_ = false;
  int64_t near_misses_ = 0;
  int level_ = -1;
  int64_t runs_ = 3;
  uint64_t seed_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeFuseCommand() { return std::make_unique<FuseCommand>(); }

}  // namespace infer
