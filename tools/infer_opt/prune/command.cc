/// infer-opt prune: sets weights to zero, removes channels or splits products, compares the result
/// with the dense model on data that nothing was fitted to, and checks the gates.
#include <limits>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/prune/layers.h"
#include "quant/prune/prune.h"
#include "tools/common/compressed_size.h"
#include "tools/common/data_roles.h"
#include "tools/common/fine_tune_flags.h"
#include "tools/common/judgement.h"
#include "tools/common/sparsity_report.h"
#include "tools/infer_opt/commands.h"
#include "tools/infer_opt/prune/checkpoint.h"
#include "tools/infer_opt/prune/low_rank.h"
#include "tools/infer_opt/prune/report.h"
#include "tools/infer_opt/sparsity_flags.h"

namespace infer {
namespace {

/// In one row of five another class, or token, comes first.
constexpr double kUsefulAgreement = 0.8;

/// Of JsonNumber: text is NaN or an infinity.
double NumberOf(const Json& j) {
  if (j.is_number()) return j.get<double>();
  return j == "inf" ? std::numeric_limits<double>::infinity()
                    : -std::numeric_limits<double>::infinity();
}

class PruneCommand : public Command {
 public:
  std::string_view name() const override { return "prune"; }
  std::string_view help() const override {
    return "Set weights to zero, remove channels or split products, fine-tune what is left, and "
           "gate the accuracy";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt prune model.onnx -o sparse.onnx --sparsity 50% --calib c.npy --eval e.npy "
           "--eval-labels y.npy --max-drop 1%\n"
           "  infer-opt prune model.onnx -o sparse.onnx --nm 2:4 --data images --labels labels.csv "
           "--preprocess crop=224,scale=1/255,layout=nchw\n"
           "  infer-opt prune model.onnx -o sparse.onnx --blocks 1x4 --sparsity 60% --data x.npy\n"
           "  infer-opt prune model.onnx -o small.onnx --structured --flops 70% --calib c.npy "
           "--eval "
           "e.npy --eval-labels y.npy\n"
           "  infer-opt prune model.onnx -o small.onnx --structured --flops 70% --fine-tune-steps "
           "500 "
           "--calib c.npy --eval e.npy --eval-labels y.npy\n"
           "  infer-opt prune model.onnx -o small.onnx --low-rank --max-size 60% --calib c.npy "
           "--eval e.npy --eval-labels y.npy\n"
           "  infer-opt prune model.onnx -o sparse.onnx --sparsity 30%  (without data: by "
           "magnitude)\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "The FP32 ONNX model", true, PathUse::kRead);
    export_.Declare(o);
    model_.DeclareForWriter(o);
    device_.Declare(o);
    data_.Declare(o);
    o.Section("Pruning");
    channels_.Declare(o);
    low_rank_.Declare(o);
    o.Value("--sparsity", &sparsity_.sparsity,
            "So many of the weights, or blocks, become zero: 50%, or 2:4, which is --nm 2:4");
    o.Value("--nm", &nm_, "N:M, as 2:4: of each M weights along the inputs at most N stay");
    o.Value(
        "--blocks", &sparsity_.blocks,
        "RxC, as 1x4, 16x1 or 16x4: blocks of R outputs and C inputs become zero together. 16x1 is "
        "the fastest in f32, 16x4 the one that INT8 gains from");
    o.Choice(
        "--method", &method_, {"auto", "magnitude", "wanda", "sparsegpt"},
        "How weights are chosen; auto: the method with the least error on held-out samples, by "
        "layer");
    o.Choice("--allocation", &allocation_, {"auto", "measured", "uniform", "global", "lamp"},
             "How many zeros each layer gets, see below");
    o.Share("--spare", &spare_,
            "--nm with data: layers with so many of the weights together may stay dense");
    o.Value(
        "--checkpoint", &checkpoint_,
        "Keeps what each layer or group cost and became; the same command goes on from it after "
        "a kill. Not of --low-rank, which has --search-log",
        PathUse::kWrite);
    o.Values("--include", &include_, "Only these nodes: glob, re:REGEX or op:TYPE");
    o.Values("--exclude", &exclude_, "Not these nodes: glob, re:REGEX or op:TYPE");
    fine_tune_.Declare(o, "what is left");
    gates_.Declare(o);
    o.Section("Checks");
    o.Flag("--layers", &layers_, "Also compare inner values with the dense model");
    o.Flag("--no-verify", &no_verify_, "Do not compare with the dense model");
    o.Flag("--keep-failed", &keep_failed_, "Write the model even if a gate fails");
    o.Explain(
        "Allocations:\n"
        "  measured: by the error that each layer's zeros cause at the outputs (the default with "
        "data)\n"
        "  uniform: the same share of every layer\n"
        "  global: the least weights of all layers\n"
        "  lamp: the least weights of all layers, each beside the weights left in its layer (the "
        "default without data)\n");
  }

