/// infer-opt sweep: makes variants of a model, measures accuracy, speed, size and memory of each
/// beside the model as it came, and says which one to take.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "lib/onnx/export.h"
#include "lib/onnx/import.h"
#include "lib/support/file.h"
#include "lib/support/hash.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "quant/calibrate/cache.h"
#include "runtime/api/build_identity.h"
#include "tools/common/append_log.h"
#include "tools/common/data_roles.h"
#include "tools/common/export_options.h"
#include "tools/common/host.h"
#include "tools/common/parse_options.h"
#include "tools/common/verification.h"
#include "tools/infer_opt/commands.h"
#include "tools/infer_opt/quantize/budget.h"
#include "tools/infer_opt/quantize/calibration_flags.h"
#include "tools/infer_opt/quantize/mode.h"
#include "tools/infer_opt/quantize/way.h"
#include "tools/infer_opt/sweep/pruned.h"
#include "tools/infer_opt/sweep/variant.h"

namespace infer {
namespace {

namespace fs = std::filesystem;
constexpr const char* kSearchLog = "--search-log";

class SweepCommand : public Command {
 public:
  std::string_view name() const override { return "sweep"; }
  std::string_view help() const override {
    return "Make FP16, INT8, INT4 and mixed variants, compare them and recommend one";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt sweep model.onnx -o variants --data images.npy --labels labels.npy "
           "--preprocess layout=nchw,scale=1/255\n"
           "  infer-opt sweep model.onnx -o variants --data x.npy --only int8 --sparsity 50%,2:4\n"
           "  infer-opt sweep model.onnx -o variants --data x.npy --only fp32,int8 "
           "--variant 'int4-32=weight-only --bits 4 --block 32'\n"
           "Written into the folder after every variant, so that what was measured is there "
           "whatever happens; a sweep that was stopped goes on there when it is started again:\n"
           "  ID.onnx        each variant\n"
           "  variants.json  id, dtype, quantization, device, size_mb, latency_ms,\n"
           "                 peak_memory_mb, accuracy_score, pruning and sparsity of each\n"
           "  sweep.json     the whole report\n"
           "  sweep.html     plots and table, a page that needs nothing else\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "The FP32 ONNX model", true, PathUse::kRead);
    o.Section("Output");
    o.Value("-o,--output", &folder_, "Folder for the variants and reports", PathUse::kWriteFolder);
    export_.DeclareTarget(o);
    export_.opset = "max";
    model_.DeclareForWriter(o);
    device_.Declare(o);
    device_.DeclareCompute(o);
    data_.Declare(o);
    flags_.Declare(o);
    o.Section("Variants");
    o.Share("--max-drop", &max_drop_, "Loss of top-1 that a recommended variant may have (0.5%)");
    eval_.Declare(o);
    o.Value("--budget TIME", &budget_,
            "Time for the search of the mixed variant: 90s, 10min or 1h");
    o.Values("--only", &only_, "Only these variants, by id, and those of --variant");
    o.Values(
        "--variant", &extra_,
        "One more: 'ID=MODE --option value', as of quantize --mode; 'ID=prune --sparsity 50%'");
    o.Values("--sparsity SHARES", &sparsities_,
             "Also pruned, and pruned and INT8, with so many weights zero: 50%,2:4");
    o.Values("--structured SHARES", &flops_,
             "The same with channels removed until so many of the FLOPs stay: 70%");
  }

