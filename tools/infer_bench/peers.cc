/// infer-bench peers: our runtime beside others, in one run, with what a fair comparison takes.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "lib/support/file.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tools/common/host.h"
#include "tools/common/pinning.h"
#include "tools/common/roundoff.h"
#include "tools/common/self.h"
#include "tools/engines/python_files.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/peers/infer_worker.h"
#include "tools/infer_bench/peers/machine.h"
#include "tools/infer_bench/peers/peers_report.h"

namespace infer {
namespace {

using namespace peers;  // NOLINT: one command of this folder

constexpr double kTinyMs = 0.1;

/// The Python worker of an engine, by the engine's name.
std::string WorkerFileOf(const std::string& engine) { return engine + "_worker.py"; }

class PeersCommand : public Command {
 public:
  std::string_view name() const override { return "peers"; }
  std::string_view help() const override {
    return "Compare latencies with other runtimes in one run";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench peers model.onnx --threads 1\n"
           "  infer-bench peers a.onnx b.onnx --engines infer,ort,openvino --threads 1,2 "
           "--json peers.json\n"
           "  infer-bench peers model.onnx --python venv/bin/python --max-ratio 1.05 --strict\n";
  }
  void Declare(Options& o) override {
    o.Positional("models", &paths_, "ONNX models", true, PathUse::kRead);
    o.Values("--engines", &engines_,
             "The engines; the first is compared with each other one (infer, ort, openvino; "
             "default: all)");
    o.Values("--worker", &workers_,
             "A further engine: NAME=FILE.py, with peers_protocol at hand to import",
             PathUse::kRead);
    o.Value("--python", &python_, "The Python of the other engines' packages");
    o.Flag("--skip-missing", &skip_missing_, "Go on without engines that are not installed");
    o.Values("--threads", &threads_, "Threads of a run, one measurement for each number (1)");
    model_.Declare(o);
    inputs_.Declare(o);
    data_.Declare(o, "", "Inputs: the first sample");
    o.Section("Options");
    DeclareDevice(o, &device_.device, "Where infer runs");
    o.Value("--level", &device_.level, "Level of infer, as for run");
    device_.DeclareCompute(o);
    device_.DeclareMemory(o);
    o.Section("Options");
    o.Choice("--rewrites", &rewrites_, {kLevelNames.begin(), kLevelNames.end()},
             "What infer rewrites while it loads the model, as its peers do; see infer-opt fuse");
    o.Value("--rounds", &contest_.rounds, "Undisturbed rounds that a verdict takes", 3);
    o.Value("--max-rounds", &max_rounds_,
            "At most so many with the disturbed; 0: three times as many");
    o.Value("--starts", &starts_,
            "Start every engine so many times, at least twice; the rounds are shared out among the "
            "starts; 0: six times, where there are as many rounds");
    o.Value("--block-time", &contest_.block_s, "Seconds that an engine runs in a round, about");
    o.Value("--warmup-time", &contest_.warmup_s, "At most so many seconds of warm-up per engine");
    o.Value("--max-other-load", &contest_.max_other_load,
            "Cores that other processes may use before a round counts as disturbed");
    o.Value("--timeout", &contest_.timeout_s, "Seconds after which a silent engine is ended");
    o.Value("--tolerance", &rule_.max_ratio, "Largest max|d| / max|peer| of equal outputs");
    o.Value("--quantized-tolerance", &rule_.rms_ratio,
            "Largest rms(d) / rms(peer) where activations are quantized");
    o.Value("--max-ratio", &max_ratio_,
            "Fail where the first engine takes more than so many times a peer's time; 0: no gate");
    o.Flag("--strict", &strict_, "Fail where nothing can be said, too");
    o.Flag("--allow-inconclusive", &allow_inconclusive_,
           "--max-ratio passes where nothing can be said (else exit code 6)");
    o.Value("--lock", &lock_, "File that measurements on this machine lock in turn");
  }

