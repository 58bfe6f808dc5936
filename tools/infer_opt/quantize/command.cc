/// infer-opt quantize: reads model and data, lets a mode rewrite the graph, compares the result
/// with the FP32 model on data that the mode has not seen, and checks the gates.
#include <algorithm>
#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "quant/scheme/op_rules.h"
#include "quant/search/mixed_model.h"
#include "quant/target/target.h"
#include "tools/common/data_roles.h"
#include "tools/common/fine_tune_flags.h"
#include "tools/common/judgement.h"
#include "tools/common/sparsity_report.h"
#include "tools/infer_opt/commands.h"
#include "tools/infer_opt/quantize/calibration_flags.h"
#include "tools/infer_opt/quantize/mode.h"
#include "tools/infer_opt/quantize/sparsity.h"
#include "tools/infer_opt/quantize/summary.h"
#include "tools/infer_opt/quantize/way.h"
#include "tools/infer_opt/quantize/worth.h"

namespace infer {
namespace {

Json ToJson(const QuantizedValue& v) {
  Json j = {{"name", v.name},
            {"seen", {v.seen.lo, v.seen.hi}},
            {"range", {v.range.lo, v.range.hi}},
            {"type", Name(v.dtype)},
            {"scale", v.scale},
            {"zero_point", v.zero_point},
            {"non_finite", v.non_finite},
            {"padded", v.padded},
            {"zero_point_cost_db", v.zero_point_cost_db}};
  if (v.error) j["mean_squared_error"] = *v.error;
  if (v.candidates.empty()) return j;
  j["observer"] = v.observer;
  j["candidates"] = Json::array();
  for (const RangeCandidate& c : v.candidates)
    j["candidates"].push_back({{"observer", c.observer},
                               {"range", {c.range.lo, c.range.hi}},
                               {"mean_squared_error", c.error}});
  return j;
}

Json ToJson(const QuantizeReport& r) {
  Json j = {{"calibration_samples", r.calibration_samples},
            {"integer_layers", r.integer_layers},
            {"quantizable_layers", r.quantizable_layers},
            {"weight_bytes_before", r.weight_bytes_before},
            {"weight_bytes_after", r.weight_bytes_after}};
  j["layers"] = Json::array();
  for (const QuantizedLayer& l : r.layers) {
    j["layers"].push_back({{"name", l.name},
                           {"op", l.op},
                           {"precision", l.precision},
                           {"quantizable", l.quantizable},
                           {"reason", l.reason},
                           {"weight_bytes_before", l.weight_bytes_before},
                           {"weight_bytes_after", l.weight_bytes_after},
                           {"per_channel", l.per_channel},
                           {"widened_channels", l.widened_channels}});
    if (l.method.empty()) continue;
    Json& layer = j["layers"].back();
    layer["method"] = l.method;
    layer["weight_error"] = l.weight_error;
    layer["nearest_error"] = l.nearest_error;
    if (l.output_error >= 0) {
      layer["output_error"] = l.output_error;
      layer["nearest_output_error"] = l.nearest_output_error;
    }
    layer["note"] = l.note;
  }
  j["values"] = Json::array();
  for (const QuantizedValue& v : r.values) j["values"].push_back(ToJson(v));
  return j;
}

class QuantizeCommand : public Command {
 public:
  std::string_view name() const override { return "quantize"; }
  std::string_view help() const override { return "Quantize a model and gate its accuracy"; }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt quantize model.onnx -o int8.onnx --calib c.npy --eval e.npy "
           "--eval-labels y.npy --max-drop 0.5%\n"
           "  infer-opt quantize model.onnx -o int8.onnx --data images --labels labels.csv "
           "--preprocess crop=224,scale=1/255,layout=nchw\n"
           "  infer-opt quantize model.onnx -o int8.onnx --data x.npy --exclude op:Softmax "
           "--exclude 'head*'\n"
           "  infer-opt quantize model.onnx -o int8.onnx --data x.npy --fine-tune-steps 500\n"
           "  infer-opt quantize model.onnx -o int8.onnx --data x.npy --sparsity 50%\n"
           "  infer-opt quantize model.onnx -o int4.onnx --mode weight-only --bits 4 --block 64\n"
           "  infer-opt quantize model.onnx -o fp16.onnx --mode fp16\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "The FP32 ONNX model", true, PathUse::kRead);
    export_.Declare(o);
    model_.DeclareForWriter(o);
    device_.Declare(o);
    device_.DeclareCompute(o);
    data_.Declare(o);
    o.Section("Quantization");
    std::vector<std::string> names;
    for (const auto& mode : modes_) names.emplace_back(mode->name());
    mode_ = names.front();
    o.Choice("--mode", &mode_, names, "What to make, see below");
    o.Value("--format", &format_, "How it is written, one of the mode's; default: its first");
    o.Flag("--mixed", &mixed_, "The same as --mode mixed");
    o.Values("--include NODES", &include_, "Only these nodes: glob, re:REGEX or op:TYPE");
    o.Values("--exclude NODES", &exclude_, "Not these nodes: glob, re:REGEX or op:TYPE");
    DeclareSparsity(o, sparsity_);
    o.Rarely();
    calibration_given_ = o.Group([&](Options& group) { flags_.Declare(group); });
    range_given_ = o.Group([&](Options& group) { weight_range_.Declare(group); });
    for (const auto& mode : modes_) {
      o.Section(Cat("--mode ", mode->name()));
      o.Rarely();
      modes_given_.push_back(o.Group([&](Options& group) { mode->Declare(group); }));
    }
    fine_tune_.Declare(o, "weights, scales and biases of --mode static");
    gates_.Declare(o);
    o.Section("Checks");
    o.Flag("--layers", &layers_, "Also compare inner values with the FP32 model");
    o.Flag("--no-verify", &no_verify_, "Do not compare with the FP32 model");
    o.Flag("--keep-failed", &keep_failed_, "Write the model even if a gate fails");
    std::string explained = "Modes:\n";
    for (const auto& mode : modes_) explained += Cat("  ", mode->name(), ": ", mode->help(), "\n");
    o.Explain(explained);
  }

