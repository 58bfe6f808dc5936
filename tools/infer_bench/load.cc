/// infer-bench load: a model under load. Closed and open loops, latency against load, MLPerf's
/// scenarios.
#include <cmath>

#include "lib/support/file.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/bench_json.h"
#include "tools/common/signals.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/load/curve.h"
#include "tools/infer_bench/load/device_use.h"
#include "tools/infer_bench/load/scenario.h"
#include "tools/infer_bench/load/setup.h"
#include "tools/infer_bench/load_predictions.h"
#include "tools/infer_bench/page/page.h"

namespace infer {
namespace {

using namespace bench;  // NOLINT(google-build-using-namespace): the command is a part of it

class LoadCommand : public Command {
 public:
  std::string_view name() const override { return "load"; }
  std::string_view help() const override {
    return "Put a model under load: closed loop, open loop, latency against load, MLPerf scenarios";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench load model.onnx --threads 1 --concurrency 4\n"
           "  infer-bench load model.onnx --threads 1 --rate 50 --duration 30 --json load.json\n"
           "  infer-bench load model.onnx --threads 1 --curve\n"
           "  infer-bench load model.onnx --threads 1 --concurrency 16 --engine --max-batch 8\n"
           "  infer-bench load model.onnx --threads 1 --engine --replay monday.csv\n"
           "  infer-bench load a.onnx --threads 1 --engine --also b.onnx,c.onnx --shares 2,1,1 "
           "--rate 200\n"
           "  infer-bench load model.onnx --scenario server --rate 50 --target-latency 80\n"
           "  infer-bench load model.onnx --device vulkan --lanes 4 --concurrency 8 --utilization "
           "--trace lanes.json\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "ONNX model", true, PathUse::kRead);
    setup_.Declare(o);
    o.Section("Options");
    setup_.serve.Declare(o);
    setup_.predict.Declare(o);
    arrivals_given_ = o.Group([&](Options& group) {
      group.Value("--concurrency", &load_.concurrency, "Closed loop with so many queries in flight",
                  1);
      group.Value("--rate", &load_.rate,
                  "Open loop with so many queries per second; 0: closed loop");
      group.Choice("--arrivals", &arrivals_, {"poisson", "uniform"},
                   "Gaps of the open loop, drawn from --seed");
      group.Value("--duration", &load_.duration_s, "Queries come for at least so many seconds ...");
      group.Value("--min-queries", &min_queries_,
                  "... and are at least so many; 0: as the scenario says");
    });
    replay_.Declare(o);
    o.Value("--max-duration", &load_.max_duration_s, "Queries come for at most so many seconds");
    o.Value("--drain", &load_.drain_s, "So many seconds are answers waited for behind the last");
    o.Value("--keep", &load_.keep, "Raw samples in the report; figures of more are within 0.4 %");
    o.Flag("--curve", &curve_,
           "Open loop at 10 % to 110 % of the measured capacity, --duration seconds each");
    o.Value("--capacity-time", &capacity_s_, "Seconds of the closed loop that finds the capacity");
    o.Choice("--scenario", &scenario_, ScenarioNames(), "A scenario of MLPerf, VALID or INVALID");
    o.Value("--target-latency", &target_ms_, "server: ms that the percentile must not exceed");
    o.Value("--percentile", &percentile_, "Of the scenario; 0: as its rules say");
    o.Value("--samples-per-query", &samples_, "Of the scenario; 0: as its rules say");
    use_.Declare(o);
    html_.Declare(o);
  }

