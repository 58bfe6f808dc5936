/// infer-bench soak: hours of load, and whether latency or memory creeps.
#include "tools/infer_bench/load/soak.h"

#include "lib/support/file.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/bench_json.h"
#include "tools/bench/sparkline.h"
#include "tools/common/host.h"
#include "tools/common/signals.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/load/setup.h"
#include "tools/infer_bench/load_predictions.h"
#include "tools/infer_bench/page/page.h"

namespace infer {
namespace {

using namespace bench;  // NOLINT(google-build-using-namespace): the command is a part of it

Json DriftJson(const Drift& d, std::optional<double> limit) {
  const auto or_null = [](const std::optional<double>& v) { return v ? Json(*v) : Json(); };
  return {{"windows", d.points},
          {"blocks", d.blocks},
          {"level", d.level},
          {"slope_per_hour", or_null(d.slope)},
          {"slope_ci95", d.low ? Json({*d.low, *d.high}) : Json()},
          {"limit_per_hour", or_null(limit)},
          {"verdict", limit ? Json(Name(d.verdict)) : Json()},
          {"reason", d.reason}};
}

Json WindowJson(const SoakWindow& w) {
  const auto ms = [&](double v) { return w.answered > 0 ? Json(v) : Json(); };
  return {{"at_s", w.at_s},
          {"seconds", w.seconds},
          {"answered", w.answered},
          {"median_ms", ms(w.median_ms)},
          {"p99_ms", ms(w.p99_ms)},
          {"max_ms", ms(w.max_ms)},
          {"resident_bytes", w.resident_bytes}};
}

class SoakCommand : public Command {
 public:
  std::string_view name() const override { return "soak"; }
  std::string_view help() const override {
    return "Load a model for hours: does latency or memory creep?";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench soak model.onnx --threads 1 --duration 7200 --json soak.json\n"
           "  infer-bench soak model.onnx --threads 1 --rate 20 --window 30\n"
           "  infer-bench soak model.onnx --threads 1 --rate 20 --engine --fault run:fail:0.01\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "ONNX model", true, PathUse::kRead);
    setup_.Declare(o);
    setup_.serve.Declare(o);
    setup_.predict.Declare(o);
    LoadOptions& load = soak_.load;
    load.duration_s = 3600;
    arrivals_given_ = o.Group([&](Options& group) {
      group.Value("--concurrency", &load.concurrency, "Closed loop with so many queries in flight",
                  1);
      group.Value("--rate", &load.rate,
                  "Open loop with so many queries per second; 0: closed loop");
    });
    replay_.Declare(o);
    o.Value("--duration", &load.duration_s, "Seconds");
    o.Value("--window", &soak_.window_s, "Seconds of a window; 0: a sixtieth of the duration");
    o.Share("--max-latency-drift", &soak_.max_latency_drift,
            "Of the median latency per hour, as a share of it");
    o.Value("--max-memory-drift", &memory_mb_, "Of the resident set per hour, MB");
    o.Flag("--strict", &strict_, "Inconclusive fails, too (exit code 1 instead of 6)");
    o.Flag("--allow-inconclusive", &allow_inconclusive_, "Inconclusive passes");
    html_.Declare(o);
  }