  Result<ExitCode> Run(Context& context) override {
    if (export_.output.empty()) return InvalidArgument("-o FILE is missing");
    INFER_TRY(export_.Check(context));
    INFER_TRY(gates_.Check());
    INFER_TRY(fine_tune_.Check());
    INFER_TRY(weight_range_.Check());
    if (sparsity_.wanted()) INFER_TRY(sparsity_.Pattern().status());
    if (no_verify_) INFER_TRY(gates_.CheckNotMeasured());
    context.Step("import");
    INFER_ASSIGN(Model model, LoadModel(context, path_, model_));
    INFER_ASSIGN(const Graph golden, WithShapes(model.graph, model_));
    Json report = NewReport(context, "infer-opt/quantize@1");
    report["model"] = infer::ToJson(model, path_);
    report["compute"] = device_.compute;
    INFER_TRY(TellCompute(context, device_));
    if (mixed_) mode_ = "mixed";
    QuantizeMode& mode = Mode();
    INFER_TRY(CheckMode(mode, fine_tune_.wanted(), "--fine-tune-steps", "fine-tuning",
                        &QuantizeMode::can_fine_tune));
    INFER_TRY(
        CheckMode(mode, sparsity_.wanted(), "--sparsity", "pruning", &QuantizeMode::can_prune));
    WarnOfOtherModesOptions(context, mode);
    if (mode.needs_data() && !data_.data.given() && !data_.calib.given())
      return InvalidArgument(WithoutData(mode_, path_, export_.output));
    INFER_TRY(data_.Split(golden, mode.needs_data(), no_verify_, report));
    INFER_TRY(fine_tune_.CheckData(golden, data_.calibration, context.stop()));
    INFER_ASSIGN(auto backend, MakeBackend(device_.device));
    QuantizeJob job{
        context, data_.calibration, data_.evaluation, *backend, flags_, device_.threads, {}, {},
        ""};
    job.fine_tune = fine_tune_.wanted() ? &fine_tune_ : nullptr;
    job.seed = data_.seed;
    job.weight_range = weight_range_;
    INFER_ASSIGN(job.format, Format(mode));
    job.limits = gates_.limits();
    job.compared_after = no_verify_ ? 0 : data_.evaluation.count;
    MakeFor(export_.target, job);
    job.format_given = !format_.empty();
    INFER_TRY(Widen(context, mode, model.graph));
    RaiseOpset(context, model, mode);
    job.opset_limit = export_.OpsetLimit(model);
    job.may_raise_to = [&](int64_t opset) { return export_.MayRaiseTo(opset, model); };
    if (const auto size = gates_.size()) job.max_bytes = RoomForConstants(model, *size);
    for (const std::string& text : include_) job.include.push_back(ParseNodePattern(text));
    for (const std::string& text : exclude_) job.exclude.push_back(ParseNodePattern(text));
    INFER_ASSIGN(const auto pruning, MakePruning(sparsity_, job));
    job.pruning = pruning.get();
    report["mode"] = mode.name();
    context.Step("form for the reader");
    INFER_TRY(ChooseWay(job, model, mode, export_, keep_failed_));
    context.Step("calibrate and quantize");
    INFER_ASSIGN(QuantizeReport done, mode.Quantize(job, model.graph, report));
    if (mode.raised_opset() > 0) export_.RaiseTo(mode.raised_opset(), "for scales per channel");
    for (const std::string& w : done.warnings) context.Warn(w);
    if (done.weight_bytes_after > done.weight_bytes_before)
      context.Warn("the constants take more bytes than before");
    if (pruning && pruning->has_run()) TellPruning(context, *pruning, report);
    report["quantization"] = ToJson(done);
    context.Print(QuantizeSummary(done));
    GateVerdict verdict = done.integer_layers > 0 ? GateVerdict::kPassed : GateVerdict::kFailed;
    if (done.integer_layers == 0)
      context.Warn(
          "no layer is quantized within the limits: the result is the FP32 model, as infer-opt "
          "fuse "
          "writes it");
    if (!no_verify_) {
      INFER_ASSIGN(const GateVerdict judged, Gate(context, golden, model, report));
      if (verdict == GateVerdict::kPassed) verdict = judged;
    }
    INFER_ASSIGN(const bool worth, IsWorth(context, golden, model, mode, report));
    if (!worth) verdict = GateVerdict::kFailed;
    INFER_ASSIGN(const ExitCode code,
                 export_.WriteJudged(context, model, verdict, keep_failed_, report));
    if (pruning && pruning->has_run())
      if (const auto program = CompileFor(model.graph, device_); program.ok())
        TellSkipping(context, model.graph, **program);
    INFER_TRY(WriteReport(context, std::move(report)));
    return code;
  }