  Result<ExitCode> Run(Context& context) override {
    INFER_TRY(Check());
    load_.arrivals = load_.rate <= 0          ? Arrivals::kClosed
                     : arrivals_ == "uniform" ? Arrivals::kUniform
                                              : Arrivals::kPoisson;
    INFER_ASSIGN(setup_.serve.replay, replay_.Read(arrivals_given_()));
    if (setup_.serve.replay) Replay(*setup_.serve.replay, replay_.speed, /*repeat=*/false, load_);
    load_.seed = setup_.session.inputs.seed;
    load_.stop = context.stop();
    const Environment environment = CaptureEnvironment();
    for (std::string& w : Warnings(environment)) context.Warn(std::move(w));
    const bool one_at_a_time =
        scenario_ == "single-stream" ||
        (scenario_.empty() && !curve_ && load_.arrivals == Arrivals::kClosed);
    INFER_ASSIGN(
        LoadTarget target,
        OpenTarget(context, path_, setup_, one_at_a_time ? load_.concurrency : int64_t{1} << 30));
    if (use_.wanted() && !target.session.program->device())
      return InvalidArgument(
          "--utilization and --trace: nothing of the model runs on a device with a clock of its "
          "own "
          "(--device vulkan)");
    report_ = NewReport(context, "infer-bench/load@1");
    report_["environment"] = ToJson(environment);
    report_["target"] = TargetJson(target, setup_);
    report_["settings"] = SettingsJson(load_);
    for (const char* part :
         {"result", "capacity", "curve", "scenario", "device", "watch", "engine"})
      report_[part] = nullptr;
    KeepLastWords(context);
    const MachineWatch watch;
    INFER_ASSIGN(const ExitCode code, Measure(context, target));
    const Watched watched = watch.Finish();
    for (std::string& w : Warnings(watched)) context.Warn(std::move(w));
    report_["watch"] = ToJson(watched);
    if (target.served) {
      INFER_TRY(PredictFor(context, path_, setup_, target));
      report_["engine"] = target.served->StatsJson();
      context.Print(target.served->StatsTable());
      INFER_TRY(target.served->WriteFiles(context));
    }
    report_["interrupted"] = context.stop().stop_requested();
    SetLastWords({});
    INFER_TRY(html_.Write(context, report_));
    INFER_TRY(WriteReport(context, std::move(report_)));
    return code;
  }

 private:
  Status Check() {
    if (curve_ && !scenario_.empty()) return InvalidArgument("--curve or --scenario, not both");
    if (curve_ && load_.rate > 0)
      return InvalidArgument("--curve finds its rates itself: no --rate");
    if (load_.rate > 0 && load_.concurrency > 1)
      return InvalidArgument("--rate is an open loop, --concurrency a closed one");
    if ((scenario_ == "server") != (target_ms_ > 0))
      return InvalidArgument("--scenario server and --target-latency go together");
    if (scenario_ == "server" && load_.rate <= 0)
      return InvalidArgument("--scenario server: --rate is missing");
    if (!scenario_.empty() && scenario_ != "server" && load_.rate > 0)
      return InvalidArgument(Cat("--scenario ", scenario_, " has no --rate"));
    if (!scenario_.empty() && arrivals_ == "uniform")
      return InvalidArgument("--scenario: arrivals are Poisson's");
    if (curve_ && use_.wanted())
      return InvalidArgument("--utilization and --trace look at one load: no --curve");
    if (use_.wanted() && !setup_.serve.route.empty())
      return InvalidArgument("--utilization and --trace look at one program: no --route");
    if (!setup_.serve.also.empty() && (use_.wanted() || !scenario_.empty()))
      return InvalidArgument("--utilization, --trace and --scenario look at one model: no --also");
    if (percentile_ >= 100) return InvalidArgument("--percentile: below 100");
    if (replay_.wanted() && (curve_ || !scenario_.empty()))
      return InvalidArgument("--replay: --curve and --scenario say when queries come themselves");
    return CheckRate(load_.rate);
  }

  Result<ExitCode> Measure(Context& context, LoadTarget& target) {
    if (curve_) return MeasureCurve(context, target);
    if (!scenario_.empty()) return MeasureScenario(context, target);
    if (min_queries_ > 0) load_.min_queries = min_queries_;
    report_["settings"] = SettingsJson(load_);
    context.Step("load");
    INFER_ASSIGN(const LoadResult r, DriveWatched(context, target, load_));
    report_["result"] = ToJson(r, true);
    WarnOfLag(context, r);
    return kExitOk;
  }

  /// The load that the report is about, with what the device did beside it.
  Result<LoadResult> DriveWatched(Context& context, LoadTarget& target, const LoadOptions& load) {
    Device* const device = use_.wanted() ? target.session.program->device() : nullptr;
    if (device) INFER_TRY(device->StartActivity());
    INFER_ASSIGN(LoadResult r, Drive(*target.engine, load));
    context.Print(LoadTable(r));
    if (!device) return r;
    INFER_ASSIGN(const DeviceActivity activity, device->TakeActivity());
    INFER_ASSIGN(report_["device"],
                 use_.Show(context, target.session.path, device->name(), activity));
    return r;
  }