  Result<ExitCode> Run(Context& context) override {
    if (export_.output.empty()) return InvalidArgument("-o FILE is missing");
    INFER_TRY(export_.Check(context));
    INFER_TRY(gates_.Check());
    if (no_verify_) INFER_TRY(gates_.CheckNotMeasured());
    INFER_TRY(CheckWay());
    INFER_TRY(fine_tune_.Check());
    PruneOptions options;
    if (OfWeights()) {
      INFER_ASSIGN(options.pattern, Pattern());
    }
    INFER_TRY(Choose(context, options));
    context.Step("import");
    INFER_ASSIGN(Model model, LoadModel(context, path_, model_));
    INFER_TRY(export_.CheckBefore(model));
    INFER_ASSIGN(const Graph golden, WithShapes(model.graph, model_));
    Json report = NewReport(context, "infer-opt/prune@1");
    report["model"] = infer::ToJson(model, path_);
    INFER_TRY(data_.Split(golden, /*needed=*/false, no_verify_, report));
    INFER_TRY(fine_tune_.CheckData(golden, data_.calibration, context.stop()));
    INFER_TRY(TellWithoutData(context));
    INFER_ASSIGN(auto backend, MakeBackend(device_.device));
    if (!OfWeights() && device_.device != DeviceOptions().device)
      context.Warn(Cat("the gain of a layer is priced by the cost table of the CPU's kernels; ",
                       device_.device, " may gain less"));
    if (channels_.structured) {
      INFER_TRY(RemoveChannels(context, golden, model, *backend, options, report));
    } else if (low_rank_.low_rank) {
      INFER_TRY(SplitInTwo(context, golden, model, *backend, options, report));
    } else {
      INFER_ASSIGN(const auto kept, Checkpoint(context, golden, options, nullptr, report));
      options.store = kept.get();
      context.Step("prune");
      INFER_ASSIGN(const PruneReport done, PruneModel(model.graph, ToFit(), *backend, options));
      for (const std::string& w : done.warnings) context.Warn(w);
      report["pruning"] = infer::ToJson(done, options);
      context.Print(SummaryText(done, options));
    }
    if (const int64_t inner = LayersInBodies(model.graph); inner > 0)
      context.PrintLine(Cat(inner, inner == 1 ? " layer" : " layers",
                            " in bodies of If, Loop and Scan ",
                            inner == 1 ? "stays as it is" : "stay as they are"));
    INFER_TRY(Train(context, model.graph, golden, *backend, report));
    GateVerdict verdict = GateVerdict::kPassed;
    if (!no_verify_) {
      JudgeOptions judge;
      judge.golden_path = path_;
      judge.layers = layers_;
      INFER_ASSIGN(verdict,
                   JudgeResult(context, {golden, model}, {data_.calibration, data_.evaluation},
                               gates_, device_, export_, judge, report));
    }
    if (!OfWeights() && !no_verify_)
      INFER_TRY(TellSpeedup(context, golden, model.graph, device_, data_, IfSlower(), report));
    TellShort(context, report);
    INFER_ASSIGN(const ExitCode code,
                 export_.WriteJudged(context, model, verdict, keep_failed_, report));
    INFER_TRY(TellSize(context, model, report));
    if (OfWeights())
      if (const auto program = CompileFor(model.graph, device_); program.ok())
        TellSkipping(context, model.graph, **program);
    INFER_TRY(WriteReport(context, std::move(report)));
    return code;
  }

