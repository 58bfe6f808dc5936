/// infer-bench tune: threads, lanes, batch and precision with the most samples per second within a
/// service-level objective.
#include <algorithm>

#include "lib/support/file.h"
#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/bench_json.h"
#include "tools/bench/precision.h"
#include "tools/common/signals.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/tune/model_target.h"
#include "tools/infer_bench/tune/settings.h"
#include "tools/infer_bench/tune/tune_report.h"

namespace infer {
namespace {

using namespace bench;  // NOLINT(google-build-using-namespace): the command is a part of it

/// Words of a command line that a shell takes as they are.
std::string ForShell(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-./=:,+@%") == std::string::npos;
    std::string quoted = "'";
    for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out.push_back(plain ? word : quoted + "'");
  }
  return Join(out, " ");
}

class TuneCommand : public Command {
 public:
  std::string_view name() const override { return "tune"; }
  std::string_view help() const override {
    return "Find threads, lanes, batch and precision with the most samples/s within an SLO";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench tune model.onnx --slo p99=80ms --json tuned.json\n"
           "  infer-bench tune model.onnx --slo p50=20ms,p99=40ms --rate 100 --batch 1,2,4\n"
           "  infer-bench tune model.onnx --slo p99=80ms --precision as-is,fp16,int8-dynamic\n"
           "  infer-bench tune model.onnx --slo p99=80ms --engine --batch 1,8,32 --lanes 1,2\n"
           "  infer-bench tune model.onnx --slo p99=80ms --variants sweep/variants.json\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "ONNX model", true, PathUse::kRead);
    session_.model.Declare(o);
    session_.device.DeclareWithoutThreads(o);
    session_.inputs.Declare(o);
    o.Section("Options");
    o.Values("--slo", &slo_, "pPERCENTILE=TIME,...: what the latency must keep, as p99=80ms");
    o.Value(
        "--rate", &tune_.rate,
        "Samples per second that come whatever the engine does; waiting counts, too. 0: as many "
        "as it can answer");
    o.Value("--budget", &tune_.budget_s, "Seconds of the search");
    o.Values(
        "--threads", &grid_.threads,
        "Threads of a run to try; 0: the usable physical cores. Default: 1, 2, 4, ... of them");
    o.Values("--batch", &grid_.batch,
             "Batches to try. Default: 1,2,4,8,16 as far as the model does");
    o.Flag("--engine", &engine_,
           "Queries go through the inference engine (docs/engine.md): --batch says how many rows "
           "of requests a run may have, --lanes how many instances there are");
    o.Values("--lanes", &lanes_, "Runs at once to try; 0, the default: as many as have cores");
    o.Values("--precision", &grid_.precision,
             "To try, of " + Join(PrecisionNames(), ", ") + ". Default: " + Join(kPrecisions, ","));
    o.Values("--variant", &variants_,
             "Further files of the same model to try as they are, as `infer-opt sweep` makes them",
             PathUse::kRead);
    o.Value("--variants", &variants_json_,
            "Those of a variants.json of `infer-opt sweep`; their accuracy stands in it",
            PathUse::kRead);
    o.Share("--max-drop", &max_drop_,
            "Accuracy that one of --variants may lose against the model (0.5%)");
    o.Value("--min-sqnr", &tune_.min_sqnr_db,
            "dB that outputs of a precision, or of a variant of unknown accuracy, keep against "
            "the model as it is, on the inputs given");
    o.Flag("--strict", &strict_, "Inconclusive fails, too (exit code 1 instead of 6)");
    o.Flag("--allow-inconclusive", &allow_inconclusive_, "Inconclusive passes");
  }

  Result<ExitCode> Run(Context& context) override {
    if (tune_.budget_s <= 0) return InvalidArgument("--budget: more than 0");
    if (session_.device.pin) return InvalidArgument("--pin: not where lanes are tried");
    if (max_drop_ >= 0 && variants_json_.empty())
      return InvalidArgument("--max-drop: only the accuracy of --variants is known");
    if (max_drop_ >= 0) tune_.max_drop = max_drop_;
    INFER_ASSIGN(tune_.slo, ParseSlo(slo_));
    INFER_ASSIGN(std::vector<TuneSetting> settings, Settings());
    tune_.seed = session_.inputs.seed;
    tune_.stop = context.stop();
    const Environment environment = CaptureEnvironment();
    for (std::string& w : Warnings(environment)) context.Warn(std::move(w));
    report_ = NewReport(context, "infer-bench/tune@1");
    report_["environment"] = ToJson(environment);
    ModelTarget target(context, path_, session_);
    const MachineWatch watch;
    INFER_ASSIGN(const TuneResult r,
                 Tune(std::move(settings), target, tune_,
                      [&](const TuneResult& so_far) { Observe(context, target, so_far); }));
    context.Progress("tune", kProgress, kProgress);
    const Watched watched = watch.Finish();
    for (std::string& w : Warnings(watched)) context.Warn(std::move(w));
    if (r.verdict == TuneVerdict::kInconclusive && !r.interrupted) context.Warn(r.reason);
    SetLastWords({});
    Fill(report_, target, r);
    report_["watch"] = ToJson(watched);
    context.Print(TuneTable(r, tune_));
    if (r.chosen)
      context.Print(Cat("  ", ForShell(Flags("load", r.candidates[*r.chosen])), "\n  ",
                        ForShell(Flags("run", r.candidates[*r.chosen])), "\n"));
    INFER_TRY(WriteReport(context, std::move(report_)));
    const bool open = r.verdict == TuneVerdict::kInconclusive;
    return GateExit(r.verdict == TuneVerdict::kNotMet || (strict_ && open), open,
                    allow_inconclusive_);
  }

