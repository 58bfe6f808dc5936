#pragma once
/// An engine that serves models inside a process: requests are queued, batched where that is proved
/// to be right, run on a pool of threads, and end exactly once (docs/engine.md).
///
/// All functions may be called from any thread, also from callbacks. No function throws.
///
/// Threads. Outputs of a run are told on the thread that ran it: one of the pool, or one that waits
/// in Infer or in a Future. Requests that end without a run (cancelled, timed out) are told on the
/// engine's timer thread, so that a busy pool does not hold them up. A rejection is told before
/// Submit returns, on the thread that submits. A callback may submit, drain and destroy the engine.
/// One that blocks holds up its thread: others of the pool go on; on the timer thread it holds up
/// later ends of that kind. An exception that leaves a callback is counted and dropped.
#include <coroutine>
#include <memory>
#include <optional>

#include "runtime/engine/future.h"
#include "runtime/engine/request.h"
#include "runtime/engine/request_log.h"
#include "runtime/engine/route.h"
#include "runtime/engine/telemetry.h"
#include "runtime/engine/version.h"

namespace infer::engine {

class Core;
class Routes;

/// Unloaded models whose counts are kept, those that were asked for last; a model that is loaded
/// again under a forgotten name begins with version 1.
inline constexpr size_t kMostUnloaded = 64;

/// InvalidArgument, from Engine::Make: a setting that makes no sense or would have no effect.
struct EngineOptions {
  /// Runs of all models that go on at once; 0: AvailableCores(), or as many as `executor` has.
  int threads = 0;
  /// A request is overtaken by one of the next higher priority that came up to so much later.
  int64_t ageing_ns = 1'000'000'000;
  /// For weights and activations of all models, as their contexts count them. A model that does
  /// not fit is refused; registered ones are unloaded for others, the longest unused first.
  int64_t memory_bytes = kNever;
  /// Where instances run. InvalidArgument besides OMP_PROC_BIND.
  Placement placement = Placement::kAnywhere;
  std::optional<Topology> topology = {};    ///< that instances are placed on; none: ThisTopology()
  std::shared_ptr<const Clock> clock = {};  ///< none: SteadyClock()
  std::shared_ptr<Executor> executor = {};  ///< none: MakeThreadExecutor(threads)
  std::shared_ptr<RequestLog> log = {};     ///< gets each request that ends; none: nobody does
};

/// One version of a model: its requests, on its device.
struct VersionStats {
  int64_t version = 0;
  std::string device = {};  ///< ModelSource::device
  Times times = {};         ///< in total
  LatencyFactors factors = {};
};
inline constexpr size_t kKeptVersions = 4;

/// Counts since the model was first loaded, over all its versions.
struct ModelStats {
  std::string model;
  int64_t version = 0;             ///< that takes requests; 0: none
  int old_versions = 0;            ///< that still answer theirs
  int64_t bytes = 0;               ///< weights and activations of `version`
  std::vector<int> nodes;          ///< of its instances, where they are placed; -1: several
  int64_t loads = 0, unloads = 0;  ///< of a registered model: for requests, for others' room
  int64_t sequences = 0;           ///< that go on in `version`
  int64_t sequences_begun = 0, sequences_idle = 0;  ///< idle: forgotten without having ended
  int64_t arriving = 0;                             ///< requests that wait until it is loaded
  std::string unbatchable;                          ///< why the model is not batched; "": it may be
  QueueState queue;
  int64_t submitted = 0;
  std::array<int64_t, kEnds> ends = {};  ///< by EndIndex; with those at work: submitted
  int64_t runs = 0;                      ///< reruns included
  std::array<int64_t, kFiredReasons> fired = {};
  std::array<int64_t, kSingleReasons> single = {};
  std::string unpaddable;  ///< why no request is padded; "": they are, or the model has no buckets
  std::array<int64_t, kPaddings> padding = {};  ///< of requests that were queued, but kRefuted
  int64_t padded_from = 0, padded_to = 0;       ///< extents of padded requests, added up
  std::map<int64_t, int64_t> batch_rows;        ///< rows of a run -> runs
  std::map<int64_t, RunTimes> run_times;        ///< rows of a run -> times of such runs
  int64_t thrown = 0;                           ///< exceptions that left callbacks
  std::vector<VersionStats> versions;           ///< the last kKeptVersions, the newest last
  TelemetryView times;
};

/// Memory of all models, in bytes.
struct MemoryStats {
  int64_t budget = kNever, used = 0;
  int64_t peak = 0;  ///< of used, versions that wait to be put in place or to go included
};

class Engine {
 public:
  using Callback = std::function<void(Outcome)>;