  /// What the generator itself adds is no figure of the engine.
  static void WarnOfLag(Context& context, const LoadResult& r) {
    if (r.lag.Quantile(0.99) > 0.05 * r.latency.Quantile(0.5) && r.lag.Quantile(0.99) > 0.2)
      context.Warn(Cat("queries were handed over late (p99 ", Rounded(r.lag.Quantile(0.99), 3),
                       " ms): the generator had no processor; latencies contain it"));
  }

  Result<double> Capacity(Context& context, LoadTarget& target) {
    context.Step("capacity");
    INFER_ASSIGN(const LoadResult r, MeasureCapacity(*target.engine, capacity_s_, load_));
    report_["capacity"] = {{"queries_per_s", r.throughput_per_s()},
                           {"samples_per_query", load_.samples_per_query},
                           {"seconds", r.seconds},
                           {"queries", r.answered},
                           {"service_ms", ToJson(r.service)}};
    if (r.throughput_per_s() <= 0 && !r.interrupted)
      return InvalidArgument("no query was answered: a longer --capacity-time");
    return r.throughput_per_s();
  }

  /// In samples per second. Queries of one run would measure how they are handed over where the
  /// model takes microseconds, so they are made to last.
  Result<double> OfflineCapacity(Context& context, LoadTarget& target) {
    constexpr double kQuerySeconds = 0.1;
    const auto batch = static_cast<double>(target.session.batch);
    INFER_ASSIGN(const double runs_per_s, Capacity(context, target));
    const double lasting = std::round(runs_per_s * kQuerySeconds);
    if (lasting <= 1) return runs_per_s * batch;
    load_.samples_per_query = static_cast<int64_t>(lasting * batch);
    INFER_ASSIGN(const double queries_per_s, Capacity(context, target));
    return queries_per_s * lasting * batch;
  }

  Result<ExitCode> MeasureCurve(Context& context, LoadTarget& target) {
    if (min_queries_ > 0) load_.min_queries = min_queries_;
    if (arrivals_ == "uniform") load_.arrivals = Arrivals::kUniform;
    INFER_ASSIGN(const double capacity, Capacity(context, target));
    std::vector<std::vector<std::string>> rows = {
        {"load", "rate/s", "answered/s", "p50 ms", "p99 ms", "max ms", "queue", "longest", ""}};
    report_["curve"] = {{"points", Json::array()}, {"saturated_from", nullptr}};
    Json& curve = report_["curve"];
    const std::vector<double> shares = CurveShares();
    for (size_t i = 0; i < shares.size() && !context.stop().stop_requested(); ++i) {
      context.Progress("load curve", static_cast<int64_t>(i), static_cast<int64_t>(shares.size()));
      INFER_ASSIGN(const CurvePoint p, MeasurePoint(*target.engine, shares[i], capacity, load_));
      curve["points"].push_back({{"share", p.share},
                                 {"rate_per_s", p.rate},
                                 {"saturated", p.saturated},
                                 {"result", ToJson(p.result, false)}});
      if (p.saturated && curve["saturated_from"].is_null()) curve["saturated_from"] = p.rate;
      const auto ms = [&](double q) {
        const Percentile at = p.result.latency.AtQuantile(q);
        return at.value ? Rounded(*at.value, 4) : std::string("-");
      };
      rows.push_back({Cat(Fixed(100 * p.share, 0), " %"), Rounded(p.rate, 4),
                      Rounded(p.result.throughput_per_s(), 4), ms(0.5), ms(0.99),
                      Rounded(p.result.latency.max(), 4), Rounded(p.result.queue_mean, 3),
                      Cat(p.result.queue_max), p.saturated ? "saturated" : ""});
      KeepLastWords(context);
    }
    context.Progress("load curve", static_cast<int64_t>(shares.size()),
                     static_cast<int64_t>(shares.size()));
    context.Print(Cat("capacity: ", Rounded(capacity, 4), " queries per s, ",
                      target.engine->lanes(), " at once\n", TextTable(rows)));
    return kExitOk;
  }

