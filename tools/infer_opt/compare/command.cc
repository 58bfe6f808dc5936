/// infer-opt compare: a candidate model against a golden one, or one model against stored outputs.
#include <algorithm>
#include <set>

#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/cost_gates.h"
#include "tools/common/data_options.h"
#include "tools/common/golden_cache.h"
#include "tools/common/guilt.h"
#include "tools/common/input_values.h"
#include "tools/common/verification.h"
#include "tools/engines/outputs_of.h"
#include "tools/engines/python_files.h"
#include "tools/infer_opt/commands.h"
#include "tools/infer_opt/compare/bisect.h"
#include "tools/infer_opt/compare/nearer.h"

namespace infer {
namespace {

/// The operators of `g` that draw random numbers, those of its subgraphs with them.
void AddRandomOperators(const Graph& g, std::set<std::string>& names) {
  for (const auto& node : g.nodes()) {
    if (!node->def().deterministic) names.emplace(node->def().name);
    for (const auto& [name, sub] : node->subgraphs()) AddRandomOperators(*sub, names);
  }
}

class CompareCommand : public Command {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view help() const override {
    return "Compare a model with a golden model or with stored outputs";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt compare golden.onnx int8.onnx --data x.npy --labels y.npy --max-drop 0.5%\n"
           "  infer-opt compare model.onnx --reference model_dir\n"
           "  infer-opt compare golden.onnx int8.onnx --data x.npy --layers --min-sqnr 25\n"
           "  infer-opt compare golden.onnx bad.onnx --bisect --cut small\n"
           "  infer-opt compare model.onnx --against ort --python venv/bin/python\n"
           "\n"
           "Without a gate that of a rewrite holds: --max-error 0.001 (level 2: f16 0.005, bf16 "
           "0.04; --compute f16 0.005, bf16 0.04), all but floats equal.\n";
  }
  void Declare(Options& o) override {
    o.Positional("models", &paths_, "GOLDEN CANDIDATE, or one MODEL with --reference or --against",
                 true, PathUse::kRead);
    o.Value("--reference", &reference_, "Folder of test_data_set_k with stored inputs and outputs",
            PathUse::kRead);
    model_.Declare(o);
    device_.Declare(o);
    device_.DeclareCompute(o);
    data_.Declare(o, "", "Samples to compare on");
    gates_.Declare(o);
    o.Section("Options");
    o.Value("--runs", &random_runs_, "Without data: compare on so many random inputs", 1);
    o.Value("--seed", &seed_, "Seed of random inputs");
    o.Flag("--layers", &layers_, "Also compare what lies between: each layer alone and all so far");
    o.Value("--layer-samples", &layer_samples_, "Layers and --bisect run on so many first samples",
            1);
    o.Value("--layer-time", &isolate_.budget_s,
            "Seconds for the runs in which one layer alone is the candidate's");
    o.Value("--golden-cache", &cache_, "Folder in which the golden model's outputs are kept",
            PathUse::kWriteFolder);
    o.Choice("--against", &against_, {"", "ort"},
             "ort: of one MODEL, ONNX Runtime's outputs are golden; of two, it runs CANDIDATE");
    o.Value("--python", &python_, "The Python that has ONNX Runtime");
    o.Flag("--bisect", &bisect_, "Find the smallest set of layers that breaks the gates");
    o.Value("--cut", &cut_, "Folder for those layers as a small model with its inputs",
            PathUse::kWriteFolder);
  }

