/// infer-bench compare: is B slower than A? Two models, two settings or two binaries, measured live
/// and interleaved, with a verdict that a build may depend on.
#include <algorithm>
#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tools/common/host.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/compare/live.h"
#include "tools/infer_bench/peers/machine.h"

namespace infer {
namespace {

constexpr double kBusyCores = 0.5;

class BenchCompareCommand : public Command {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view help() const override {
    return "Say whether one model, setting or binary is slower than another";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench compare before.onnx after.onnx --fail-above 5%\n"
           "  infer-bench compare model.onnx --a threads=1 --b threads=2\n"
           "  infer-bench compare model.onnx --a binary=old/infer-bench --budget 60 --json "
           "v.json\n";
  }
  void Declare(Options& o) override {
    o.Positional("models", &paths_, "ONNX model A and model B; one stands for both", true,
                 PathUse::kRead);
    o.Values("--a", &set_[0], "Settings of A alone: KEY=VALUE, see below");
    o.Values("--b", &set_[1], "Settings of B alone");
    model_.Declare(o);
    inputs_.Declare(o);
    data_.Declare(o, "", "Inputs: the first sample");
    o.Choice("--device", &device_.device, DeviceNames(), "Where both run");
    o.Value("--threads", &threads_, "Threads of both", 1);
    o.Value("--level", &device_.level, "Level of both, as for run");
    o.Choice("--rewrites", &rewrites_, {kLevelNames.begin(), kLevelNames.end()},
             "What is rewritten while a model is loaded; see infer-opt fuse");
    o.Value("--budget", &live_.budget_s, "Seconds of measuring, about");
    o.Share("--min-effect", &decision_.min_effect, "Smaller differences are none (1.5%)");
    o.Share("--fail-above", &fail_above_,
            "Exit with 1 where B is slower by more than this (0%: by anything that counts)");
    o.Flag("--strict", &strict_, "Exit with 1 where nothing can be said, too");
    o.Value("--max-starts", &decision_.max_starts, "At most so many starts of both sides", 4);
    o.Value("--rounds", &live_.rounds, "Blocks of each side in a start", 3);
    o.Value("--block-time", &live_.block_s, "Seconds that a block takes, about");
    o.Value("--warmup-time", &live_.warmup_s, "At most so many seconds of warm-up per start");
    o.Value("--timeout", &live_.timeout_s, "Seconds after which a silent side is ended");
    o.Value("--lock", &lock_, "File that measurements on this machine lock in turn");
    o.Explain(
        "Settings of one side: threads=N, level=N, device=NAME, rewrites=NAME,\n"
        "binary=FILE (another infer-bench), env:NAME=VALUE.\n"
        "Verdicts: same, faster, slower, inconclusive. Exit code 1: B is slower (--fail-above).\n");
  }

