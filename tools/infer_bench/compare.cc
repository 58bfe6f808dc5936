/// infer-bench compare: is B slower than A? Two models, two settings or two binaries, measured live
/// and interleaved, with a verdict that a build may depend on.
#include <algorithm>
#include <cmath>
#include <optional>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tools/common/host.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/compare/live.h"
#include "tools/infer_bench/compare/saved_run.h"
#include "tools/infer_bench/peers/machine.h"

namespace infer {
namespace {

constexpr double kBusyCores = 0.5;

class BenchCompareCommand : public Command {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view help() const override {
    return "Say whether one model, setting, binary or report is slower than another";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench compare before.onnx after.onnx --fail-above 5%\n"
           "  infer-bench compare model.onnx --a threads=1 --b threads=2\n"
           "  infer-bench compare model.onnx --a binary=old/infer-bench --budget 60 --json "
           "v.json\n"
           "  infer-bench compare before.json after.json --history history.jsonl\n";
  }
  void Declare(Options& o) override {
    o.Positional("models", &paths_,
                 "ONNX model A and model B (one stands for both), or two reports (.json)", true,
                 PathUse::kRead);
    o.Values("--a", &set_[0], "Settings of A alone: KEY=VALUE, see below");
    o.Values("--b", &set_[1], "Settings of B alone");
    model_.Declare(o);
    inputs_.Declare(o);
    data_.Declare(o, "", "Inputs: the first sample");
    o.Section("Options");
    DeclareDevice(o, &device_.device, "Where both run");
    o.Value("--threads", &threads_, "Threads of both", 1);
    o.Value("--level", &device_.level, "Level of both, as for run");
    device_.DeclareCompute(o);
    device_.DeclareMemory(o);
    o.Section("Options");
    o.Choice("--rewrites", &rewrites_, {kLevelNames.begin(), kLevelNames.end()},
             "What is rewritten while a model is loaded; see infer-opt fuse");
    o.Value("--budget", &live_.budget_s, "Seconds of measuring, about");
    telling_.Declare(o);
    o.Section("Options");
    o.Value("--max-starts", &decision_.max_starts, "At most so many starts of both sides",
            DecisionOptions::kLeastMaxStarts);
    o.Value("--rounds", &live_.rounds, "Blocks of each side in a start", 3);
    o.Value("--block-time", &live_.block_s, "Seconds that a block takes, about");
    o.Value("--warmup-time", &live_.warmup_s, "At most so many seconds of warm-up per start");
    o.Value("--timeout", &live_.timeout_s, "Seconds after which a silent side is ended");
    o.Value("--lock", &lock_, "File that measurements on this machine lock in turn");
    o.Explain(
        "Settings of one side: threads=N, level=N, compute=f32, bf16 or f16, device=NAME,\n"
        "rewrites=NAME, binary=FILE (another infer-bench), env:NAME=VALUE. Of reports of run, "
        "compare or Google\n"
        "Benchmark: report=FILE (a further start of the same), side=a or b (of a comparison; b).\n"
        "Verdicts: same, faster, slower, inconclusive. Exit code 1: B is slower (--fail-above).\n");
  }

  Result<ExitCode> Run(Context& context) override {
    if (OfReports()) return CompareReports(context);
    INFER_TRY(ReadSides());
    for (const CompareSide& side : sides_) INFER_TRY(TellCompute(context, side.device));
    INFER_ASSIGN(const History history, telling_.Read(context));
    const HostFacts host = GetHostFacts();
    if (host.build_type != "release") context.Warn("this is a debug build");
    INFER_ASSIGN(const auto scratch, ScratchFolder::Make());
    std::vector<peers::PreparedModel> prepared;
    for (size_t k : {0u, 1u}) {
      context.Step(Cat("prepare ", sides_[k].model));
      auto p = peers::Prepare(context, sides_[k].model, model_, inputs_, data_);
      if (!p.ok()) return std::move(p.status()).In(sides_[k].model);
      prepared.push_back(*std::move(p));
      if (!prepared[k].inputs.random.empty())
        context.Note(Cat(sides_[k].model, ": ", prepared[k].inputs.ToString(inputs_.seed)));
    }
    INFER_ASSIGN(const auto lock, peers::MeasuringLock::Take(lock_, context.stop(), [&] {
                   context.Note(Cat("waiting for ", lock_, ", which another measurement holds"));
                 }));
    context.Step("measure");
    live_.seed = inputs_.seed;
    live_.stop = context.stop();
    live_.external_root = model_.external_root;
    live_.lenient = model_.lenient;
    const Json series = Series(prepared, host);
    const auto floor = LearnFloor(history.entries, series, "live");
    decision_.min_effect = std::max(telling_.min_effect, floor ? floor->share : 0);
    Decision decision(decision_);
    const auto tenths = [](double s) { return static_cast<int64_t>(s * 10); };
    INFER_ASSIGN(const LiveComparison live,
                 CompareLive(sides_, prepared, scratch->path(), live_, decision, [&](double s) {
                   context.Progress("measure", std::min(tenths(s), tenths(live_.budget_s) - 1),
                                    tenths(live_.budget_s));
                 }));
    context.Progress("measure", tenths(live_.budget_s), tenths(live_.budget_s));
    return Conclude(context, prepared, live, decision, series, floor);
  }