  Result<ExitCode> Run(Context& context) override {
    INFER_TRY(CheckOptions());
    INFER_TRY(TellCompute(context, device_));
    if (GetHostFacts().build_type != "release") context.Warn("this is a debug build");
    INFER_ASSIGN(const auto scratch, ScratchFolder::Make());
    INFER_TRY(WritePythonFiles(scratch->path()));
    INFER_ASSIGN(std::vector<EngineState> engines, Engines(context, scratch->path()));
    Json report = NewReport(context, "infer-bench/peers@1");
    report["settings"] = Settings();
    report["engines"] = Json::array();
    report["results"] = Json::array();
    report["geometric_means"] = Json::array();
    report["interrupted"] = false;
    const bool complete = Missing(context, engines, report);
    if (!complete) {
      INFER_TRY(WriteReport(context, std::move(report)));
      return kExitUnsupported;
    }
    std::vector<EngineSpec> present;
    for (const EngineState& e : engines)
      if (e.failure.empty()) present.push_back(e.spec);
    INFER_TRY(Measure(context, present, scratch->path(), report));
    const auto means = GeometricRows(outcomes_);
    for (const GeometricRow& m : means) report["geometric_means"].push_back(peers::ToJson(m));
    if (!outcomes_.empty()) context.Print(OutcomeTable(outcomes_, means));
    INFER_TRY(WriteReport(context, std::move(report)));
    return Verdict(context);
  }

 private:
  Status CheckOptions() {
    if (engines_.empty()) engines_ = {"infer", "ort", "openvino"};
    for (const std::string& text : workers_) {
      const size_t at = text.find('=');
      if (at == 0 || at == std::string::npos)
        return InvalidArgument(Cat("--worker ", text, ": write NAME=FILE.py"));
      const std::string name = text.substr(0, at);
      own_workers_[name] = text.substr(at + 1);
      if (std::find(engines_.begin(), engines_.end(), name) == engines_.end())
        engines_.push_back(name);
    }
    if (std::set<std::string>(engines_.begin(), engines_.end()).size() != engines_.size())
      return InvalidArgument("--engines: one is named twice");
    if (threads_.empty()) threads_ = {"1"};
    for (const std::string& text : threads_) {
      const auto n = ParseInt(text);
      if (!n || *n < 1 || *n > 4096) return InvalidArgument(Cat("--threads ", text, ": 1 or more"));
      INFER_TRY(FirstCpus(static_cast<int>(*n)).status());
      thread_numbers_.push_back(static_cast<int>(*n));
    }
    if (device_.level > 2) return InvalidArgument(Cat("--level ", device_.level, ": 0, 1 or 2"));
    if (device_.computes() != Compute::kF32)
      rule_.max_ratio = std::max(rule_.max_ratio, ToleranceOf(device_.computes()));
    if (contest_.block_s <= 0 || contest_.timeout_s <= 0)
      return InvalidArgument("--block-time and --timeout: more than 0");
    if (data_.given() && !inputs_.input.empty())
      return InvalidArgument("--data and --input both give the inputs");
    contest_.max_rounds = max_rounds_ > 0 ? max_rounds_ : 3 * contest_.rounds;
    if (contest_.max_rounds < contest_.rounds)
      return InvalidArgument("--max-rounds is less than --rounds");
    if (starts_ == 1) return InvalidArgument("--starts: one start has no interval");
    contest_.starts = starts_ > 0 ? starts_ : std::min(contest_.starts, contest_.rounds);
    if (contest_.starts > contest_.rounds) return InvalidArgument("--starts is more than --rounds");
    contest_.seed = inputs_.seed;
    return {};
  }

  Result<EngineSpec> SpecOf(const std::string& name, const std::string& folder) const {
    if (name == "infer") {
      INFER_ASSIGN(const std::string self, SelfPath());
      return EngineSpec{name, {self, kWorkerArgument}, {}};
    }
    EngineSpec spec{name, {python_}, PythonEnvironment(folder)};
    const auto own = own_workers_.find(name);
    if (own != own_workers_.end()) {
      spec.argv.push_back(own->second);
      return spec;
    }
    std::vector<std::string> known = {"infer"};
    for (const PythonFile& f : PythonFiles()) {
      if (WorkerFileOf(name) == f.name) {
        spec.argv.push_back(Cat(folder, "/", f.name));
        return spec;
      }
      if (const std::string_view file = f.name; file.ends_with("_worker.py"))
        known.emplace_back(file.substr(0, file.size() - WorkerFileOf("").size()));
    }
    return InvalidArgument(Cat("--engines ", name, ": not known; there are ", Join(known, ", "),
                               ", and what --worker names"));
  }