  Result<ExitCode> Run(Context& context) override {
    if (folder_.empty()) return InvalidArgument("-o FOLDER is missing");
    if (Json::parse(JsonText(folder_, -1)) != folder_)
      return InvalidArgument("-o: a name that is no UTF-8 cannot stand in variants.json");
    INFER_TRY(ParseBudget("--budget", budget_).status());
    INFER_TRY(eval_.Check());
    INFER_ASSIGN(const std::vector<VariantSpec> specs, Specs());
    context.Step("import");
    INFER_ASSIGN(const Model model, LoadModel(context, path_, model_));
    INFER_ASSIGN(shaped_, WithShapes(model.graph, model_));
    std::error_code failed;
    fs::create_directories(folder_, failed);
    if (failed) return IoError(Cat(folder_, ": ", failed.message()));
    report_ = NewReport(context, "infer-opt/sweep@1");
    report_["model"] = infer::ToJson(model, path_);
    report_.update({{"compute", device_.compute}, {"device", device_.device}});
    INFER_TRY(TellCompute(context, device_));
    model_sha256_ = model.info.sha256;
    INFER_TRY(SplitData(context, *shaped_));
    SetLaneBudget(device_.threads > 0 ? device_.threads : AvailableCores());
    INFER_ASSIGN(backend_, MakeBackend(device_.device));
    INFER_ASSIGN(golden_, CompileFor(*shaped_, device_));
    INFER_TRY(OpenLog(context, model));
    INFER_TRY(WriteInputs(*shaped_));
    for (const VariantSpec& spec : specs) {
      context.Step(spec.id);
      INFER_ASSIGN(Variant v, Measured(context, model, spec));
      variants_.push_back(std::move(v));
      INFER_TRY(WriteSoFar());
    }
    context.Print(ToText(variants_, Recommend(variants_)));
    const auto made = std::count_if(variants_.begin(), variants_.end(),
                                    [](const Variant& v) { return v.made(); });
    TellSaturation(context);
    context.PrintLine(Cat("wrote ", made, " variants, variants.json, sweep.json and ",
                          "sweep.html to ", folder_));
    INFER_TRY(WriteReport(context, report_));
    // What ends measures anew the next time.
    std::error_code ignored;
    for (const VariantSpec& spec : specs) fs::remove(SearchLogPath(spec.id), ignored);
    for (const fs::path& p : {LogPath(), SamplePath()}) fs::remove_all(p, ignored);
    return kExitOk;
  }

 private:
  static std::vector<std::string> ModeNames() {
    std::vector<std::string> names;
    for (const auto& mode : QuantizeModes()) names.emplace_back(mode->name());
    return names;
  }

  Result<std::vector<VariantSpec>> Specs() const {
    std::vector<std::string> modes = ModeNames();
    std::vector<VariantSpec> all = PresetVariants(modes, budget_);
    const size_t presets = all.size();
    modes.emplace_back(kPruneMode);
    INFER_ASSIGN(std::vector<VariantSpec> pruned, PrunedVariants(sparsities_, flops_));
    for (VariantSpec& spec : pruned) all.push_back(std::move(spec));
    for (const std::string& text : extra_) {
      INFER_ASSIGN(VariantSpec spec, ParseVariant(text, modes));
      for (const VariantSpec& other : all)
        if (other.id == spec.id)
          return InvalidArgument(Cat("--variant ", text, ": there is a variant ", spec.id));
      all.push_back(std::move(spec));
    }
    for (const std::string& id : only_)
      if (std::none_of(all.begin(), all.end(), [&](const auto& s) { return s.id == id; })) {
        std::vector<std::string> ids;
        for (const VariantSpec& s : all) ids.push_back(s.id);
        return InvalidArgument(Cat("--only ", id, ": there is ", Join(ids, ", ")));
      }
    const std::vector<VariantSpec> extra(all.begin() + static_cast<ptrdiff_t>(presets), all.end());
    const auto is_extra = [&](const std::string& id) {
      return std::any_of(extra.begin(), extra.end(), [&](const auto& s) { return s.id == id; });
    };
    if (!only_.empty())
      std::erase_if(all, [&](const VariantSpec& s) {
        return !s.mode.empty() && std::count(only_.begin(), only_.end(), s.id) == 0 &&
               !is_extra(s.id);
      });
    return all;
  }

  fs::path LogPath() const { return fs::path(folder_) / "sweep.log"; }
  fs::path SearchLogPath(const std::string& id) const {
    return fs::path(folder_) / (id + ".search.log");
  }
  fs::path SamplePath() const { return fs::path(folder_) / "sweep_inputs"; }