 private:
  bool OfReports() const {
    return std::all_of(paths_.begin(), paths_.end(),
                       [](const std::string& p) { return p.ends_with(".json"); });
  }

  Result<ExitCode> CompareReports(Context& context) {
    if (paths_.size() != 2) return InvalidArgument("two reports are wanted: A and B");
    std::vector<std::string> reports[2];
    size_t of_compare[2] = {1, 1};
    for (size_t k : {0u, 1u}) {
      reports[k].push_back(paths_[k]);
      for (const std::string& text : set_[k]) {
        if (text.starts_with("report="))
          reports[k].push_back(text.substr(7));
        else if (text == "side=a" || text == "side=b")
          of_compare[k] = text == "side=a" ? 0 : 1;
        else
          return InvalidArgument(Cat(text, ": reports take report=FILE and side=a or b"));
      }
    }
    return RunSaved(context, reports, of_compare, telling_);
  }

  /// What two comparisons have to share for one to tell of the other's noise.
  Json Series(const std::vector<peers::PreparedModel>& prepared, const HostFacts& host) const {
    Json series = {{"machine",
                    {{"cpu", host.cpu_model},
                     {"isa", host.isa},
                     {"logical_cpus", host.logical_cpus},
                     {"build_type", host.build_type}}}};
    if (!telling_.series.empty()) {
      series["name"] = telling_.series;
      return series;
    }
    for (size_t k : {0u, 1u})
      series[k == 0 ? "a" : "b"] = {
          {"model", infer::ToJson(prepared[k].model, sides_[k].model)["sha256"]},
          {"inputs", prepared[k].inputs.ToString(inputs_.seed)},
          {"device", sides_[k].device.device},
          {"threads", sides_[k].device.threads},
          {"level", sides_[k].device.level},
          {"rewrites", sides_[k].rewrites},
          {"environment", sides_[k].environment}};
    // What was written before there was a choice was f32.
    for (size_t k : {0u, 1u}) {
      Json& side = series[k == 0 ? "a" : "b"];
      if (sides_[k].device.computes() != Compute::kF32) side["compute"] = sides_[k].device.compute;
      if (sides_[k].device.memory != "fast") side["memory"] = sides_[k].device.memory;
    }
    return series;
  }

  Status ReadSides() {
    if (paths_.size() > 2) return InvalidArgument("two models at most: A and B");
    if (live_.budget_s <= 0 || live_.block_s <= 0 || live_.timeout_s <= 0)
      return InvalidArgument("--budget, --block-time and --timeout: more than 0");
    if (telling_.min_effect <= 0) return InvalidArgument("--min-effect: more than 0");
    if (data_.given() && !inputs_.input.empty())
      return InvalidArgument("--data and --input both give the inputs");
    for (size_t k : {0u, 1u}) {
      CompareSide& side = sides_[k];
      side.model = paths_[std::min(k, paths_.size() - 1)];
      side.device = device_;
      side.device.threads = threads_;
      side.rewrites = rewrites_;
      for (const std::string& text : set_[k]) INFER_TRY(Set(side, text, k == 0 ? "--a" : "--b"));
    }
    return {};
  }

