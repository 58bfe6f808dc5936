/// infer-opt sweep: makes variants of a model, measures accuracy, speed, size and memory of each
/// beside the model as it came, and says which one to take.
#include <algorithm>
#include <filesystem>

#include "lib/onnx/export.h"
#include "lib/support/file.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "tools/common/data_options.h"
#include "tools/common/parse_options.h"
#include "tools/common/verification.h"
#include "tools/infer_opt/commands.h"
#include "tools/infer_opt/quantize/calibration_flags.h"
#include "tools/infer_opt/quantize/mode.h"
#include "tools/infer_opt/sweep/variant.h"

namespace infer {
namespace {

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
           "  infer-opt sweep model.onnx -o variants --data x.npy --only fp32,int8 "
           "--variant 'int4-32=weight-only --bits 4 --block 32'\n"
           "Written into the folder after every variant, so that what was measured is there "
           "whatever happens:\n"
           "  ID.onnx        each variant\n"
           "  variants.json  id, dtype, quantization, size_mb, latency_ms, accuracy_score of each\n"
           "  sweep.json     the whole report\n"
           "  sweep.html     plots and table, a page that needs nothing else\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "The FP32 ONNX model", true, PathUse::kRead);
    o.Value("-o,--output", &folder_, "Folder for the variants and reports", PathUse::kWriteFolder);
    model_.Declare(o);
    device_.Declare(o);
    data_.Declare(o, "", "Data that is split by seed into calibration and evaluation");
    o.Value("--calib-count", &calib_count_, "So many samples for calibration; 0: half");
    o.Value("--seed", &seed_, "Seed of the split of --data");
    flags_.Declare(o);
    o.Share("--max-drop", &max_drop_, "Loss of top-1 that a recommended variant may have (0.5%)");
    o.Value("--budget", &budget_, "Time for the search of the mixed variant: 90s, 10min or 1h");
    o.Values("--only", &only_, "Only these variants, by id");
    o.Values("--variant", &extra_, "One more: 'ID=MODE --option value', as of quantize --mode");
  }

  Result<ExitCode> Run(Context& context) override {
    if (folder_.empty()) return InvalidArgument("-o FOLDER is missing");
    INFER_ASSIGN(const std::vector<VariantSpec> specs, Specs());
    context.Step("import");
    INFER_ASSIGN(const Model model, LoadModel(context, path_, model_));
    std::error_code failed;
    std::filesystem::create_directories(folder_, failed);
    if (failed) return IoError(Cat(folder_, ": ", failed.message()));
    report_ = NewReport(context, "infer-opt/sweep@1");
    report_["model"] = infer::ToJson(model, path_);
    INFER_TRY(SplitData(context, model.graph));
    SetLaneBudget(device_.threads > 0 ? device_.threads : AvailableCores());
    INFER_ASSIGN(backend_, MakeBackend(device_.device));
    INFER_ASSIGN(golden_, CompileFor(model.graph, device_));
    for (const VariantSpec& spec : specs) {
      context.Step(spec.id);
      context.Note(Cat("variant ", spec.id));
      Variant v{spec, {}, {}, 0, {}, {}, false, false};
      Status made = Make(context, model, v);
      if (context.stop().stop_requested()) return Cancelled("the sweep was stopped");
      // The model as it came is what all others are held against.
      if (!made.ok() && spec.mode.empty()) return made;
      if (!made.ok()) {
        v = Variant{spec, made.message(), {}, 0, {}, {}, false, false};
        context.Warn(Cat("no variant ", spec.id, ": ", made.message()));
      }
      variants_.push_back(std::move(v));
      INFER_TRY(WriteSoFar());
    }
    context.Print(ToText(variants_, Recommend(variants_)));
    context.PrintLine(Cat("wrote ", variants_.size(), " variants, variants.json, sweep.json and ",
                          "sweep.html to ", folder_));
    INFER_TRY(WriteReport(context, report_));
    return kExitOk;
  }

 private:
  static std::vector<std::string> ModeNames() {
    std::vector<std::string> names;
    for (const auto& mode : QuantizeModes()) names.emplace_back(mode->name());
    return names;
  }

  Result<std::vector<VariantSpec>> Specs() const {
    const std::vector<std::string> modes = ModeNames();
    std::vector<VariantSpec> all = PresetVariants(modes, budget_);
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
    if (!only_.empty())
      std::erase_if(all, [&](const VariantSpec& s) {
        return !s.mode.empty() && std::count(only_.begin(), only_.end(), s.id) == 0;
      });
    return all;
  }