 private:
  /// A model whose opset is older than the mode's operators gets scales per channel with them,
  /// unless --opset or the target says otherwise: then the mode refuses it.
  void RaiseOpset(Context& context, const Model& model, const QuantizeMode& mode) {
    constexpr int64_t kScalesOpset = 13;
    const int64_t given = export_.OpsetLimit(model);
    if (given == 0 || given >= mode.least_opset() || !export_.MayRaiseTo(kScalesOpset, model))
      return;
    export_.RaiseTo(kScalesOpset, "for INT8");
    context.PrintLine(Cat("opset ", kScalesOpset, " instead of the model's ", given,
                          ", which has no operators for --mode ", mode.name(),
                          "; ONNX Runtime 1.6 and newer read it\n"));
  }

  /// A model that is stored in 16 bits is quantized as f32. What a mode leaves as it is stays f32.
  static Status Widen(Context& context, const QuantizeMode& mode, Graph& g) {
    INFER_ASSIGN(const bool widened, WidenFor(mode, g));
    if (widened)
      context.Note(Cat("the weights are of 16 bits: the model is widened to f32 before --mode ",
                       mode.name(), ", and what is not quantized is written as f32"));
    return {};
  }

  /// A recipe's own SQNR is of the samples that chose its steps; this one is not.
  static void TellUnseen(Context& context, const AccuracyReport& accuracy, Json& recipe) {
    double worst = INFINITY;
    for (const ValueAccuracy& o : accuracy.outputs)
      if (o.is_float) worst = std::min(worst, o.metrics.sqnr_db);
    recipe["unseen_sqnr_db"] = JsonNumber(worst);
    const Json& held = recipe["held_out_sqnr_db"];
    if (!std::isfinite(worst) || !held.is_number()) return;
    context.PrintLine(Cat("\nSQNR of the worst output: ", Rounded(held.get<double>(), 3),
                          recipe["is_held_out"].get<bool>()
                              ? " dB on the held-out samples, by which the recipe chose; "
                              : " dB on the calibration's, which are too few to hold any out; ",
                          Rounded(worst, 3), " dB on the evaluation's, which chose nothing"));
  }