  static Status Set(CompareSide& side, const std::string& text, const char* option) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0)
      return InvalidArgument(Cat(option, " ", text, ": write KEY=VALUE"));
    const std::string key = text.substr(0, at), value = text.substr(at + 1);
    const auto wrong = [&](std::string_view what) {
      return InvalidArgument(Cat(option, " ", text, ": ", what));
    };
    if (key == "binary") {
      side.binary = value;
    } else if (key.starts_with("env:")) {
      side.environment.push_back(text.substr(4));
    } else if (key == "device") {
      if (const std::string why = RefuseDevice(value); !why.empty()) return wrong(why);
      side.device.device = value;
    } else if (key == "rewrites") {
      if (std::find(kLevelNames.begin(), kLevelNames.end(), value) == kLevelNames.end())
        return wrong("no level of that name");
      side.rewrites = value;
    } else if (key == "compute") {
      if (!ComputeOf(value)) return wrong("f32 or bf16");
      side.device.compute = value;
    } else if (key == "memory") {
      if (value != "fast" && value != "low") return wrong("fast or low");
      side.device.memory = value;
    } else if (key == "threads" || key == "level") {
      const auto n = ParseInt(value);
      const int64_t most = key == "level" ? 2 : 4096, least = key == "level" ? 0 : 1;
      if (!n || *n < least || *n > most) return wrong(Cat(least, " to ", most));
      (key == "level" ? side.device.level : side.device.threads) = static_cast<int>(*n);
    } else {
      return wrong(
          "the keys are threads, level, compute, memory, device, rewrites, binary and env:NAME");
    }
    return {};
  }

  static double MedianOf(const LiveComparison& live, double (StartRecord::*field)[2], size_t side) {
    std::vector<double> values;
    for (const StartRecord& s : live.starts) values.push_back((s.*field)[side]);
    return Quantile(values, 0.5);
  }

  Json SideJson(const CompareSide& side, const peers::PreparedModel& prepared,
                const LiveComparison& live, size_t k) const {
    Json j = {{"model", infer::ToJson(prepared.model, side.model)},
              {"binary", side.binary.empty() ? Json() : Json(side.binary)},
              {"device", side.device.device},
              {"threads", side.device.threads},
              {"level", side.device.level},
              {"compute", side.device.compute},
              {"memory", side.device.memory},
              {"rewrites", side.rewrites},
              {"environment", side.environment},
              {"brought_back_threads", live.brought_back[k]}};
    j["starts"] = Json::array();
    for (const StartRecord& s : live.starts)
      j["starts"].push_back({{"fastest_ms", s.fastest_ms[k]},
                             {"median_ms", s.median_ms[k]},
                             {"load_ms", s.load_ms[k]},
                             {"first_ms", s.first_ms[k]},
                             {"runs_of_block", s.runs_of_block[k]},
                             {"samples_ms", s.samples_ms[k]},
                             {"undisturbed_ms", s.undisturbed_ms[k]}});
    return j;
  }

  Result<ExitCode> Conclude(Context& context, const std::vector<peers::PreparedModel>& prepared,
                            const LiveComparison& live, const Decision& decision,
                            const Json& series, const std::optional<NoiseFloor>& floor) {
    Json report = NewReport(context, "infer-bench/compare@1");
    report["settings"] = {{"budget_seconds", live_.budget_s},
                          {"min_effect", decision_.min_effect},
                          {"fail_above", telling_.fail_above},
                          {"strict", telling_.strict},
                          {"rounds", live_.rounds},
                          {"block_seconds", live_.block_s},
                          {"warmup_seconds", live_.warmup_s},
                          {"max_starts", decision_.max_starts},
                          {"seed", live_.seed}};
    report["sides"] = Json::array();
    for (size_t k : {0u, 1u}) report["sides"].push_back(SideJson(sides_[k], prepared[k], live, k));
    report["seconds"] = live.seconds;
    report["cpus"] = live.cpus;
    report["attempts"] = Json::array();
    for (const Attempt& a : decision.attempts())
      report["attempts"].push_back(
          {{"starts", a.starts},
           {"confirming", a.confirming},
           {"effect", JsonNumber(a.effect.value)},
           {"interval", {JsonNumber(a.effect.low), JsonNumber(a.effect.high)}},
           {"outcome", a.outcome}});
    report["interrupted"] = live.interrupted;
    report["verdict"] = Name(decision.verdict());
    report["noise_floor"] =
        floor ? Json{{"share", floor->share}, {"comparisons", floor->comparisons}} : Json();
    report["effect"] = Json();
    Conclusion c = Concluded(live, decision);
    if (floor)
      c.basis +=
          Cat(", noise floor ", Percent(floor->share), " of ", floor->comparisons, " before");
    telling_.Gate(c);
    if (c.measured) {
      report["effect"] = {{"value", JsonNumber(c.effect.value)},
                          {"ci95", {JsonNumber(c.effect.low), JsonNumber(c.effect.high)}},
                          {"of_medians", JsonNumber(MedianEffect(live))}};
      Show(context, live, decision, c);
      if (!telling_.history.empty() && !live.interrupted)
        INFER_TRY(AppendHistory(
            telling_.history,
            {"live", series, c.effect.value, MedianOf(live, &StartRecord::fastest_ms, 1),
             decision.starts(), std::string(Name(c.verdict)), UtcNow()}));
    }
    INFER_TRY(telling_.Tell(context, {c}));
    if (live.interrupted) context.Warn("interrupted: what was measured so far");
    report["passed"] = !c.fails;
    INFER_TRY(telling_.WritePage(context, report));
    INFER_TRY(WriteReport(context, std::move(report)));
    return GateExit(c.fails, c.verdict == Verdict::kInconclusive, telling_.allow_inconclusive);
  }