 private:
  /// Warns of a result that hardly anybody wants, where no gate has said so.
  void TellShort(Context& context, const Json& report) const {
    if (report.contains("accuracy"))
      for (const Json& o : report["accuracy"]["outputs"]) {
        if (!o.contains("sqnr_db")) continue;
        const double decibels = NumberOf(o["sqnr_db"]);
        const double same = o.contains("rows") ? o["rows"].value("top1_agreement", 1.0) : 1;
        const bool other = same < kUsefulAgreement && !gates_.any();
        if (decibels >= kUsefulDecibels && !other) continue;
        context.Warn(Cat("output ", o.value("name", ""), " is far from the dense model's (SQNR ",
                         Rounded(decibels, 2), " dB",
                         other ? Cat(", top-1 the same in ", Fixed(100 * same, 1), " %") : "",
                         "): ask for less, train what is left (--fine-tune-steps), or set a gate "
                         "(--max-drop, --min-sqnr)"));
        break;
      }
    const auto wanted =
        channels_.speedup.empty() ? Result<double>(0.0) : SpeedupGoal(channels_.speedup);
    if (!wanted.ok() || *wanted == 0 || !report.contains("latency")) return;
    const Json& ends = report["latency"]["speedup"]["median_ci95"];
    if (NumberOf(ends[1]) < *wanted)
      context.Warn(Cat("measured once more the result is ",
                       Fixed(NumberOf(report["latency"]["speedup"]["median"]), 2),
                       " times as fast, --speedup asked for ", Rounded(*wanted, 4)));
  }

  Samples ToFit() const { return fine_tune_.ToFit(data_.calibration); }

  Status Train(Context& context, Graph& model, const Graph& golden, const Backend& backend,
               Json& report) const {
    if (!fine_tune_.wanted()) return {};
    FineTuneOptions o = fine_tune_.Request(context, data_.seed, device_.threads);
    o.keep_zeros = OfWeights();
    context.Step("fine-tune");
    INFER_ASSIGN(const FineTuneReport done, FineTune(model, golden, data_.calibration, backend, o));
    report["fine_tuning"] = TellFineTuning(context, done, o);
    return {};
  }

  /// Single weights become zero; else the graph changes.
  bool OfWeights() const { return !channels_.structured && !low_rank_.low_rank; }

  Status CheckWay() const {
    std::vector<std::string> others = GivenForWeights();
    INFER_TRY(channels_.Check(others, low_rank_.low_rank));
    if (channels_.structured) others.insert(others.begin(), "--structured");
    if (low_rank_.low_rank && !checkpoint_.empty())
      return InvalidArgument("--checkpoint: --low-rank keeps its measurements by --search-log");
    return low_rank_.Check(others);
  }

  std::string IfSlower() const {
    if (low_rank_.low_rank)
      return "the result is slower here, although the cost table tells less time (inspect "
             "--kernels); --speedup measures while it chooses";
    return "the result has fewer FLOPs and is slower here: its widths lost a faster kernel "
           "(inspect --kernels); --speedup asks for time instead";
  }

  /// Options that say which single weights become zero.
  std::vector<std::string> GivenForWeights() const {
    std::vector<std::string> given;
    if (!sparsity_.sparsity.empty()) given.emplace_back("--sparsity");
    if (!nm_.empty()) given.emplace_back("--nm");
    if (!sparsity_.blocks.empty()) given.emplace_back("--blocks");
    if (method_ != "auto") given.emplace_back("--method");
    if (allocation_ != "auto") given.emplace_back("--allocation");
    return given;
  }