  static Result<std::unique_ptr<Engine>> Make(EngineOptions options = {});
  /// As Shutdown.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Makes and warms the instances of a model on the calling thread; where other models are loaded,
  /// with Priority::kLow (so does CompileOptions::priority for what is compiled before). A model of
  /// that name is then replaced between two requests: those that came before are answered by the
  /// old version, which goes with the last of them. On a failure the old one stays, and a new name
  /// is not known. A variant of a route is replaced by a warm one (ModelOptions::warm_inputs) with
  /// the same types of inputs and outputs, else InvalidArgument.
  Status Load(const std::string& name, ModelSource source, ModelOptions options = {});
  /// A model that is loaded when it is asked for: its first requests wait until that is done. Under
  /// EngineOptions::memory_bytes it is unloaded for others when it was not asked for the longest,
  /// behind the requests that it has, and loaded again later. `expected_bytes`: what it will take,
  /// so that room is made before it is loaded; 0: not known. InvalidArgument: the name is taken.
  Status Register(const std::string& name, ModelLoader loader, ModelOptions options = {},
                  int64_t expected_bytes = 0);
  /// A registered model is loaded as if somebody had asked for it; does not wait.
  Status Prefetch(const std::string& name);
  MemoryStats Memory() const;
  /// New requests are rejected; those that came before are answered. A registered model is
  /// forgotten; requests that wait until it is loaded are rejected. Counts stay in Stats until
  /// kMostUnloaded other models have been unloaded.
  Status Unload(const std::string& name);

  /// Gives several models one name, which no model has, and a rule for which of them answers
  /// (docs/engine.md). A route of that name is replaced, its counts begin anew. InvalidArgument,
  /// one line: the policy (Check); models that are not loaded and warm (ModelOptions::warm_inputs),
  /// whose inputs or outputs are of other types, or that are another route's shadows.
  Status SetRoute(const std::string& name, RoutePolicy policy);
  /// Requests that were taken are answered.
  Status RemoveRoute(const std::string& name);
  /// Says of an answer whether it was right, at any time later; once for each ticket, which is not
  /// checked. InvalidArgument: the route was set anew or removed meanwhile.
  Status RecordOutcome(const Ticket& ticket, bool good);
  /// In alphabetical order; brings canaries up to this moment.
  std::vector<RouteStats> StatsOfRoutes() const;

  /// Returns at once; `callback` is called exactly once.
  void Submit(Request request, Callback callback);
  /// Returns at once. Who waits in the future may run the request (runtime/engine/future.h).
  Future Submit(Request request);
  /// Submits and waits. Where the request may begin at once and alone, the calling thread runs it,
  /// in the place of one of the pool. Not from a callback: a pool of one thread would wait for
  /// itself.
  Outcome Infer(Request request);

  /// `Outcome o = co_await engine.Await(request)`. The coroutine resumes on the thread that would
  /// call the callback; where the request is rejected, it goes on without being suspended. It must
  /// not be destroyed while it waits.
  class Awaiter;
  Awaiter Await(Request request);

  /// New requests are rejected.
  void Close();
  /// Close, and waits until every request has ended and its callback has returned, but those that
  /// wait below this call on the same thread.
  void Drain();
  /// As Drain, but requests that have not ended end as cancelled.
  void Shutdown();

  /// In alphabetical order. Counts and times of one model are of one moment up to the requests that
  /// end meanwhile.
  std::vector<ModelStats> Stats() const;

 private:
  explicit Engine(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
  std::shared_ptr<Routes> routes_;
};

/// Awaits one request.
class Engine::Awaiter {
 public:
  Awaiter(Engine& engine, Request request) : engine_(engine), request_(std::move(request)) {}
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> coroutine);
  Outcome await_resume();

 private:
  struct Told;
  Engine& engine_;
  Request request_;
  std::shared_ptr<Told> told_;
};

}  // namespace infer::engine