  Result<ExitCode> Run(Context& context) override {
    LoadOptions& load = soak_.load;
    if (load.duration_s <= 0) return InvalidArgument("--duration: more than 0");
    if (load.rate > 0 && load.concurrency > 1)
      return InvalidArgument("--rate is an open loop, --concurrency a closed one");
    if (soak_.window_s <= 0) soak_.window_s = load.duration_s / 60;
    load.arrivals = load.rate > 0 ? Arrivals::kPoisson : Arrivals::kClosed;
    INFER_TRY(CheckRate(load.rate));
    INFER_ASSIGN(setup_.serve.replay, replay_.Read(arrivals_given_()));
    if (setup_.serve.replay) Replay(*setup_.serve.replay, replay_.speed, /*repeat=*/true, load);
    load.seed = setup_.session.inputs.seed;
    load.max_duration_s = load.duration_s;
    load.stop = context.stop();
    soak_.max_memory_drift_bytes = memory_mb_ * 1e6;
    soak_.resident = ResidentBytes;
    const auto windows = static_cast<int64_t>(load.duration_s / soak_.window_s);
    soak_.observe = [&](size_t done) {
      context.Progress("soak", std::min(static_cast<int64_t>(done), windows), windows);
    };
    const Environment environment = CaptureEnvironment();
    for (std::string& w : Warnings(environment)) context.Warn(std::move(w));
    INFER_ASSIGN(
        LoadTarget target,
        OpenTarget(context, path_, setup_,
                   load.arrivals != Arrivals::kClosed ? int64_t{1} << 30 : load.concurrency));
    Json report = NewReport(context, "infer-bench/soak@1");
    report["environment"] = ToJson(environment);
    report["target"] = TargetJson(target, setup_);
    report["settings"] = SettingsJson(load);
    const MachineWatch watch;
    context.Step("soak");
    INFER_ASSIGN(const SoakResult r, Soak(*target.engine, soak_));
    const Watched watched = watch.Finish();
    for (std::string& w : Warnings(watched)) context.Warn(std::move(w));
    AddTo(report, r);
    report["watch"] = ToJson(watched);
    INFER_TRY(PredictFor(context, path_, setup_, target));
    report["engine"] = target.served ? target.served->StatsJson() : Json();
    report["interrupted"] = r.load.interrupted;
    Print(context, r);
    if (target.served) context.Print(target.served->StatsTable());
    if (target.served) INFER_TRY(target.served->WriteFiles(context));
    INFER_TRY(html_.Write(context, report));
    INFER_TRY(WriteReport(context, std::move(report)));
    const bool open = r.verdict == DriftVerdict::kInconclusive;
    return GateExit(r.verdict == DriftVerdict::kDrifts || (strict_ && open), open,
                    allow_inconclusive_);
  }

 private:
  double LatencyLimit(const SoakResult& r) const {
    return soak_.max_latency_drift * r.median_ms.level;
  }

  void AddTo(Json& report, const SoakResult& r) const {
    report["window_s"] = soak_.window_s;
    report["skipped_windows"] = r.skipped;
    report["windows"] = Json::array();
    for (const SoakWindow& w : r.windows) report["windows"].push_back(WindowJson(w));
    report["drift"] = {
        {"latency_ms", DriftJson(r.median_ms, LatencyLimit(r))},
        {"p99_ms", DriftJson(r.p99_ms, std::nullopt)},
        {"resident_bytes", DriftJson(r.resident_bytes, soak_.max_memory_drift_bytes)}};
    report["verdict"] = Name(r.verdict);
    report["result"] = ToJson(r.load, false);
  }

  void Print(Context& context, const SoakResult& r) const {
    context.Print(LoadTable(r.load));
    std::vector<double> medians, resident;
    for (const SoakWindow& w : r.windows) {
      if (w.answered > 0) medians.push_back(w.median_ms);
      resident.push_back(static_cast<double>(w.resident_bytes));
    }
    const auto row = [](std::string name, const Drift& d, double unit, std::string limit,
                        std::string verdict, const std::vector<double>& series) {
      const auto shown = [&](const std::optional<double>& v) {
        return v ? Rounded(*v / unit, 3) : std::string("-");
      };
      return std::vector<std::string>{
          std::move(name), Rounded(d.level / unit, 4), shown(d.slope),     shown(d.low),
          shown(d.high),   std::move(limit),           std::move(verdict), Sparkline(series)};
    };
    context.PrintStyled(TextTable(
        {{"drift per hour", "level", "slope", "low", "high", "limit", "verdict", "windows"},
         row("median ms", r.median_ms, 1, Rounded(LatencyLimit(r), 3),
             std::string(Name(r.median_ms.verdict)), medians),
         row("p99 ms", r.p99_ms, 1, "", "", {}),
         row("resident MB", r.resident_bytes, 1e6, Rounded(memory_mb_, 3),
             std::string(Name(r.resident_bytes.verdict)), resident)}));
    context.Print(Cat(Name(r.verdict), " (", r.windows.size(), " windows of ",
                      Rounded(soak_.window_s, 3), " s, the first ", r.skipped, " left out)\n"));
  }

  std::string path_;
  LoadSetup setup_;
  SoakOptions soak_ = {.load = {}, .window_s = 0, .resident = {}};
  double memory_mb_ = 4;
  bool strict_ = false, allow_inconclusive_ = false;
  HtmlOption html_;
  Options::Given arrivals_given_;
  ReplayOptions replay_;
};

}  // namespace

std::unique_ptr<Command> MakeSoakCommand() { return std::make_unique<SoakCommand>(); }

}  // namespace infer
