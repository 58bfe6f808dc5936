/// infer-bench engine: what the inference engine adds to a bare run of a model.
#include "runtime/engine/engine.h"

#include <sys/resource.h>

#include <atomic>

#include "lib/support/measure.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/bench_json.h"
#include "tools/bench/session.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/load/latencies.h"

namespace infer {
namespace {

using namespace bench;  // NOLINT(google-build-using-namespace): the command is a part of it

using Steady = std::chrono::steady_clock;

/// Events of all threads of the process, which say more of a busy machine than its clock does.
struct Events {
  int64_t sleeps = 0;  ///< times that a thread gave its processor up to wait
  int64_t faults = 0;  ///< pages of memory that were touched for the first time

  static Events SoFar() {
    rusage r{};
    ::getrusage(RUSAGE_SELF, &r);
    return {r.ru_nvcsw, r.ru_minflt};
  }
  void Add(const Events& from, const Events& to) {
    sleeps += to.sleeps - from.sleeps;
    faults += to.faults - from.faults;
  }
  Json PerRun(int64_t runs) const {
    const auto n = static_cast<double>(std::max<int64_t>(runs, 1));
    return {{"sleeps", static_cast<double>(sleeps) / n},
            {"page_faults", static_cast<double>(faults) / n}};
  }
};

class EngineCommand : public Command {
 public:
  std::string_view name() const override { return "engine"; }
  std::string_view help() const override {
    return "What the inference engine adds to a bare run: one client, runs in turns";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench engine model.onnx --threads 1\n"
           "  infer-bench engine model.onnx --threads 1 --pairs 20000 --json engine.json\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "ONNX model", true, PathUse::kRead);
    session_.Declare(o);
    o.Value("--batch", &session_.batch,
            "Samples of a run, the leading dimension of the inputs; 0: as the model has it");
    o.Value("--pairs", &pairs_, "Bare runs and requests, one after the other", 1);
    o.Value("--warmup-pairs", &warmup_, "Before those that count");
    o.Choice("--way", &way_, {"infer", "submit", "future"},
             "infer: the waiting thread may run its request; submit: a thread of the pool does, "
             "until it calls back; future: until the client has been woken");
    o.Value("--max-time", &max_time_s_, "Seconds after which no further pair begins");
  }