  /// What was measured before this sweep was stopped. Which variants are asked for may change.
  Status OpenLog(Context& context, const Model& model) {
    const HostFacts host = GetHostFacts();
    Hasher h;
    h.Add(ModelKey(*shaped_))
        .Add(static_cast<uint64_t>(model_.freeze))
        .Add(model.info.sha256)
        .Add(device_.device)
        .Add(flags_.observer);
    h.Add(static_cast<uint64_t>(device_.threads)).Add(static_cast<uint64_t>(device_.level));
    h.Add(device_.compute);
    for (const Samples* samples : {&data_.calibration, &data_.evaluation}) {
      INFER_ASSIGN(const uint64_t data, LabelledDataKey(*samples, context.stop()));
      h.Add(data);
    }
    h.Add(eval_.command);
    h.Add(export_.target)
        .Add(std::to_string(max_drop_))
        .Add(host.cpu_model)
        .Add(host.isa)
        .Add(BuildIdentity());
    INFER_ASSIGN(log_, AppendLog::Open(LogPath().string(),
                                       {"infer-opt/sweep-log@1", std::to_string(h.value()),
                                        "name another folder, or delete it"}));
    return {};
  }

  /// The first sample as files, for processes that measure memory.
  Status WriteInputs(const Graph& g) {
    std::error_code failed;
    fs::create_directories(SamplePath(), failed);
    if (failed) return IoError(Cat(SamplePath().string(), ": ", failed.message()));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].is_tensor()) continue;
      const std::string& name = g.inputs()[i]->name();
      const std::string path = (SamplePath() / Cat("input_", i, ".pb")).string();
      INFER_TRY(WriteTensorPb(inputs_[i].tensor(), path, name));
      input_files_.push_back(Cat(name, "=", path));
    }
    return {};
  }

  /// From the log, or made and measured now. A variant that cannot be made says so; without the
  /// model as it came there is nothing.
  Result<Variant> Measured(Context& context, const Model& model, const VariantSpec& spec) {
    Variant v{.spec = spec};
    if (const Json* kept = log_->Find(KeyOf(spec))) {
      v.failure = kept->at("failure").get<std::string>();
      v.measured = kept->at("measured");
      if (!v.made() || IsAsWritten(v)) {
        context.Note(Cat("variant ", spec.id, ": measured before"));
        return v;
      }
      v = {.spec = spec};
    }
    context.Note(Cat("variant ", spec.id));
    const Status made = Make(context, model, v);
    if (context.stop().stop_requested()) return Cancelled("the sweep was stopped");
    if (made.code() == Code::kIo || (!made.ok() && spec.mode.empty())) return made;
    if (!made.ok()) {
      v = {.spec = spec, .failure = made.message()};
      context.Warn(Cat("no variant ", spec.id, ": ", made.message()));
    }
    INFER_TRY(log_->Add(KeyOf(spec), {{"failure", v.failure}, {"measured", v.measured}}));
    return v;
  }

  /// The file is there, and is the one that was measured.
  static bool IsAsWritten(const Variant& v) {
    const auto file = InputFile::Open(v.measured.at("path").get<std::string>());
    if (!file.ok()) return false;
    const auto sha256 = Sha256Of(**file);
    return sha256.ok() && *sha256 == v.measured.at("sha256").get<std::string>();
  }

  Status SplitData(Context& context, const Graph& g) {
    INFER_TRY(data_.Split(g, false, true, report_));
    for (const Samples* samples : {&data_.evaluation, &data_.calibration}) {
      if (samples->count == 0) continue;
      INFER_ASSIGN(inputs_, samples->get(0));
      return {};
    }
    context.Warn(
        "without data (--data, or --calib and --eval) no accuracy is known, nothing is calibrated, "
        "and speed is that of random inputs");
    INFER_ASSIGN(const auto program, CompileFor(g, device_));
    INFER_ASSIGN(const RandomRuns random,
                 RandomSamples(context, g, 1, data_.seed, [&](const std::vector<Datum>& inputs) {
                   return RunOnce(*program, inputs);
                 }));
    INFER_ASSIGN(inputs_, random.samples.get(0));
    return {};
  }

  /// `v.measured` gets what the report of quantize tells of it.
  Status Quantize(Context& context, Variant& v, Model& work) {
    const VariantSpec& spec = v.spec;
    if (spec.mode == kPruneMode) return Prune(context, spec, work.graph);
    std::vector<std::unique_ptr<QuantizeMode>> modes = QuantizeModes();
    const auto at = std::find_if(modes.begin(), modes.end(),
                                 [&](const auto& m) { return m->name() == spec.mode; });
    QuantizeMode& mode = **at;
    if (mode.needs_data() && data_.calibration.count == 0)
      return InvalidArgument("it needs calibration data (--data)");
    INFER_TRY(WidenFor(mode, work.graph).status());
    CalibrationFlags flags = flags_;
    QuantizeJob job{
        context, data_.calibration, data_.evaluation, *backend_, flags, device_.threads, {}, {},
        ""};
    job.format = std::string(mode.formats().front());
    job.limits.max_drop = data_.evaluation.labels ? std::optional(max_drop_) : std::nullopt;
    std::vector<std::string> arguments = spec.arguments;
    if (spec.mode == "mixed" && std::count(arguments.begin(), arguments.end(), kSearchLog) == 0)
      arguments.insert(arguments.end(), {kSearchLog, SearchLogPath(spec.id).string()});
    PrunedFlags pruned;
    INFER_TRY(ParseOptions(
        [&](Options& o) {
          mode.Declare(o);
          if (mode.can_prune()) pruned.Declare(o);
          flags.Declare(o);
          if (mode.has_weight_range()) job.weight_range.Declare(o);
          o.Value("--format", &job.format, "");
        },
        arguments));
    INFER_TRY(job.weight_range.Check());
    INFER_TRY(pruned.Check(/*pruned_alone=*/false));
    Json told;  // what the mode has to tell beside its graph stands in the report of `quantize`
    Context quiet(context.ops(), context.tool(), context.argv(), context.paths(), context.stop());
    quiet.quiet = true;
    QuantizeJob silent{quiet, job.calibration, job.evaluation, job.backend, flags, job.threads, {},
                       {},    job.format,      job.limits};
    silent.weight_range = job.weight_range;
    INFER_TRY(PruneFirst(pruned, /*pruned_alone=*/false, silent, work.graph));
    INFER_ASSIGN(const auto pruning, MakePruning(pruned.sparsity, silent));
    silent.pruning = pruning.get();
    MakeFor(export_.target, silent);
    if (export_.target.empty()) {
      silent.microsoft = true;
    } else {
      silent.opset_limit = export_.OpsetLimit(work);
      INFER_TRY(ChooseWay(silent, work, mode, export_, /*keep_failed=*/false));
    }
    INFER_TRY(mode.Quantize(silent, work.graph, told).status());
    v.measured["ort_saturates"] = Saturates(told);
    if (export_.target.empty()) return {};
    INFER_ASSIGN(const std::string refusal, export_.Refusal(quiet, work));
    return refusal.empty() ? Status() : Unsupported(refusal);
  }

  /// A variant that is not quantized.
  Status Prune(Context& context, const VariantSpec& spec, Graph& g) const {
    PrunedFlags flags;
    INFER_TRY(ParseOptions([&](Options& o) { flags.Declare(o); }, spec.arguments));
    INFER_TRY(flags.Check(/*pruned_alone=*/true));
    const QuantizeJob job{
        context, data_.calibration, data_.evaluation, *backend_, flags_, device_.threads, {}, {},
        ""};
    return PruneFirst(flags, /*pruned_alone=*/true, job, g);
  }

  /// The model as it came stays as it is; others are written for the target, without one with the
  /// operators of com.microsoft.
  Result<ExportReport> Write(const Variant& v, const Model& model, const std::string& path) const {
    if (!v.spec.mode.empty() && !export_.target.empty()) return export_.WriteTo(model, path);
    ExportOptions o;
    o.target = v.spec.mode.empty() ? ExportTarget::kOnnx : ExportTarget::kOrt;
    return ExportModel(model, path, o);
  }

  /// `told`: null for a variant that was not made, and where a mode has nothing to tell.
  static bool Saturates(const Json& told) {
    return told.contains("ort_saturates") && told["ort_saturates"].get<bool>();
  }

  void TellSaturation(const Context& context) const {
    Json ignored;
    const Target* target = FindTarget(export_.target);
    WeightRangeFlags::TellSaturation(
        context,
        std::any_of(variants_.begin(), variants_.end(),
                    [](const Variant& v) { return Saturates(v.measured); }),
        target && target->runtime != TargetRuntime::kOnnxRuntime, ignored);
  }

  /// Makes the variant, writes it, and measures the file as it reads back: with the shapes of --set
  /// and --shape, and external data beside it.
  Status Make(Context& context, const Model& model, Variant& v) {
    Model work(model.graph.Clone());
    work.info = model.info;
    if (!v.spec.mode.empty()) INFER_TRY(Quantize(context, v, work));
    const std::string path = (fs::path(folder_) / (v.spec.id + ".onnx")).string();
    INFER_ASSIGN(const ExportReport written, Write(v, work, path));
    // Frozen shapes stand in the file.
    INFER_ASSIGN(Model read,
                 LoadModel(context, path, model_.freeze ? ModelOptions() : ShapesToMeasure()));
    const std::string sha256 = read.info.sha256;
    const std::optional<double> zeros = ZerosOf(read.graph);
    std::optional<AccuracyReport> accuracy;
    if (data_.evaluation.count > 0) {
      INFER_ASSIGN(accuracy,
                   CompareGraphs(context, *shaped_, read.graph, device_, data_.evaluation, false));
    }
    INFER_ASSIGN(const auto program, CompileOwnedFor(std::move(read.graph), device_));
    INFER_ASSIGN(const PairTiming timing, TimePair(*program, *golden_, inputs_, context.stop()));
    INFER_ASSIGN(const bench::ColdStart start, ColdStartOf(context, path));
    v.measured.update({{"path", path}, {"device", device_.device}, {"sha256", sha256}});
    v.measured["bytes"] = written.file_bytes + written.external_bytes;
    v.measured["sparsity"] = zeros ? Json(*zeros) : Json(nullptr);
    v.measured.update(MeasuredJson(accuracy, timing));
    v.measured["memory"] = MemoryJson(start, timing.memory_a);
    if (eval_.given()) {
      INFER_ASSIGN(v.measured["eval_score"], RunEvalCommand(eval_, path, context.stop()));
    }
    return {};
  }

  ModelOptions ShapesToMeasure() const { return {.set = model_.set, .shape = model_.shape}; }

  /// A fresh process that loads the file, compiles it, and runs it once.
  Result<bench::ColdStart> ColdStartOf(Context& context, const std::string& path) const {
    bench::SessionOptions session;
    session.device = device_;
    if (!model_.freeze) session.model = ShapesToMeasure();
    session.inputs.input = input_files_;
    INFER_ASSIGN(const auto starts,
                 bench::MeasureColdStarts(path, session, {.starts = 1, .stop = context.stop()}));
    if (starts.empty()) return Cancelled("the sweep was stopped");
    return starts.front();
  }

  Status WriteSoFar() {
    Judge(variants_, max_drop_, eval_);
    const Recommendation r = Recommend(variants_);
    report_["variants"] = Json::array();
    for (const Variant& v : variants_)
      report_["variants"].push_back(ToJson(v, variants_[0], v.spec.id == r.id));
    report_["recommended"] = {{"id", r.id}, {"why", r.why}};
    const fs::path folder(folder_);
    INFER_TRY(WriteFileAtomically((folder / "variants.json").string(),
                                  JsonText(VariantsJson(variants_, model_sha256_), 1)));
    INFER_TRY(WriteFileAtomically((folder / "sweep.json").string(), JsonText(report_, 1)));
    return WriteFileAtomically((folder / "sweep.html").string(), SweepPage(report_));
  }

  std::string path_, folder_, budget_ = "5min", model_sha256_;
  ModelOptions model_;
  ExportFlags export_;
  DeviceOptions device_;
  DataRoles data_;
  CalibrationFlags flags_;
  std::vector<Datum> inputs_;
  std::vector<std::string> only_, extra_, sparsities_, flops_;
  std::vector<std::string> input_files_;  ///< NAME=FILE of the first sample
  EvalFlags eval_;
  double max_drop_ = 0.005;
  Json report_;
  std::unique_ptr<Backend> backend_;
  std::optional<Graph> shaped_;  ///< the model with --set and --shape
  std::shared_ptr<const Program> golden_;
  std::unique_ptr<AppendLog> log_;
  std::vector<Variant> variants_;
};

}  // namespace

std::unique_ptr<Command> MakeSweepCommand() { return std::make_unique<SweepCommand>(); }

}  // namespace infer