  /// Times two models in turns on the first calibration sample, which lives as long as this.
  /// The dense one is the model as it came, whose fused form may be faster than the prepared one's.
  std::function<Result<double>(const Graph&, const Graph&)> Stopwatch(Context& context,
                                                                      const Graph& golden) const {
    return [this, &context, &golden](const Graph&, const Graph& pruned) -> Result<double> {
      INFER_ASSIGN(const auto inputs, data_.calibration.get(0));
      Json unused;
      INFER_ASSIGN(const auto s, MeasureSpeedup(context, golden, pruned, device_, inputs, unused));
      return s.median;
    };
  }

  Status SplitInTwo(Context& context, const Graph& golden, Model& model, const Backend& backend,
                    const PruneOptions& as, Json& report) {
    LowRankOptions options;
    INFER_ASSIGN(options.goal, low_rank_.Goal(channels_.speedup, gates_, model));
    INFER_ASSIGN(const auto store,
                 low_rank_.OpenStore(context, golden, ToFit(), device_, as.scope));
    options.scope = as.scope;
    options.threads = as.threads;
    options.progress = as.progress;
    options.stop = as.stop;
    options.store = store.get();
    options.max_seconds = low_rank_.seconds;
    options.speedup = Stopwatch(context, golden);
    context.Step("prune");
    INFER_ASSIGN(const LowRankReport done, SplitProducts(model.graph, ToFit(), backend, options));
    report["low_rank"] = infer::ToJson(done, options);
    context.Print(SummaryText(done));
    return {};
  }

  Status RemoveChannels(Context& context, const Graph& golden, Model& model, const Backend& backend,
                        const PruneOptions& as, Json& report) {
    ChannelOptions options;
    INFER_ASSIGN(options.goal, channels_.Goal(gates_, model));
    options.scope = as.scope;
    options.threads = as.threads;
    options.progress = as.progress;
    options.stop = as.stop;
    for (const Value* v : golden.inputs())
      if (v->type().is_tensor() && v->tensor_type().is_static())
        options.extents[v->name()] = v->shape().static_dims();
    if (options.goal.kind == ChannelGoal::Kind::kSpeedup) {
      if (data_.calibration.count == 0)
        return InvalidArgument("--speedup runs the model on data: --data X, or --calib X --eval Z");
      options.speedup = Stopwatch(context, golden);
    }
    INFER_ASSIGN(const auto kept, Checkpoint(context, golden, as, &options, report));
    options.store = kept.get();
    context.Step("prune");
    INFER_ASSIGN(const ChannelReport done, PruneChannels(model.graph, ToFit(), backend, options));
    report["structured"] = infer::ToJson(done, options);
    context.Print(SummaryText(done));
    return {};
  }

  /// nullptr: none is wanted.
  Result<std::unique_ptr<RecordFile>> Checkpoint(Context& context, const Graph& golden,
                                                 const PruneOptions& weights,
                                                 const ChannelOptions* channels,
                                                 Json& report) const {
    if (checkpoint_.empty()) return std::unique_ptr<RecordFile>();
    INFER_ASSIGN(auto file, OpenPruneCheckpoint(context, checkpoint_, golden, ToFit(), device_,
                                                weights, channels));
    report["checkpoint"] = {{"path", checkpoint_},
                            {"records_before", static_cast<int64_t>(file->size())}};
    return file;
  }