  Result<ExitCode> Run(Context& context) override {
    const Environment environment = CaptureEnvironment();
    for (std::string& w : Warnings(environment)) context.Warn(std::move(w));
    engine::ModelSource source;
    session_.observe = [&](const Graph& g) { engine::ProveAxes(g, source); };
    INFER_ASSIGN(Session session, OpenSession(context, path_, session_));
    INFER_ASSIGN(const auto served, engine::Engine::Make({.threads = 1}));
    source.program = session.program;
    INFER_TRY(served->Load("model", source, {.warm_inputs = session.inputs.values}));
    context.Step("runs");
    const MachineWatch watch;
    bool interrupted = false;
    const auto start = Steady::now();
    for (int64_t i = 0; i < warmup_ + pairs_ && !interrupted; ++i) {
      INFER_TRY(Pair(session, *served, i >= warmup_, MsSince(start)));
      interrupted = context.stop().stop_requested();
      if (i >= warmup_ && MsSince(start) > 1e3 * max_time_s_) break;
    }
    const Watched watched = watch.Finish();
    for (std::string& w : Warnings(watched)) context.Warn(std::move(w));
    Print(context, source);
    const engine::BatchAxes& axes = source.axes;
    Json report = NewReport(context, "infer-bench/engine@1");
    report["environment"] = ToJson(environment);
    report["target"] = {{"path", path_},
                        {"model", session.model},
                        {"batch", session.batch},
                        {"device", session_.device.device},
                        {"level", session_.device.level},
                        {"threads", session_.device.threads},
                        {"batch_axis", axes.proved ? Json(axes.symbol) : Json()},
                        {"unbatchable", axes.proved ? Json() : Json(axes.reason)},
                        {"paddings", PaddingsJson(source)}};
    report["way"] = way_;
    report["bare_ms"] = ToJson(bare_);
    report["engine_ms"] = ToJson(engine_);
    report["added_ms"] = ToJson(added_);
    report["events"] = {{"bare", bare_events_.PerRun(bare_.count())},
                        {"engine", engine_events_.PerRun(bare_.count())}};
    report["phases_ms"] = {
        {"queue", ToJson(queue_)}, {"batch", ToJson(batch_)}, {"compute", ToJson(compute_)}};
    report["watch"] = ToJson(watched);
    report["interrupted"] = interrupted;
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

 private:
  /// Both begin with inputs in memory and end with outputs that can be read.
  Status Pair(Session& session, engine::Engine& served, bool counts, double at_ms) {
    const Events before_bare = Events::SoFar();
    const auto begin = Steady::now();
    INFER_TRY(session.run->Run());
    const double bare_ms = MsSince(begin);
    const Events before_engine = Events::SoFar();
    const auto submit = Steady::now();
    auto [o, engine_ms] =
        Served(served, {.model = "model", .inputs = session.inputs.values}, submit);
    INFER_TRY(o.status);
    if (!counts) return {};
    engine_events_.Add(before_engine, Events::SoFar());
    bare_events_.Add(before_bare, before_engine);
    bare_.Add(at_ms, bare_ms);
    engine_.Add(at_ms, engine_ms);
    added_.Add(at_ms, engine_ms - bare_ms);
    queue_.Add(at_ms, static_cast<double>(o.phases.queue_ns) / kNsPerMs);
    batch_.Add(at_ms, static_cast<double>(o.phases.batch_ns) / kNsPerMs);
    compute_.Add(at_ms, static_cast<double>(o.phases.compute_ns) / kNsPerMs);
    return {};
  }

  /// The outcome, and the time until the client has it, or, with `submit`, is called back.
  std::pair<engine::Outcome, double> Served(engine::Engine& served, engine::Request request,
                                            Steady::time_point submit) const {
    std::pair<engine::Outcome, double> got;
    if (way_ != "submit") {
      got.first = way_ == "future" ? served.Submit(std::move(request)).get()
                                   : served.Infer(std::move(request));
      got.second = MsSince(submit);
      return got;
    }
    const auto there = std::make_shared<std::atomic<bool>>(false);
    served.Submit(std::move(request), [&got, submit, there](engine::Outcome o) {
      got = {std::move(o), MsSince(submit)};
      there->store(true, std::memory_order_release);
      there->notify_one();
    });
    there->wait(false, std::memory_order_acquire);
    return got;
  }

  static Json PaddingsJson(const engine::ModelSource& source) {
    Json all = Json::array();
    for (const engine::PaddedAxes& p : source.padding)
      all.push_back({{"extent", p.symbol}, {"unpaddable", p.proved ? Json() : Json(p.reason)}});
    return all;
  }

  void Print(Context& context, const engine::ModelSource& source) const {
    const engine::BatchAxes& axes = source.axes;
    std::vector<std::vector<std::string>> rows = {{"us", "pairs", "p50", "p90", "p99"}};
    const auto row = [&](std::string name, const Latencies& l) {
      std::vector<std::string> cells = {std::move(name), Cat(l.count())};
      for (double q : {0.5, 0.9, 0.99}) cells.push_back(Rounded(1e3 * l.Quantile(q), 4));
      rows.push_back(std::move(cells));
    };
    row("bare run", bare_);
    row("engine", engine_);
    row("  queue", queue_);
    row("  batch", batch_);
    row("  compute", compute_);
    row("engine - bare run", added_);
    context.Print(TextTable(rows));
    const auto events = [&](const char* side, const Events& e) {
      const Json per_run = e.PerRun(bare_.count());
      context.Print(Cat(side, ": ", Rounded(per_run["sleeps"], 3), " sleeps and ",
                        Rounded(per_run["page_faults"], 3), " page faults a run\n"));
    };
    events("bare run", bare_events_);
    events("engine", engine_events_);
    context.Print(axes.proved ? Cat("may be batched along ", axes.symbol, "\n")
                              : Cat("may not be batched: ", axes.reason, "\n"));
    for (const engine::PaddedAxes& p : source.padding)
      context.Print(p.proved ? Cat("may be padded along ", p.symbol, "\n")
                             : Cat("may not be padded along ", p.symbol, ": ", p.reason, "\n"));
  }

  std::string path_;
  SessionOptions session_;
  std::string way_ = "infer";
  int64_t pairs_ = 2000, warmup_ = 200;
  double max_time_s_ = 60;
  // Every pair is kept: differences may be below 0, which a histogram has no place for.
  static constexpr int64_t kKeepAll = int64_t{1} << 40;
  Latencies bare_{kKeepAll}, engine_{kKeepAll}, added_{kKeepAll};
  Events bare_events_, engine_events_;
  Latencies queue_{kKeepAll}, batch_{kKeepAll}, compute_{kKeepAll};
};

}  // namespace

std::unique_ptr<Command> MakeEngineCommand() { return std::make_unique<EngineCommand>(); }

}  // namespace infer