  /// Every engine with its versions, or why it cannot run.
  Result<std::vector<EngineState>> Engines(Context& context, const std::string& folder) {
    contest_.stop = context.stop();
    context.Step("engines");
    std::vector<EngineState> out;
    for (const std::string& name : engines_) {
      INFER_ASSIGN(EngineSpec spec, SpecOf(name, folder));
      EngineState state{.spec = std::move(spec)};
      auto worker =
          Worker::Start({state.spec.argv, state.spec.environment, {}, folder + "/hello.log"});
      if (!worker.ok()) {
        if (worker.status().code() != Code::kUnsupported) return worker.status();
        state.failure = worker.status().message();
        state.missing = true;
      } else {
        auto hello = (*worker)->Ask({{"op", "hello"}}, contest_.timeout_s, contest_.stop);
        if (hello.ok()) {
          state.versions = hello->value("versions", Json::object());
        } else {
          if (hello.status().code() == Code::kCancelled) return hello.status();
          state.failure = (*worker)->failure().text;
          state.missing = (*worker)->failure().missing;
        }
      }
      out.push_back(std::move(state));
    }
    return out;
  }

  /// Tells of every engine that cannot run. False: the command ends here.
  bool Missing(Context& context, const std::vector<EngineState>& engines, Json& report) const {
    bool go_on = true;
    for (size_t i = 0; i < engines.size(); ++i) {
      const EngineState& e = engines[i];
      report["engines"].push_back(peers::ToJson(e));
      if (e.failure.empty()) continue;
      const bool skipped = skip_missing_ && e.missing && i > 0;
      go_on = go_on && skipped;
      context.PrintLine(Cat(e.spec.name, e.missing ? ": missing: " : ": failed: ", e.failure,
                            i > 0 ? Cat(" (", python_, ")") : "", skipped ? "; left out" : ""));
    }
    return go_on;
  }

  Json Settings() const {
    const char* wait = std::getenv("OMP_WAIT_POLICY");
    return {{"rounds", contest_.rounds},
            {"max_rounds", contest_.max_rounds},
            {"starts", contest_.starts},
            {"block_seconds", contest_.block_s},
            {"warmup_seconds", contest_.warmup_s},
            {"max_other_load", contest_.max_other_load},
            {"timeout_seconds", contest_.timeout_s},
            {"compute", device_.compute},
            {"memory", device_.memory},
            {"tolerance", rule_.max_ratio},
            {"quantized_tolerance", rule_.rms_ratio},
            {"max_ratio", max_ratio_ > 0 ? Json(max_ratio_) : Json()},
            {"strict", strict_},
            {"seed", inputs_.seed},
            {"python", python_},
            {"omp_wait_policy", wait ? Json(wait) : Json()}};
  }

  Status Measure(Context& context, const std::vector<EngineSpec>& engines,
                 const std::string& folder, Json& report) {
    INFER_ASSIGN(const auto lock, MeasuringLock::Take(lock_, context.stop(), [&] {
                   context.Note(Cat("waiting for ", lock_, ", which another measurement holds"));
                 }));
    for (const std::string& path : paths_) {
      context.Step("prepare " + path);
      auto prepared = Prepare(context, path, model_, inputs_, data_);
      if (!prepared.ok()) return prepared.status().In(path);
      if (!prepared->inputs.random.empty())
        context.Note(Cat(path, ": ", prepared->inputs.ToString(inputs_.seed)));
      for (const int threads : thread_numbers_) {
        ModelContestOptions options{.contest = contest_, .rule = rule_};
        options.infer = {{"device", device_.device},
                         {"level", device_.level},
                         {"compute", device_.compute},
                         {"memory", device_.memory},
                         {"rewrites", std::find(kLevelNames.begin(), kLevelNames.end(), rewrites_) -
                                          kLevelNames.begin()}};
        options.external_root = model_.external_root;
        options.lenient = model_.lenient;
        options.folder = folder + "/contest";
        auto outcome = RunModel(context, *prepared, path, engines, threads, options);
        if (!outcome.ok() && outcome.status().code() == Code::kCancelled) {
          report["interrupted"] = true;
          return {};
        }
        if (!outcome.ok()) return outcome.status().In(path);
        report["results"].push_back(ResultJson(*prepared, path, *outcome));
        Remark(context, path, *outcome);
        outcomes_.push_back({path, *std::move(outcome)});
      }
    }
    return {};
  }