  ScenarioRules Rules() const {
    Scenario s = Scenario::kSingleStream;
    for (Scenario each : {Scenario::kMultiStream, Scenario::kServer, Scenario::kOffline})
      if (Name(each) == scenario_) s = each;
    ScenarioRules rules = OfficialRules(s);
    rules.min_duration_s = load_.duration_s;
    rules.target_latency_ms = target_ms_;
    if (min_queries_ > 0) rules.min_queries = min_queries_;
    if (percentile_ > 0) rules.quantile = percentile_ / 100;
    if (samples_ > 0) rules.samples_per_query = samples_;
    return rules;
  }

  Result<ExitCode> MeasureScenario(Context& context, LoadTarget& target) {
    const ScenarioRules rules = Rules();
    double samples_per_s = 0;
    if (rules.scenario == Scenario::kOffline) {
      INFER_ASSIGN(samples_per_s, OfflineCapacity(context, target));
    }
    const LoadOptions load = LoadOf(rules, samples_per_s, load_);
    if (rules.scenario == Scenario::kOffline && samples_per_s > 0)
      context.Note(Cat("one query of ", load.samples_per_query, " samples, about ",
                       Fixed(static_cast<double>(load.samples_per_query) / samples_per_s, 0),
                       " s"));
    report_["settings"] = SettingsJson(load);
    context.Step("load");
    INFER_ASSIGN(const LoadResult r, DriveWatched(context, target, load));
    const ScenarioVerdict v = Judge(rules, load, r);
    const std::vector<std::string> deviations = Deviations(rules);
    report_["result"] = ToJson(r, true);
    report_["scenario"] = {
        {"name", scenario_},
        {"rules",
         "LoadGen (github.com/mlcommons/inference, loadgen): early stopping d = 0, c = 0.99"},
        {"verdict", v.valid() ? "VALID" : "INVALID"},
        {"reasons", v.reasons},
        {"deviations", deviations},
        {"metric", v.metric},
        {"value", v.value ? Json(*v.value) : Json()},
        {"percentile", rules.quantile * 100},
        {"target_latency_ms", target_ms_ > 0 ? Json(target_ms_) : Json()},
        {"over_target", v.over_target},
        {"samples_per_query", load.samples_per_query},
        {"min_duration_s", rules.min_duration_s},
        {"min_queries", rules.min_queries},
        {"min_duration_met", v.min_duration_met},
        {"min_queries_met", v.min_queries_met},
        {"early_stopping_met", v.early_stopping_met},
        {"target_met", v.target_met}};
    context.Print(Cat(scenario_, ": ", v.valid() ? "VALID" : "INVALID", ", ", v.metric, ": ",
                      v.value ? Rounded(*v.value, 5) : "-", "\n"));
    for (const std::string& reason : v.reasons) context.Print(Cat("  ", reason, "\n"));
    for (const std::string& d : deviations) context.Print(Cat("  not by the book: ", d, "\n"));
    return v.valid() ? kExitOk : kExitGateFailed;
  }

  /// For a run that does not end within a second of a signal.
  void KeepLastWords(const Context& context) {
    const std::string path = context.json_path == "-" ? "" : context.json_path;
    if (path.empty() && !html_.wanted()) return;
    Json partial = report_;
    partial["interrupted"] = true;
    SetLastWords(
        [path, text = ReportText(context, partial), page = html_.LastWords(context, partial)] {
          if (!path.empty()) (void)WriteFileAtomically(path, text);
          if (page) page();
        });
  }

  std::string path_;
  LoadSetup setup_;
  LoadOptions load_;
  std::string arrivals_ = "poisson";
  Options::Given arrivals_given_;
  ReplayOptions replay_;
  int64_t min_queries_ = 0, samples_ = 0;
  bool curve_ = false;
  double capacity_s_ = 3;
  std::string scenario_;
  double target_ms_ = 0, percentile_ = 0;
  DeviceUseOptions use_;
  HtmlOption html_;
  Json report_;
};

}  // namespace

std::unique_ptr<Command> MakeLoadCommand() { return std::make_unique<LoadCommand>(); }

}  // namespace infer