 private:
  static constexpr int64_t kProgress = 1000;
  static inline const std::vector<std::string> kPrecisions = {"as-is", "fp32", "int8-dynamic"};

  Result<std::vector<TuneSetting>> Settings() {
    const int cores = AvailableCores();
    if (grid_.precision.empty()) grid_.precision = kPrecisions;
    if (grid_.threads.empty()) grid_.threads = ThreadsUpTo(cores);
    // Values from files have the batch that they have.
    if (grid_.batch.empty() && (engine_ || session_.inputs.input.empty()))
      grid_.batch = {"1", "2", "4", "8", "16"};
    std::vector<VariantFile> files;
    for (const std::string& path : variants_) files.push_back({.path = path});
    if (!variants_json_.empty()) {
      INFER_ASSIGN(const std::vector<VariantFile> listed, ReadVariantsOf(variants_json_, path_));
      files.insert(files.end(), listed.begin(), listed.end());
    }
    return SettingsOf(grid_, lanes_, cores, files, engine_);
  }

  /// Commands that measure a setting again: what all settings share, and what it chose.
  std::vector<std::string> Flags(const std::string& command, const TuneCandidate& c) const {
    std::vector<std::string> out = {"infer-bench", command,
                                    c.setting.variant.empty() ? path_ : c.setting.variant};
    const auto add = [&](const char* option, const std::string& value) {
      out.emplace_back(option);
      out.push_back(value);
    };
    for (const std::string& s : session_.model.set) add("--set", s);
    for (const std::string& s : session_.model.shape) add("--shape", s);
    for (const std::string& s : session_.inputs.input) add("--input", s);
    for (const std::string& s : session_.inputs.fill) add("--fill", s);
    if (const DeviceOptions defaults; session_.device.device != defaults.device)
      add("--device", session_.device.device);
    if (const DeviceOptions defaults; session_.device.level != defaults.level)
      add("--level", Cat(session_.device.level));
    add("--threads", Cat(c.setting.threads));
    if (c.setting.batch > 0) add("--batch", Cat(c.setting.batch));
    if (c.setting.precision != kAsIs) add("--precision", c.setting.precision);
    if (command == "run") return out;
    add("--lanes", Cat(c.setting.lanes));
    if (engine_) {
      out.emplace_back("--engine");
      add("--max-batch", Cat(c.setting.max_batch));
    }
    if (tune_.rate > 0)
      add("--rate", Cat(tune_.rate / static_cast<double>(c.batch)));
    else
      add("--concurrency", Cat(c.setting.lanes * std::max<int64_t>(1, c.setting.max_batch)));
    return out;
  }

  Json ChosenJson(const TuneCandidate& c) const {
    return {{"name", c.setting.Name()},
            {"path", c.setting.variant.empty() ? path_ : c.setting.variant},
            {"precision", c.setting.precision},
            {"threads", c.setting.threads},
            {"batch", c.batch},
            {"lanes", c.setting.lanes},
            {"max_batch", engine_ ? Json(c.setting.max_batch) : Json()},
            {"load", Flags("load", c)},
            {"run", Flags("run", c)}};
  }

  void Fill(Json& report, const ModelTarget& target, const TuneResult& r) const {
    report["path"] = path_;
    report["model"] = target.model();
    report["random_inputs"] = target.inputs().random;
    report["extents"] = target.inputs().extents;
    report["slo"] = ToJson(tune_.slo);
    report["settings"] = {{"rate_per_s", tune_.rate > 0 ? Json(tune_.rate) : Json()},
                          {"budget_s", tune_.budget_s},
                          {"min_sqnr_db", tune_.min_sqnr_db},
                          {"max_drop", tune_.max_drop},
                          {"seed", tune_.seed},
                          {"engine", engine_},
                          {"device", session_.device.device},
                          {"level", session_.device.level}};
    report.update(ToJson(r, tune_));
    report["chosen"] = r.chosen ? ChosenJson(r.candidates[*r.chosen]) : Json();
    report["watch"] = nullptr;
  }

  /// Progress, and what is said if the process is ended early.
  void Observe(Context& context, const ModelTarget& target, const TuneResult& so_far) const {
    const double share = std::min(1.0, so_far.seconds / tune_.budget_s);
    context.Progress("tune", static_cast<int64_t>(share * (kProgress - 1)), kProgress);
    if (context.json_path.empty() || context.json_path == "-") return;
    Json partial = report_;
    Fill(partial, target, so_far);
    partial["interrupted"] = true;
    SetLastWords([path = context.json_path, text = ReportText(context, partial)] {
      (void)WriteFileAtomically(path, text);
    });
  }

  std::string path_, variants_json_;
  SessionOptions session_;
  GridOptions grid_;
  std::vector<std::string> slo_, lanes_, variants_;
  TuneOptions tune_;
  double max_drop_ = -1;  // < 0: not given
  bool engine_ = false, strict_ = false, allow_inconclusive_ = false;
  Json report_;
};

}  // namespace

std::unique_ptr<Command> MakeTuneCommand() { return std::make_unique<TuneCommand>(); }

}  // namespace infer
