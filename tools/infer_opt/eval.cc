/// infer-opt eval: top-1 and top-5 of one model on labelled data, or perplexity on text, and its
/// gates beside a golden one.
#include <algorithm>
#include <cmath>
#include <map>

#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/accuracy/compare.h"
#include "quant/accuracy/metrics.h"
#include "quant/accuracy/paired.h"
#include "quant/calibrate/calibrate.h"
#include "tools/common/cost_gates.h"
#include "tools/common/data_options.h"
#include "tools/common/drift_file.h"
#include "tools/common/guilt.h"
#include "tools/common/model_options.h"
#include "tools/common/report.h"
#include "tools/common/verification.h"
#include "tools/infer_opt/commands.h"
#include "tools/infer_opt/eval/drift_check.h"

namespace infer {
namespace {

struct Score {
  int64_t samples = 0, top1 = 0, top5 = 0;
  int64_t one_below = 0, one_above = 0;  ///< best class beside the label
  std::map<int64_t, int64_t> labels;     ///< how often each stands
};

/// Counts the rows of `scores` whose label is their best, or among their five best.
Status AddScores(const Tensor& scores, std::span<const int64_t> labels, Score& score) {
  const Rows rows = RowsIn(scores.dims());
  if (rows.count != static_cast<int64_t>(labels.size()))
    return InvalidModel(
        Cat("output is ", ToString(scores.type()), ", but the run has ", labels.size(), " labels"));
  const std::vector<float> values = scores.ToFloats();
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t label = labels[static_cast<size_t>(r)];
    if (label < 0 || label >= rows.width)
      return InvalidModel(Cat("label ", label, ", but the output has ", rows.width, " classes"));
    const auto row = std::span<const float>(values).subspan(static_cast<size_t>(r * rows.width),
                                                            static_cast<size_t>(rows.width));
    const auto best = TopK(row, std::min<int64_t>(5, rows.width));
    ++score.samples;
    score.top1 += best[0] == label;
    score.one_below += best[0] == label - 1;
    score.one_above += best[0] == label + 1;
    ++score.labels[label];
    for (int64_t k : best) score.top5 += k == label;
  }
  return {};
}

class EvalCommand : public Command {
 public:
  std::string_view name() const override { return "eval"; }
  std::string_view help() const override {
    return "Accuracy of a classifier on labelled data, perplexity of a language model on tokens";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt eval model.onnx --data images --labels labels.csv "
           "--preprocess crop=224,scale=1/255,layout=nchw\n"
           "  infer-opt eval decoder.onnx --data tokens.npz\n"
           "  infer-opt eval int8.onnx --golden model.onnx --data x.npy --labels y.npy "
           "--max-drop 0.5% --max-size 0.3x --min-speedup 1.5x\n"
           "  infer-opt eval model.onnx --data calib --save-drift usual.json\n"
           "  infer-opt eval model.onnx --data today --drift-from usual.json\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "The ONNX model", true, PathUse::kRead);
    model_.Declare(o);
    device_.Declare(o);
    device_.DeclareCompute(o);
    data_.Declare(o, "", "Labelled samples; of a causal language model tokens alone");
    gates_.Declare(o);
    o.Section("Model");
    o.Value("--golden", &golden_, "The model that the gates compare with", PathUse::kRead);
    o.Value(
        "--drift-from DATA", &drift_from_,
        "Gate: inputs and outputs on --data come from where those on DATA (calibration samples, "
        "same --preprocess; or a .json of --save-drift) came from; needs no labels",
        PathUse::kRead);
    o.Value("--save-drift FILE", &save_drift_,
            "Keep figures of inputs and outputs on --data, for --drift-from later (.json)",
            PathUse::kWrite);
    o.Value("--output NAME", &output_, "Name of the output with the scores (default: the first)");
  }

