/// infer-opt compare: a candidate model against a golden one, or one model against stored outputs.
#include "quant/accuracy/compare.h"

#include <algorithm>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "tools/common/accuracy_report.h"
#include "tools/common/data_options.h"
#include "tools/common/input_values.h"
#include "tools/common/model_options.h"
#include "tools/common/roundoff.h"
#include "tools/common/verification.h"
#include "tools/infer_opt/commands.h"

namespace infer {
namespace {

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
           "  infer-opt compare golden.onnx fused.onnx --layers\n"
           "\n"
           "Without a gate that of a rewrite holds: --max-error 0.001 (level 2: f16 0.005, bf16 "
           "0.04), all "
           "but floats equal.\n";
  }
  void Declare(Options& o) override {
    o.Positional("models", &paths_, "GOLDEN CANDIDATE, or one MODEL with --reference", true,
                 PathUse::kRead);
    o.Value("--reference", &reference_, "Folder of test_data_set_k with stored inputs and outputs",
            PathUse::kRead);
    model_.Declare(o);
    device_.Declare(o);
    data_.Declare(o, "", "Samples to compare on");
    gates_.Declare(o);
    o.Value("--runs", &random_runs_, "Without data: compare on so many random inputs", 1);
    o.Value("--seed", &seed_, "Seed of random inputs");
    o.Flag("--layers", &layers_, "Also compare the values that both models have, by name");
  }

  Result<ExitCode> Run(Context& context) override {
    const size_t wanted = reference_.empty() ? 2 : 1;
    if (paths_.size() != wanted)
      return InvalidArgument(
          Cat("give ", reference_.empty() ? "GOLDEN and CANDIDATE" : "one MODEL with --reference"));
    context.Step("import");
    INFER_ASSIGN(Model candidate, LoadModel(context, paths_.back(), model_));
    context.Step("compare");
    Json report = NewReport(context, "infer-opt/compare@1");
    report["candidate"] = ToJson(candidate, paths_.back());
    Result<AccuracyReport> accuracy = reference_.empty() ? WithGolden(context, candidate, report)
                                                         : WithStored(context, candidate, report);
    if (!accuracy.ok()) return accuracy.status();
    GateLimits limits = gates_.limits();
    const bool own_gate =
        limits.max_drop || limits.min_sqnr_db || limits.min_agreement || limits.max_error_ratio;
    if (!own_gate) limits.max_error_ratio = Tolerance(candidate.graph);
    std::vector<GateResult> gates = CheckGates(*accuracy, limits);
    if (!own_gate) AddExactnessGates(*accuracy, gates);
    const bool passed = AllPassed(gates);
    report["device"] = device_.device;
    report["accuracy"] = ToJson(*accuracy);
    report["gates"] = ToJson(gates);
    report["passed"] = passed;
    context.Print(AccuracyText(*accuracy) + "\n" + GateText(gates));
    if (!passed && !own_gate)
      context.Note(
          "the gate is that of a rewrite; for a quantized or pruned model name one: --max-drop, "
          "--min-sqnr, --min-agreement or --max-error");
    INFER_TRY(WriteReport(context, std::move(report)));
    return passed ? kExitOk : kExitGateFailed;
  }

 private:
  /// Level 2 rounds halves where values leave a chain, the golden run after every operator: ten
  /// units of their rounding, as for peers.
  double Tolerance(const Graph& g) const {
    return device_.level >= 2 ? RewriteTolerance(g) : kRewriteTolerance;
  }

  Result<AccuracyReport> WithGolden(Context& context, const Model& candidate, Json& report) {
    INFER_ASSIGN(Model golden, LoadModel(context, paths_.front(), model_));
    report["golden"] = ToJson(golden, paths_.front());
    Samples samples;
    if (data_.given()) {
      INFER_ASSIGN(auto data, OpenData(data_));
      INFER_ASSIGN(samples,
                   MakeSamples(data, golden.graph, FirstSamples(*data, data_.max_samples)));
    } else {
      DeviceOptions by_node = device_;
      by_node.level = 0;
      INFER_ASSIGN(const auto program, CompileFor(golden.graph, by_node));
      INFER_ASSIGN(RandomRuns found, RandomSamples(context, golden.graph, random_runs_, seed_,
                                                   [&](const std::vector<Datum>& inputs) {
                                                     return RunOnce(*program, inputs);
                                                   }));
      samples = std::move(found.samples);
      report["extents"] = found.extents;
    }
    return CompareGraphs(context, golden.graph, candidate.graph, device_, samples, layers_);
  }

  Result<AccuracyReport> WithStored(Context& context, const Model& candidate, Json& report) {
    INFER_ASSIGN(auto paths, FindTestSets(reference_));
    report["reference"] = paths;
    Samples samples;
    samples.count = static_cast<int64_t>(paths.size());
    const auto read = [&](int64_t i) {
      return ReadTestSet(paths[static_cast<size_t>(i)], candidate.graph);
    };
    samples.get = [&](int64_t i) -> Result<std::vector<Datum>> {
      INFER_ASSIGN(TestSet set, read(i));
      return std::move(set.inputs);
    };
    const auto golden = [&](int64_t i) -> Result<std::vector<Datum>> {
      INFER_ASSIGN(TestSet set, read(i));
      return std::move(set.outputs);
    };
    SetLaneBudget(device_.threads > 0 ? device_.threads : AvailableCores());
    INFER_ASSIGN(auto backend, MakeBackend(device_.device));
    CompareOptions options;
    options.candidate_level = device_.level;
    options.threads = device_.threads;
    options.stop = context.stop();
    return CompareWithStored(golden, candidate.graph, *backend, samples, options);
  }

  std::vector<std::string> paths_;
  std::string reference_;
  ModelOptions model_;
  DeviceOptions device_;
  DataFlags data_;
  GateFlags gates_;
  int64_t random_runs_ = 3;
  uint64_t seed_ = 0;
  bool layers_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeCompareCommand() { return std::make_unique<CompareCommand>(); }

}  // namespace infer