  static double MedianEffect(const LiveComparison& live) {
    std::vector<double> ratios;
    for (const StartRecord& s : live.starts) ratios.push_back(s.median_log_ratio);
    return std::expm1(Quantile(ratios, 0.5));
  }

  Conclusion Concluded(const LiveComparison& live, const Decision& decision) const {
    Conclusion c;
    c.title = sides_[0].model == sides_[1].model
                  ? sides_[0].model
                  : Cat(sides_[0].model, " against ", sides_[1].model);
    c.verdict = decision.verdict();
    c.min_effect = decision_.min_effect;
    c.measured = decision.starts() > 0;
    if (!c.measured) return c;
    c.effect = decision.Effect();
    c.suspected = decision.suspecting();
    c.a_ms = Fixed(MedianOf(live, &StartRecord::fastest_ms, 0), 3);
    c.b_ms = Fixed(MedianOf(live, &StartRecord::fastest_ms, 1), 3);
    c.basis = Cat(decision.starts(), " starts in ", Fixed(live.seconds, 1), " s");
    if (!decision.decided())
      c.reason = live.interrupted                           ? "interrupted"
                 : decision.starts() < decision_.max_starts ? "the budget is used up"
                                                            : "--max-starts are used up";
    return c;
  }

  void Show(Context& context, const LiveComparison& live, const Decision& decision,
            const Conclusion& c) const {
    double load = 0;
    for (const StartRecord& s : live.starts)
      load += s.other_load / static_cast<double>(live.starts.size());
    if (load > kBusyCores)
      context.Warn(Cat("other processes used ", Fixed(load, 1), " cores meanwhile"));
    if (telling_.format != "table") return;
    std::vector<std::vector<std::string>> rows = {
        {"side", "model", "threads", "fastest ms", "median ms", "load ms", "first ms"}};
    for (size_t k : {0u, 1u})
      rows.push_back({k == 0 ? "A" : "B", sides_[k].model, Cat(sides_[k].device.threads),
                      Fixed(MedianOf(live, &StartRecord::fastest_ms, k), 3),
                      Fixed(MedianOf(live, &StartRecord::median_ms, k), 3),
                      Fixed(MedianOf(live, &StartRecord::load_ms, k), 1),
                      Fixed(MedianOf(live, &StartRecord::first_ms, k), 3)});
    context.Print(TextTable(rows));
    context.PrintLine(
        Cat(c.basis, "; the ratio of the wall medians: ", Percent(MedianEffect(live))));
    for (const Attempt& a : decision.attempts())
      if (a.outcome != "go on")
        context.PrintLine(Cat("  ", a.starts, a.confirming ? " further starts: " : " starts: ",
                              Percent(a.effect.value), " (", Percent(a.effect.low), " to ",
                              Percent(a.effect.high), "): ", a.outcome));
    context.PrintLine(Sentence(c));
  }

  std::vector<std::string> paths_, set_[2];
  CompareSide sides_[2];
  int threads_ = 1;
  std::string rewrites_ = kLevelNames.back(), lock_ = peers::MeasuringLock::DefaultPath();
  ModelOptions model_;
  InputOptions inputs_;
  DataFlags data_;
  DeviceOptions device_;
  LiveOptions live_;
  DecisionOptions decision_;
  TellingOptions telling_;
};

}  // namespace

std::unique_ptr<Command> MakeBenchCompareCommand() {
  return std::make_unique<BenchCompareCommand>();
}

}  // namespace infer