  Result<ExitCode> Run(Context& context) override {
    if (!data_.given()) return InvalidArgument("--data is missing");
    INFER_TRY(gates_.Check());
    if (!save_drift_.empty() && !IsDriftFile(save_drift_))
      return InvalidArgument(Cat("--save-drift ", save_drift_, ": the name has to end with .json"));
    if (golden_.empty() && (gates_.any() || gates_.eval.given()))
      return InvalidArgument("gates on outputs compare with a golden model: --golden FILE");
    context.Step("import");
    INFER_ASSIGN(Model model, LoadModel(context, path_, model_));
    INFER_ASSIGN(size_t output, OutputIndex(model.graph));
    INFER_ASSIGN(auto data, OpenData(data_));
    const auto tokens = data->has_labels() ? std::nullopt : NextTokenOf(model.graph);
    const bool scored = data->has_labels() || tokens;
    if (!scored && drift_from_.empty() && save_drift_.empty())
      return InvalidArgument(
          Cat(data_.data,
              ": no labels (--labels); without them only perplexity of a language "
              "model, whose scores cover its table of tokens, can be told"));
    INFER_ASSIGN(Samples samples,
                 MakeSamples(data, model.graph, FirstSamples(*data, data_.max_samples)));
    context.Step("compile");
    INFER_TRY(TellCompute(context, device_));
    INFER_ASSIGN(auto program, CompileFor(model.graph, device_));
    INFER_ASSIGN(auto run, program->NewContext());
    context.Step("evaluate");
    Json report = NewReport(context, "infer-opt/eval@1");
    report["model"] = ToJson(model, path_);
    report["device"] = device_.device;
    report["compute"] = device_.compute;
    report["data"] = data_.data;
    if (tokens) {
      INFER_TRY(TellPerplexity(context, model.graph, *run, samples, report));
    } else if (scored) {
      INFER_TRY(TellTopClasses(context, *run, output, samples, report));
    } else {
      report["samples"] = samples.count;
    }
    if (!save_drift_.empty()) INFER_TRY(SaveDrift(context, model.graph, *run, samples));
    std::vector<GateResult> gates;
    if (!drift_from_.empty()) {
      INFER_ASSIGN(gates.emplace_back(), Drifted(context, model.graph, *run, samples, report));
    }
    INFER_ASSIGN(const GateVerdict verdict,
                 Gate(context, model, samples, std::move(gates), report));
    INFER_TRY(WriteReport(context, std::move(report)));
    return GateFlags::ExitOf(verdict);
  }

 private:
  Status TellTopClasses(Context& context, RunContext& run, size_t output, const Samples& samples,
                        Json& report) const {
    Score score;
    for (int64_t i = 0; i < samples.count; ++i) {
      INFER_ASSIGN(auto inputs, samples.get(i));
      INFER_ASSIGN(auto labels, samples.labels(i));
      INFER_TRY(RunInputs(run, inputs, context.stop()));
      INFER_TRY(AddScores(run.output(output).tensor(), labels, score)
                    .In(Cat(data_.labels.empty() ? data_.data : data_.labels, ": sample ", i)));
      context.Progress("evaluate", i + 1, samples.count);
    }
    const auto share = [&](int64_t n) {
      return static_cast<double>(n) / static_cast<double>(std::max<int64_t>(score.samples, 1));
    };
    const Interval interval = ClopperPearson(score.top1, score.samples);
    context.PrintLine(Cat("top-1  ", Fixed(100 * share(score.top1), 2), " %  (95 % interval ",
                          Fixed(100 * interval.lo, 2), " to ", Fixed(100 * interval.hi, 2), ")"));
    context.PrintLine(Cat("top-5  ", Fixed(100 * share(score.top5), 2), " %"));
    context.PrintLine(Cat("of ", score.samples, " samples"));
    INFER_TRY(WarnOfChance(context, score, interval, samples));
    report["samples"] = score.samples;
    report["top1"] = share(score.top1);
    report["top1_ci95"] = {interval.lo, interval.hi};
    report["top5"] = share(score.top5);
    return {};
  }