  /// Warns of the output that hardly anybody wants, whether or not a gate says so.
  static void WarnOfFarOutputs(Context& context, const AccuracyReport& accuracy) {
    const ValueAccuracy* worst = nullptr;
    for (const ValueAccuracy& o : accuracy.outputs)
      if (o.is_float && (!worst || o.metrics.sqnr_db < worst->metrics.sqnr_db)) worst = &o;
    if (!worst || !(worst->metrics.sqnr_db < kUsefulDecibels)) return;
    context.Warn(Cat("output ", worst->name, " is far from the FP32 model's (SQNR ",
                     Rounded(worst->metrics.sqnr_db, 2),
                     " dB): a gate (--min-sqnr, --max-drop) would refuse such a file; more "
                     "calibration data, --recipe best or --exclude may help"));
  }

  /// Times the result beside the fused FP32 model, where the mode wants that known; where nothing
  /// is timed only the bytes are compared, and decide nothing.
  Result<bool> IsWorth(Context& context, const Graph& golden, const Model& quantized,
                       const QuantizeMode& mode, Json& report) {
    const Samples& samples = data_.evaluation.count > 0 ? data_.evaluation : data_.calibration;
    if (no_verify_ || mode.worth() == QuantizeMode::Worth::kNotAsked || device_.device != "cpu" ||
        samples.count == 0) {  // a mode that needs no data
      INFER_TRY(CompareBytes(context, golden, quantized));
      return true;
    }
    INFER_ASSIGN(const int64_t bytes, export_.Size(quantized));
    INFER_ASSIGN(const int64_t fused_bytes, FusedBytes(golden, quantized.info));
    INFER_ASSIGN(const bool worth, TellWorth(context, {golden, fused_bytes},
                                             {quantized.graph, bytes, mode.told_time()}, device_,
                                             samples, path_, report));
    return worth || mode.worth() != QuantizeMode::Worth::kGated;
  }

  static constexpr int64_t kMostlyWeights = int64_t{64} << 20;  ///< a file that is little else

  /// Where weights are nearly all of the files, of these alone.
  Status CompareBytes(Context& context, const Graph& golden, const Model& quantized) const {
    const int64_t before = ConstantBytesOf(golden);
    if (before > kMostlyWeights) {
      TellLarger(context, before, ConstantBytesOf(quantized.graph), path_);
      return {};
    }
    INFER_ASSIGN(const int64_t bytes, export_.Size(quantized));
    INFER_ASSIGN(const int64_t fused_bytes, FusedBytes(golden, quantized.info));
    TellLarger(context, fused_bytes, bytes, path_);
    return {};
  }

  /// Of the file that `fuse` would write: the one that came may hold nodes and names that fusing
  /// takes away. Where weights are nearly all of it, the size of the file that came is as good, and
  /// no second copy of them is made.
  Result<int64_t> FusedBytes(const Graph& golden, const ModelInfo& info) const {
    if (ConstantBytesOf(golden) > kMostlyWeights) return info.file_bytes;
    Model fused(golden.Clone());
    fused.info = info;
    INFER_TRY(Optimize(fused.graph).status());
    return export_.Size(fused);
  }