  Result<ExitCode> Run(Context& context) override {
    INFER_TRY(CheckOptions());
    context.Step("import");
    INFER_ASSIGN(candidate_, LoadModelKept(context, paths_.back()));
    Json report = NewReport(context, "infer-opt/compare@1");
    report["candidate"] = ToJson(*candidate_, paths_.back());
    INFER_TRY(reference_.empty() ? OpenSamples(context, report) : OpenStored(report));
    WarnOfRandomNumbers(context);
    context.Step("compare");
    INFER_TRY(TellCompute(context, device_));
    INFER_ASSIGN(const AccuracyReport accuracy, CompareAll(context, report));
    for (const std::string& w : accuracy.warnings) context.Warn(w);

    GateLimits limits = gates_.limits();
    const bool own_gate = gates_.any() || gates_.size() || gates_.speedup() || gates_.eval.given();
    if (!own_gate) limits.max_error_ratio = Tolerance(candidate_->graph);
    std::vector<GateResult> gates;
    if (own_gate) {
      gates = CheckGates(accuracy, limits);
    } else {
      INFER_ASSIGN(gates, RewriteGates(context, accuracy, *limits.max_error_ratio, report));
    }
    const bool accurate = AllPassed(gates);
    INFER_ASSIGN(const auto costs, Costs(context, report));
    gates.insert(gates.end(), costs.begin(), costs.end());
    if (gates_.eval.given()) {
      INFER_ASSIGN(GateResult judged,
                   JudgeByCommand(context, gates_.eval, paths_.front(), paths_.back(), report));
      gates.push_back(std::move(judged));
    }
    const GateVerdict verdict = VerdictOf(gates);
    report["device"] = device_.device;
    report["compute"] = device_.compute;
    report["accuracy"] = ToJson(accuracy);
    report["gates"] = ToJson(gates);
    report["passed"] = verdict == GateVerdict::kPassed;
    report["verdict"] = Name(verdict);
    context.Print(AccuracyText(accuracy, context.verbose) + "\n");
    INFER_TRY(Blame(context, accuracy, accurate, GateText(gates), report));
    if (!accurate && !golden_ && !against_.empty()) INFER_TRY(TellNearer(context, report));
    if (!accurate && !own_gate)
      context.Note(
          "the gate is that of a rewrite; for a quantized or pruned model name one: --max-drop, "
          "--max-perplexity-rise, --min-sqnr, --min-agreement or --max-error");
    if (bisect_) {
      context.Step("bisect");
      BreakOptions o;
      o.limits = limits;
      o.exact = !own_gate;
      o.next_token = next_token_;
      o.runs = isolate_;
      o.runs.threads = device_.threads;
      o.runs.stop = context.stop();
      if (limits.max_drop || limits.max_perplexity_rise) o.runs.samples = samples_.count;
      INFER_TRY(BisectLayers(context, {*golden_, *candidate_, samples_, device_, o, cut_}, report));
    }
    INFER_TRY(WriteReport(context, std::move(report)));
    return GateFlags::ExitOf(verdict);
  }

 private:
  Status CheckOptions() {
    const bool one = paths_.size() == 1;
    const bool otherwise = !reference_.empty() || !against_.empty();  // golden is no second file
    if (paths_.size() > 2 || (one && !otherwise) || (!one && !reference_.empty()))
      return InvalidArgument(
          "give GOLDEN and CANDIDATE, or one MODEL with --reference or --against");
    if (one && !reference_.empty() && !against_.empty())
      return InvalidArgument("--reference and --against both say what is golden");
    if (one && gates_.eval.given())
      return InvalidArgument("--eval-command compares two models: GOLDEN and CANDIDATE");
    if (one && (bisect_ || layers_ || !cache_.empty()))
      return InvalidArgument("--bisect, --layers and --golden-cache need a golden model");
    if (bisect_ && device_.computes() != Compute::kF32)
      return InvalidArgument("--bisect finds faults of f32: leave --compute out");
    if (!cut_.empty() && !bisect_) return InvalidArgument("--cut FOLDER goes with --bisect");
    isolate_.samples = layer_samples_;
    return gates_.Check();
  }

  Result<std::unique_ptr<Model>> LoadModelKept(Context& context, const std::string& path) {
    INFER_ASSIGN(Model m, LoadModel(context, path, model_));
    return std::make_unique<Model>(std::move(m));
  }

  /// Level 2 rounds halves where values leave a chain, the golden run after every operator: ten
  /// units of their rounding, as for peers.
  double Tolerance(const Graph& g) const {
    if (device_.computes() != Compute::kF32) return ToleranceOf(device_.computes());
    return device_.level >= 2 ? RewriteTolerance(g) : kRewriteTolerance;
  }

  /// Those of a rewrite; of two graphs that we run also from code to code.
  Result<std::vector<GateResult>> RewriteGates(Context& context, const AccuracyReport& accuracy,
                                               double tolerance, Json& report) const {
    if (golden_ && against_.empty() && device_.computes() == Compute::kF32) {
      INFER_ASSIGN(RewriteJudgement judged, JudgeRewrite(context, golden_->graph, candidate_->graph,
                                                         device_, samples_, accuracy, tolerance));
      if (judged.codes) report["codes"] = ToJson(*judged.codes);
      return std::move(judged.gates);
    }
    std::vector<GateResult> gates = CheckGates(accuracy, {.max_error_ratio = tolerance});
    AddExactnessGates(accuracy, gates);
    return gates;
  }