  /// InvalidArgument: a model that is not causal, or whose samples have less than two tokens.
  Status TellPerplexity(Context& context, const Graph& g, RunContext& run, const Samples& samples,
                        Json& report) const {
    const OutputSource source = [&](int64_t, const auto& inputs) -> Result<std::vector<Datum>> {
      INFER_TRY(RunInputs(run, inputs, context.stop()));
      return TakeOutputs(run, g.outputs().size());
    };
    INFER_ASSIGN(const auto task, CausalTask(g, source, samples));
    if (!task)
      return InvalidArgument(
          Cat(data_.data,
              ": no labels (--labels), and no perplexity: scores at a token know later "
              "tokens, or sequences have less than two"));
    PairedPerplexity found;
    for (int64_t i = 0; i < samples.count; ++i) {
      INFER_ASSIGN(const auto inputs, samples.get(i));
      INFER_ASSIGN(const auto outputs, source(i, inputs));
      const Tensor& scores = outputs[task->output].tensor();
      INFER_TRY(found.Add(*task, inputs, scores, scores).In(Cat(data_.data, ": sample ", i)));
      context.Progress("evaluate", i + 1, samples.count);
    }
    const auto interval = found.candidate_interval();
    context.PrintLine(Cat("perplexity  ", Rounded(found.candidate(), 5),
                          interval ? Cat("  (95 % interval ", Rounded(interval->lo, 4), " to ",
                                         Rounded(interval->hi, 4), ")")
                                   : "",
                          ", on ", found.tokens(), " tokens of ", found.sequences(), " sequences"));
    report["samples"] = samples.count;
    report["tokens"] = found.tokens();
    report["perplexity"] = JsonNumber(found.candidate());
    if (interval) report["perplexity_ci95"] = {JsonNumber(interval->lo), JsonNumber(interval->hi)};
    return {};
  }

  /// Accuracy that guessing would reach says something of the data, not of the model.
  static Status WarnOfChance(Context& context, const Score& score, const Interval& interval,
                             const Samples& samples) {
    int64_t most = 0;
    for (const auto& [label, count] : score.labels) most = std::max(most, count);
    if (score.labels.size() < 2 || score.samples < 10) return {};
    const double chance = static_cast<double>(most) / static_cast<double>(score.samples);
    if (interval.lo > chance) return {};
    std::string cause;
    constexpr int64_t kTimes = 3;  // as many as the label itself: no accident
    const int64_t beside = std::max(score.one_below, score.one_above);
    if (beside > kTimes * score.top1 && ClopperPearson(beside, score.samples).lo > chance) {
      cause = Cat("the labels count from ", score.one_below > score.one_above ? 1 : -1,
                  " where the model counts from 0");
    } else {
      INFER_ASSIGN(const auto inputs, samples.get(0));
      double largest = 0;
      for (const Datum& d : inputs)
        if (d.is_tensor() && !IsInteger(d.tensor().dtype()))
          for (int64_t i = 0; i < d.tensor().num_elements(); ++i)
            largest = std::max(largest, std::abs(d.tensor().At(i)));
      constexpr double kLargestScaled = 20;
      cause = largest > kLargestScaled
                  ? Cat("the inputs reach ", Rounded(largest, 3),
                        ", and models mostly want pixels scaled: --preprocess "
                        "scale=1/255,mean=..,std=..")
                  : "another order of channels (order=bgr), layout, mean, std or crop in "
                    "--preprocess, or labels of other classes";
    }
    context.Warn(Cat("top-1 is not above chance (", Fixed(100 * chance, 2),
                     " % by naming the commonest label always); the likely cause: ", cause));
    return {};
  }

  Result<GateResult> Drifted(Context& context, const Graph& g, RunContext& run,
                             const Samples& samples, Json& report) const {
    INFER_ASSIGN(auto reference, IsDriftFile(drift_from_) ? LoadDriftReference(drift_from_, g)
                                                          : Usual(context, g, run));
    INFER_ASSIGN(GateResult gate, CheckDrift(context, run, g.outputs().size(), std::move(reference),
                                             samples, report));
    gate.passed |= gate.inconclusive && gates_.allow_inconclusive;
    return gate;
  }