  Result<ExitCode> Run(Context& context) override {
    INFER_TRY(ReadSides());
    const HostFacts host = GetHostFacts();
    if (host.build_type != "release") context.Warn("this is a debug build");
    INFER_ASSIGN(const auto scratch, peers::ScratchFolder::Make());
    std::vector<peers::PreparedModel> prepared;
    for (size_t k : {0, 1}) {
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
    Decision decision(decision_);
    const auto tenths = [](double s) { return static_cast<int64_t>(s * 10); };
    INFER_ASSIGN(const LiveComparison live,
                 CompareLive(sides_, prepared, scratch->path(), live_, decision, [&](double s) {
                   context.Progress("measure", std::min(tenths(s), tenths(live_.budget_s) - 1),
                                    tenths(live_.budget_s));
                 }));
    context.Progress("measure", tenths(live_.budget_s), tenths(live_.budget_s));
    return Conclude(context, prepared, live, decision);
  }

 private:
  Status ReadSides() {
    if (paths_.size() > 2) return InvalidArgument("two models at most: A and B");
    if (live_.budget_s <= 0 || live_.block_s <= 0 || live_.timeout_s <= 0)
      return InvalidArgument("--budget, --block-time and --timeout: more than 0");
    if (decision_.min_effect <= 0) return InvalidArgument("--min-effect: more than 0");
    if (data_.given() && !inputs_.input.empty())
      return InvalidArgument("--data and --input both give the inputs");
    for (size_t k : {0, 1}) {
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
      const auto names = DeviceNames();
      if (std::find(names.begin(), names.end(), value) == names.end())
        return wrong(Cat("one of ", Join(names, ", ")));
      side.device.device = value;
    } else if (key == "rewrites") {
      if (std::find(kLevelNames.begin(), kLevelNames.end(), value) == kLevelNames.end())
        return wrong("no level of that name");
      side.rewrites = value;
    } else if (key == "threads" || key == "level") {
      const auto n = ParseInt(value);
      const int64_t most = key == "level" ? 2 : 4096, least = key == "level" ? 0 : 1;
      if (!n || *n < least || *n > most) return wrong(Cat(least, " to ", most));
      (key == "level" ? side.device.level : side.device.threads) = static_cast<int>(*n);
    } else {
      return wrong("the keys are threads, level, device, rewrites, binary and env:NAME");
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
              {"rewrites", side.rewrites},
              {"environment", side.environment}};
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
                            const LiveComparison& live, const Decision& decision) {
    Json report = NewReport(context, "infer-bench/compare@1");
    report["settings"] = {{"budget_seconds", live_.budget_s},
                          {"min_effect", decision_.min_effect},
                          {"fail_above", fail_above_},
                          {"strict", strict_},
                          {"rounds", live_.rounds},
                          {"block_seconds", live_.block_s},
                          {"warmup_seconds", live_.warmup_s},
                          {"max_starts", decision_.max_starts},
                          {"seed", live_.seed}};
    report["sides"] = Json::array();
    for (size_t k : {0, 1}) report["sides"].push_back(SideJson(sides_[k], prepared[k], live, k));
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
    report["effect"] = Json();
    bool fails = strict_ && !decision.decided();
    if (decision.starts() > 0) {
      const Estimate e = decision.Effect();
      report["effect"] = {{"value", JsonNumber(e.value)},
                          {"ci95", {JsonNumber(e.low), JsonNumber(e.high)}},
                          {"of_medians", JsonNumber(MedianEffect(live))}};
      fails = fails || (decision.verdict() == Verdict::kSlower && e.value > fail_above_);
      Show(context, live, decision, e);
    }
    if (live.interrupted) context.Warn("interrupted: what was measured so far");
    report["passed"] = !fails;
    INFER_TRY(WriteReport(context, std::move(report)));
    return fails ? kExitGateFailed : kExitOk;
  }

  static double MedianEffect(const LiveComparison& live) {
    std::vector<double> ratios;
    for (const StartRecord& s : live.starts) ratios.push_back(s.median_log_ratio);
    return std::expm1(Quantile(ratios, 0.5));
  }

  void Show(Context& context, const LiveComparison& live, const Decision& decision,
            const Estimate& e) const {
    const auto percent = [](double share) {
      return std::isfinite(share) ? Cat(share > 0 ? "+" : "", Fixed(share * 100, 2), " %") : "?";
    };
    std::vector<std::vector<std::string>> rows = {
        {"side", "model", "threads", "fastest ms", "median ms", "load ms", "first ms"}};
    for (size_t k : {0, 1})
      rows.push_back({k == 0 ? "A" : "B", sides_[k].model, Cat(sides_[k].device.threads),
                      Fixed(MedianOf(live, &StartRecord::fastest_ms, k), 3),
                      Fixed(MedianOf(live, &StartRecord::median_ms, k), 3),
                      Fixed(MedianOf(live, &StartRecord::load_ms, k), 1),
                      Fixed(MedianOf(live, &StartRecord::first_ms, k), 3)});
    context.Print(TextTable(rows));
    double load = 0;
    for (const StartRecord& s : live.starts)
      load += s.other_load / static_cast<double>(live.starts.size());
    context.PrintLine(Cat("B takes ", percent(e.value), " (95 % interval ", percent(e.low), " to ",
                          percent(e.high), "; of medians ", percent(MedianEffect(live)), "), ",
                          decision.starts(), " starts in ", Fixed(live.seconds, 1), " s"));
    for (const Attempt& a : decision.attempts())
      if (a.outcome != "go on")
        context.PrintLine(Cat("  ", a.starts, a.confirming ? " further starts: " : " starts: ",
                              percent(a.effect.value), " (", percent(a.effect.low), " to ",
                              percent(a.effect.high), "): ", a.outcome));
    context.PrintLine(Cat(
        "B is ",
        decision.decided() ? "" : "perhaps slower, perhaps not: ", Name(decision.verdict()),
        decision.verdict() == Verdict::kSame ? Cat(" (within ", percent(decision_.min_effect), ")")
                                             : ""));
    if (load > kBusyCores)
      context.Warn(Cat("other processes used ", Fixed(load, 1), " cores meanwhile"));
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
  double fail_above_ = 0;
  bool strict_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeBenchCompareCommand() {
  return std::make_unique<BenchCompareCommand>();
}

}  // namespace infer