  /// Golden's outputs: of its graph, or of another engine that runs the one model there is.
  Status OpenSamples(Context& context, Json& report) {
    SetLaneBudget(device_.threads > 0 ? device_.threads : AvailableCores());
    INFER_ASSIGN(backend_, MakeBackend(device_.device));
    if (paths_.size() == 2) {
      INFER_ASSIGN(golden_, LoadModelKept(context, paths_.front()));
      report["golden"] = ToJson(*golden_, paths_.front());
    }
    const Graph& g = golden_ ? golden_->graph : candidate_->graph;
    if (data_.given()) {
      INFER_ASSIGN(auto data, OpenData(data_));
      INFER_ASSIGN(samples_, MakeSamples(data, g, FirstSamples(*data, data_.max_samples)));
    } else {
      INFER_ASSIGN(const auto run, RunsOf(g, *backend_, 0, device_.threads, context.stop()));
      INFER_ASSIGN(RandomRuns found,
                   RandomSamples(context, g, random_runs_, seed_,
                                 [&](const std::vector<Datum>& inputs) { return run(0, inputs); }));
      samples_ = std::move(found.samples);
      report["extents"] = found.extents;
    }
    if (!golden_) {
      INFER_ASSIGN(golden_outputs_, OfEngine(context, g, report));
    } else if (!cache_.empty()) {
      golden_outputs_ = CachedGolden(cache_, g, device_, context.stop(), counts_);
    } else {
      INFER_ASSIGN(golden_outputs_, RunsOf(g, *backend_, 0, device_.threads, context.stop()));
    }
    return {};
  }

  /// Outputs that another runtime computed have random numbers of its own.
  void WarnOfRandomNumbers(Context& context) const {
    if (against_.empty() && reference_.empty()) return;
    std::set<std::string> names;
    AddRandomOperators(candidate_->graph, names);
    if (names.empty()) return;
    context.Warn(Cat("the model draws random numbers (", Join(names, ", "),
                     "): each runtime draws others, so that outputs which depend on them differ"));
  }

  /// --against: the last model as that engine runs it.
  Result<OutputSource> OfEngine(Context& context, const Graph& g, Json& report) {
    peers::EngineRequest request{.engine = against_, .python = python_, .model = paths_.back()};
    request.threads = device_.threads > 0 ? device_.threads : AvailableCores();
    request.stop = context.stop();
    INFER_ASSIGN(peers::EngineOutputs engine, peers::OutputsOf(request, g));
    report["against"] = {{"engine", against_},
                         {"versions", engine.versions},
                         {"side", golden_ ? "candidate" : "golden"}};
    told_ = engine.told;
    return engine.outputs;
  }

  /// What the engine of --against told while it ran.
  void TellEngine(Context& context, Json& report) const {
    if (!told_) return;
    report["against"]["settings"] = told_->settings;
    Json left_out = Json::array();
    for (const auto& [name, why] : told_->left_out) {
      left_out.push_back({{"name", name}, {"reason", why}});
      context.Warn(Cat("output '", Printable(name), "' is not compared: ", why));
    }
    report["against"]["left_out"] = std::move(left_out);
  }

  /// Which of the two runtimes that disagree on the one model is nearer to the reference kernels.
  Status TellNearer(Context& context, Json& report) const {
    const Graph& g = candidate_->graph;
    context.Step("reference kernels");
    INFER_ASSIGN(const OutputSource ours, RunsOf(g, *backend_, device_.level, device_.threads,
                                                 context.stop(), device_.computes()));
    INFER_ASSIGN(const auto distance,
                 CompareWithReference(g, ours, golden_outputs_, samples_, context.stop()));
    if (!distance) return {};
    report["against"]["from_reference"] = {{"ours", distance->ours}, {"theirs", distance->theirs}};
    context.PrintLine(Cat("from the reference kernels, on the first sample: ", device_.device, " ",
                          Rounded(distance->ours, 2), ", ", against_, " ",
                          Rounded(distance->theirs, 2), " of the largest output"));
    return {};
  }