  /// Of the samples that --drift-from names.
  Result<std::shared_ptr<const engine::DriftReference>> Usual(Context& context, const Graph& g,
                                                              RunContext& run) const {
    DataFlags flags = data_;
    flags.data = drift_from_;
    flags.labels.clear();
    INFER_ASSIGN(const auto data, OpenData(flags));
    INFER_ASSIGN(const Samples samples,
                 MakeSamples(data, g, FirstSamples(*data, engine::DriftReference::kMostRows)));
    return DriftReferenceOf(context, g, run, samples);
  }

  Status SaveDrift(Context& context, const Graph& g, RunContext& run,
                   const Samples& samples) const {
    INFER_ASSIGN(const auto made, DriftReferenceOf(context, g, run, samples));
    INFER_TRY(WriteDriftReference(*made, save_drift_));
    context.PrintLine(
        Cat("wrote ", save_drift_, ": a drift reference of ",
            std::min<size_t>(static_cast<size_t>(samples.count), engine::DriftReference::kMostRows),
            " samples"));
    return {};
  }

  /// Passed without gates; `gates`: what was judged before.
  Result<GateVerdict> Gate(Context& context, const Model& model, const Samples& samples,
                           std::vector<GateResult> gates, Json& report) {
    const CostSide own{model.graph, model.info.file_bytes};
    if (golden_.empty()) {
      INFER_ASSIGN(const auto costs,
                   CheckCosts(context, gates_, device_, nullptr, own, samples, report));
      gates.insert(gates.end(), costs.begin(), costs.end());
    } else {
      context.Step("compare");
      INFER_ASSIGN(const Model golden, LoadModel(context, golden_, model_));
      report["golden"] = ToJson(golden, golden_);
      INFER_ASSIGN(const AccuracyReport accuracy,
                   CompareGraphs(context, golden.graph, model.graph, device_, samples, false));
      report["accuracy"] = ToJson(accuracy);
      context.Print("\n" + AccuracyText(accuracy, context.verbose));
      const auto outputs = CheckGates(accuracy, gates_.limits());
      gates.insert(gates.end(), outputs.begin(), outputs.end());
      if (!AllPassed(outputs))
        TellGuilty(context, Isolate(context, golden.graph, model.graph, device_, samples), accuracy,
                   report);
      const CostSide before{golden.graph, golden.info.file_bytes};
      INFER_ASSIGN(const auto costs,
                   CheckCosts(context, gates_, device_, &before, own, samples, report));
      gates.insert(gates.end(), costs.begin(), costs.end());
    }
    if (gates_.eval.given()) {
      INFER_ASSIGN(GateResult judged, JudgeByCommand(context, gates_.eval, golden_, path_, report));
      gates.push_back(std::move(judged));
    }
    if (gates.empty()) return GateVerdict::kPassed;
    context.Print("\n" + GateText(gates));
    report["gates"] = ToJson(gates);
    const GateVerdict verdict = VerdictOf(gates);
    report["passed"] = verdict == GateVerdict::kPassed;
    report["verdict"] = Name(verdict);
    return verdict;
  }

  Result<size_t> OutputIndex(const Graph& g) const {
    if (output_.empty()) return size_t{0};
    for (size_t i = 0; i < g.outputs().size(); ++i)
      if (g.outputs()[i]->name() == output_) return i;
    return InvalidArgument(Cat("--output ", output_, ": the model has no such output"));
  }

  std::string path_, output_, golden_, drift_from_, save_drift_;
  ModelOptions model_;
  DeviceOptions device_;
  DataFlags data_;
  GateFlags gates_;
};

}  // namespace

std::unique_ptr<Command> MakeEvalCommand() { return std::make_unique<EvalCommand>(); }

}  // namespace infer