  Result<SparsityPattern> Pattern() const {
    if (!nm_.empty()) {
      if (sparsity_.wanted())
        return InvalidArgument(Cat("--nm ", nm_, " says how many weights become zero: leave ",
                                   sparsity_.sparsity.empty() ? "--blocks" : "--sparsity", " out"));
      auto p = ParseNm(nm_);
      return p.ok() ? std::move(p) : Result<SparsityPattern>(std::move(p.status()).In("--nm"));
    }
    if (sparsity_.wanted()) return sparsity_.Pattern();
    return InvalidArgument(
        "the number of weights to set to zero is missing: --sparsity 50%, --nm 2:4 or --blocks "
        "1x4 [--sparsity 50%]; channels go with --structured --flops 70%, products are split "
        "with --low-rank --max-size 60%");
  }

  Status Choose(Context& context, PruneOptions& options) const {
    options.method = *PruneMethodNamed(method_);
    options.allocation = PruneAllocationNamed(allocation_);
    options.spare_share = spare_;
    const bool is_nm = options.pattern.kind == SparsityPattern::Kind::kNm;
    using enum PruneAllocation;
    if (is_nm && (options.allocation == kGlobal || options.allocation == kLamp))
      return InvalidArgument(Cat("--allocation ", allocation_,
                                 ": N:M is the same in every layer; uniform or measured"));
    if (spare_ > 1) return InvalidArgument("--spare: a share of at most 100 %");
    options.threads = device_.threads;
    options.stop = context.stop();
    options.progress = [&context](const std::string& step, int64_t done, int64_t total) {
      context.Progress(step, done, total);
    };
    for (const std::string& text : include_)
      options.scope.include.push_back(ParseNodePattern(text));
    for (const std::string& text : exclude_)
      options.scope.exclude.push_back(ParseNodePattern(text));
    return {};
  }

  Status TellWithoutData(Context& context) const {
    if (data_.calibration.count > 0) return {};
    if (low_rank_.low_rank)
      return InvalidArgument(
          "--low-rank chooses and fits by calibration data: --data X, or --calib X --eval Z");
    if (method_ != "auto" && method_ != "magnitude")
      return InvalidArgument(Cat("--method ", method_,
                                 " chooses by calibration data: --data X, or --calib X --eval Z; "
                                 "without data only magnitude is possible"));
    if (allocation_ == "measured")
      return InvalidArgument(
          "--allocation measured runs the model on calibration data: --data X, or --calib X "
          "--eval Z");
    context.Warn(
        "no calibration data (--calib X or --data X): weights are chosen by magnitude alone, and "
        "none makes up for what is lost");
    return {};
  }

  /// Zeros cost their bytes in a file; compressed they do not.
  Status TellSize(Context& context, const Model& model, Json& report) const {
    const auto bytes = export_.Bytes(model);
    // Over 2 GiB: not at once in memory.
    if (bytes.status().code() == Code::kUnsupported) return {};
    INFER_TRY(bytes.status());
    report["size"] = {{"bytes_before", model.info.file_bytes},
                      {"bytes", static_cast<int64_t>(bytes->size())}};
    std::string line = Cat("file: ", HumanBytes(model.info.file_bytes), " -> ",
                           HumanBytes(static_cast<int64_t>(bytes->size())));
    if (const auto packed = CompressedBytes(*bytes)) {
      report["size"]["compressed_bytes"] = *packed;
      line += Cat(", ", HumanBytes(*packed), " compressed (zlib)");
    }
    context.PrintLine(line);
    return {};
  }

  ChannelFlags channels_;
  LowRankFlags low_rank_;
  FineTuneFlags fine_tune_;
  SparsityFlags sparsity_;
  std::string path_, nm_, checkpoint_, method_ = "auto", allocation_ = "auto";
  ExportFlags export_;
  ModelOptions model_;
  DeviceOptions device_;
  DataRoles data_;
  GateFlags gates_;
  double spare_ = 0.02;
  std::vector<std::string> include_, exclude_;
  bool layers_ = false, no_verify_ = false, keep_failed_ = false;
};

}  // namespace

std::unique_ptr<Command> MakePruneCommand() { return std::make_unique<PruneCommand>(); }

}  // namespace infer