  Status SplitData(Context& context, const Graph& g) {
    if (data_.given()) {
      INFER_ASSIGN(auto data, OpenData(data_));
      const auto use = static_cast<int64_t>(FirstSamples(*data, data_.max_samples).size());
      INFER_ASSIGN(const DataSplit split, SplitSamples(use, calib_count_, seed_));
      INFER_ASSIGN(calibration_, MakeSamples(data, g, split.calib));
      INFER_ASSIGN(evaluation_, MakeSamples(data, g, split.eval));
      report_["data"] = {{"path", data_.data},
                         {"seed", split.seed},
                         {"calibration", split.calib.size()},
                         {"evaluation", split.eval.size()}};
      INFER_ASSIGN(inputs_, evaluation_.get(0));
      return {};
    }
    context.Warn(
        "without --data no accuracy is known, nothing is calibrated, and speed is that of random "
        "inputs");
    INFER_ASSIGN(const auto program, CompileFor(g, device_));
    INFER_ASSIGN(const RandomRuns random,
                 RandomSamples(context, g, 1, seed_, [&](const std::vector<Datum>& inputs) {
                   return RunOnce(*program, inputs);
                 }));
    INFER_ASSIGN(inputs_, random.samples.get(0));
    return {};
  }

  Status Quantize(Context& context, const VariantSpec& spec, Graph& g) {
    std::vector<std::unique_ptr<QuantizeMode>> modes = QuantizeModes();
    const auto at = std::find_if(modes.begin(), modes.end(),
                                 [&](const auto& m) { return m->name() == spec.mode; });
    QuantizeMode& mode = **at;
    if (mode.needs_data() && calibration_.count == 0)
      return InvalidArgument("it needs calibration data (--data)");
    CalibrationFlags flags = flags_;
    QuantizeJob job{context,         calibration_, evaluation_, *backend_, flags,
                    device_.threads, {},           {},          ""};
    job.format = std::string(mode.formats().front());
    job.limits.max_drop = evaluation_.labels ? std::optional(max_drop_) : std::nullopt;
    INFER_TRY(ParseOptions(
        [&](Options& o) {
          mode.Declare(o);
          flags.Declare(o);
          o.Value("--format", &job.format, "");
        },
        spec.arguments));
    Json told;  // what the mode has to tell beside its graph stands in the report of `quantize`
    Context quiet(context.ops(), context.tool(), context.argv(), context.paths(), context.stop());
    quiet.quiet = true;
    QuantizeJob silent{quiet, job.calibration, job.evaluation, job.backend, flags, job.threads, {},
                       {},    job.format,      job.limits};
    silent.microsoft = true;
    return mode.Quantize(silent, g, told).status();
  }

  /// Makes the variant, writes it, and measures the file as it reads back.
  Status Make(Context& context, const Model& model, Variant& v) {
    Model work(model.graph.Clone());
    work.info = model.info;
    if (!v.spec.mode.empty()) INFER_TRY(Quantize(context, v.spec, work.graph));
    v.path = (std::filesystem::path(folder_) / (v.spec.id + ".onnx")).string();
    ExportOptions o;
    o.target = v.spec.mode.empty() ? ExportTarget::kOnnx : ExportTarget::kOrt;
    INFER_ASSIGN(const ExportReport written, ExportModel(work, v.path, o));
    v.bytes = written.file_bytes + written.external_bytes;
    INFER_ASSIGN(Model read, LoadModel(context, v.path, model_));
    if (evaluation_.count > 0) {
      INFER_ASSIGN(v.accuracy,
                   CompareGraphs(context, model.graph, read.graph, device_, evaluation_, false));
    }
    INFER_ASSIGN(const auto program, CompileOwnedFor(std::move(read.graph), device_));
    INFER_ASSIGN(v.timing, TimePair(*program, *golden_, inputs_, context.stop()));
    return {};
  }

  Status WriteSoFar() {
    Judge(variants_, max_drop_);
    const Recommendation r = Recommend(variants_);
    report_["variants"] = Json::array();
    for (const Variant& v : variants_)
      report_["variants"].push_back(ToJson(v, variants_[0], v.spec.id == r.id));
    report_["recommended"] = {{"id", r.id}, {"why", r.why}};
    const std::filesystem::path folder(folder_);
    INFER_TRY(WriteFileAtomically((folder / "variants.json").string(),
                                  VariantsJson(variants_).dump(1) + "\n"));
    INFER_TRY(WriteFileAtomically((folder / "sweep.json").string(), report_.dump(1) + "\n"));
    return WriteFileAtomically((folder / "sweep.html").string(), SweepPage(report_));
  }

  std::string path_, folder_, budget_ = "5min";
  ModelOptions model_;
  DeviceOptions device_;
  DataFlags data_;
  CalibrationFlags flags_;
  Samples calibration_, evaluation_;
  std::vector<Datum> inputs_;
  std::vector<std::string> only_, extra_;
  int64_t calib_count_ = 0;
  uint64_t seed_ = 0;
  double max_drop_ = 0.005;
  Json report_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Program> golden_;
  std::vector<Variant> variants_;
};

}  // namespace

std::unique_ptr<Command> MakeSweepCommand() { return std::make_unique<SweepCommand>(); }

}  // namespace infer