  Status OpenStored(Json& report) {
    INFER_ASSIGN(sets_, FindTestSets(reference_));
    report["reference"] = sets_;
    SetLaneBudget(device_.threads > 0 ? device_.threads : AvailableCores());
    INFER_ASSIGN(backend_, MakeBackend(device_.device));
    const auto read = [this](int64_t i) {
      return ReadTestSet(sets_[static_cast<size_t>(i)], candidate_->graph);
    };
    samples_.count = static_cast<int64_t>(sets_.size());
    samples_.get = [read](int64_t i) -> Result<std::vector<Datum>> {
      INFER_ASSIGN(TestSet set, read(i));
      return std::move(set.inputs);
    };
    golden_outputs_ = [read](int64_t i, const std::vector<Datum>&) -> Result<std::vector<Datum>> {
      INFER_ASSIGN(TestSet set, read(i));
      return std::move(set.outputs);
    };
    return {};
  }

  Result<AccuracyReport> CompareAll(Context& context, Json& report) {
    CompareOptions o;
    o.layer_samples = layer_samples_;
    o.candidate_level = device_.level;
    o.candidate_compute = device_.computes();
    o.threads = device_.threads;
    o.stop = context.stop();
    o.progress = [&](int64_t done, int64_t total) { context.Progress("compare", done, total); };
    const Graph& c = candidate_->graph;
    if (golden_) INFER_TRY(CheckInterfaces(golden_->graph, c));
    OutputSource ours;
    if (golden_ && !against_.empty()) {
      INFER_ASSIGN(ours, OfEngine(context, c, report));
    } else {
      INFER_ASSIGN(ours, RunsOf(c, *backend_, device_.level, device_.threads, context.stop(),
                                device_.computes()));
    }
    const Graph& interface = golden_ ? golden_->graph : c;
    // Stored outputs answer no other inputs.
    INFER_ASSIGN(next_token_,
                 CausalTask(interface, sets_.empty() ? golden_outputs_ : ours, samples_));
    o.next_token = next_token_;
    auto compared = CompareSources(golden_outputs_, ours, interface, samples_, o);
    TellEngine(context, report);
    INFER_ASSIGN(AccuracyReport accuracy, std::move(compared));
    if (layers_)
      INFER_TRY(AddLayers(golden_->graph, *backend_, c, *backend_, samples_, o, accuracy));
    if (!cache_.empty()) {
      report["golden_cache"] = {
          {"path", cache_}, {"hits", counts_.hits}, {"misses", counts_.misses}};
      context.PrintLine(Cat("golden outputs: ", counts_.hits, " from ", cache_, ", ",
                            counts_.misses, " computed"));
    }
    return accuracy;
  }

  Result<std::vector<GateResult>> Costs(Context& context, Json& report) {
    const CostSide candidate{candidate_->graph, candidate_->info.file_bytes};
    if (!golden_) return CheckCosts(context, gates_, device_, nullptr, candidate, samples_, report);
    const CostSide golden{golden_->graph, golden_->info.file_bytes};
    return CheckCosts(context, gates_, device_, &golden, candidate, samples_, report);
  }

  /// Layers one by one: asked for, or to say who is to blame. Prints the gates between.
  Status Blame(Context& context, const AccuracyReport& accuracy, bool accurate,
               const std::string& gates, Json& report) {
    std::vector<IsolatedLayer> isolated;
    if (golden_ && (!accurate || layers_)) {
      context.Step("isolate layers");
      isolated = Isolate(context, golden_->graph, candidate_->graph, device_, samples_, isolate_);
    }
    if (layers_) {
      report["isolated"] = ToJson(isolated, accuracy);
      if (!isolated.empty()) context.Print(LayersText(isolated, accuracy) + "\n");
    }
    context.Print(gates);
    if (!accurate) TellGuilty(context, isolated, accuracy, report);
    return {};
  }

  std::vector<std::string> paths_, sets_;
  std::string reference_, cache_, cut_, against_, python_ = peers::DefaultPython();
  ModelOptions model_;
  DeviceOptions device_;
  DataFlags data_;
  GateFlags gates_;
  IsolateOptions isolate_;
  int64_t random_runs_ = 3, layer_samples_ = 8;
  uint64_t seed_ = 0;
  bool layers_ = false, bisect_ = false;

  std::unique_ptr<Model> golden_, candidate_;
  std::unique_ptr<Backend> backend_;
  Samples samples_;
  CacheCounts counts_;
  OutputSource golden_outputs_;
  std::shared_ptr<const peers::EngineOutputs::Told> told_;  ///< of --against
  std::optional<NextToken> next_token_;
};

}  // namespace

std::unique_ptr<Command> MakeCompareCommand() { return std::make_unique<CompareCommand>(); }

}  // namespace infer