  Json ResultJson(const PreparedModel& prepared, const std::string& path,
                  const ModelOutcome& outcome) const {
    Json entry = {{"model", infer::ToJson(prepared.model, path)},
                  {"random_inputs", prepared.inputs.random},
                  {"extents", prepared.inputs.extents}};
    entry.update(peers::ToJson(outcome));
    entry["comparisons"] = Json::array();
    for (const Comparison& c : outcome.comparisons)
      entry["comparisons"].push_back(GatedJson(c, max_ratio_));
    return entry;
  }

  static void Remark(Context& context, const std::string& path, const ModelOutcome& outcome) {
    if (!outcome.contest.load_known)
      context.Warn("/proc/stat does not say what other processes use: their load is not known");
    for (const Contender& c : outcome.contenders) {
      if (c.failure.empty() || c.samples_ms.empty()) continue;
      context.Warn(Cat(path, ": ", c.name, " ", c.failure));
    }
    for (size_t k = 1; k < outcome.contenders.size(); ++k)
      if (const auto& ms = outcome.contenders[k].samples_ms; !ms.empty())
        if (Quantile(ms, 0.5) < kTinyMs)
          context.Warn(Cat(path, ": ", outcome.contenders[k].name, " takes less than ", kTinyMs,
                           " ms, of which its Python call is a part that counts"));
  }

  /// What the outcomes say together: 1 where outputs disagree, an engine failed or the gate did.
  Result<ExitCode> Verdict(Context& context) const {
    bool failed = false;
    std::vector<std::string> open;
    for (const NamedOutcome& o : outcomes_)
      for (const Comparison& c : o.outcome.comparisons) {
        const std::string what = Cat(o.path, ", ", o.outcome.threads, " threads, ", c.peer);
        if (c.inconclusive)
          open.push_back(Cat(what, ": no verdict: ", c.reason));
        else if (!c.ratio)
          failed = true;
        else if (max_ratio_ > 0 && GateOf(*c.ratio, max_ratio_) == Gate::kInconclusive)
          open.push_back(Cat(what, ": the interval of the ratio holds ", max_ratio_));
        else if (max_ratio_ > 0 && GateOf(*c.ratio, max_ratio_) == Gate::kFailed) {
          failed = true;
          context.Note(
              Cat(what, ": the ratio ", Fixed(c.ratio->median, 3), " is more than ", max_ratio_));
        }
      }
    for (const std::string& text : open) context.Note(text);
    return GateExit(failed || (strict_ && !open.empty()), max_ratio_ > 0 && !open.empty(),
                    allow_inconclusive_);
  }

  std::vector<std::string> paths_, engines_, workers_, threads_;
  std::vector<int> thread_numbers_;
  std::map<std::string, std::string> own_workers_;
  std::string python_ = DefaultPython(), rewrites_ = kLevelNames.back();
  std::string lock_ = MeasuringLock::DefaultPath();
  ModelOptions model_;
  InputOptions inputs_;
  DataFlags data_;
  DeviceOptions device_;
  ContestOptions contest_;
  AgreementRule rule_;
  int max_rounds_ = 0, starts_ = 0;
  double max_ratio_ = 0;
  bool skip_missing_ = false, strict_ = false, allow_inconclusive_ = false;
  std::vector<NamedOutcome> outcomes_;
};

}  // namespace

std::unique_ptr<Command> MakePeersCommand() { return std::make_unique<PeersCommand>(); }

}  // namespace infer