  void WarnOfOtherModesOptions(Context& context, const QuantizeMode& mode) const {
    const auto warn = [&](const Options::Given& given, std::string_view of) {
      for (const std::string& option : given())
        context.Warn(Cat(option, " says nothing to --mode ", mode.name(), ": it is of ", of));
    };
    for (size_t i = 0; i < modes_.size(); ++i)
      if (modes_[i]->name() != mode.declared_by()) warn(modes_given_[i], modes_[i]->name());
    if (!mode.needs_data()) warn(calibration_given_, "modes that calibrate");
    if (!mode.has_weight_range()) warn(range_given_, "modes that multiply codes of weights");
  }

  Status CheckMode(const QuantizeMode& mode, bool wanted, std::string_view option,
                   std::string_view what, bool (QuantizeMode::*can)() const) const {
    if (!wanted || (mode.*can)()) return {};
    std::vector<std::string> able;
    for (const auto& m : modes_)
      if ((m.get()->*can)()) able.emplace_back(m->name());
    return Unsupported(Cat(option, ": --mode ", mode.name(), " has no ", what, "; --mode ",
                           Join(able, ", "), able.size() > 1 ? " have" : " has"));
  }

  Result<std::string> Format(const QuantizeMode& mode) const {
    const auto known = mode.formats();
    if (format_.empty()) return std::string(known.front());
    if (std::find(known.begin(), known.end(), format_) != known.end()) return format_;
    return InvalidArgument(Cat("--format ", format_, ": mode ", mode.name(), " writes ",
                               Join(std::vector<std::string>(known.begin(), known.end()), ", ")));
  }

  /// What --max-size leaves for constants: nodes and names take what they take in the FP32 file,
  /// and what quantization adds, 300 bytes per layer.
  static int64_t RoomForConstants(const Model& m, const SizeLimit& limit) {
    const auto file = static_cast<double>(m.info.file_bytes);
    int64_t layers = 0;
    for (const auto& n : m.graph.nodes()) layers += FindQuantOp(*n) ? 1 : 0;
    const int64_t others = std::max<int64_t>(0, m.info.file_bytes - ConstantBytesOf(m.graph));
    const double most = limit.is_share ? limit.value * file : limit.value;
    return std::max<int64_t>(0, static_cast<int64_t>(most) - others - 300 * layers);
  }

  QuantizeMode& Mode() const {
    return **std::find_if(modes_.begin(), modes_.end(),
                          [&](const auto& mode) { return mode->name() == mode_; });
  }

  Result<GateVerdict> Gate(Context& context, const Graph& golden, const Model& quantized,
                           Json& report) {
    JudgeOptions options;
    options.golden_path = path_;
    options.layers = layers_;
    options.accuracy = [&](const AccuracyReport& accuracy) {
      if (report.contains("recipe")) TellUnseen(context, accuracy, report["recipe"]);
      WarnOfFarOutputs(context, accuracy);
    };
    return JudgeResult(context, {golden, quantized}, {data_.calibration, data_.evaluation}, gates_,
                       device_, export_, options, report);
  }

  std::string path_, mode_, format_;
  std::vector<std::unique_ptr<QuantizeMode>> modes_ = QuantizeModes();
  ExportFlags export_;
  ModelOptions model_;
  DeviceOptions device_;
  DataRoles data_;
  CalibrationFlags flags_;
  FineTuneFlags fine_tune_;
  WeightRangeFlags weight_range_;
  SparsityFlags sparsity_;
  Options::Given calibration_given_, range_given_;
  std::vector<Options::Given> modes_given_;  ///< as modes_
  GateFlags gates_;
  std::vector<std::string> include_, exclude_;
  bool layers_ = false, no_verify_ = false, keep_failed_ = false, mixed_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeQuantizeCommand() { return std::make_unique<QuantizeCommand>(); }

}  // namespace infer
