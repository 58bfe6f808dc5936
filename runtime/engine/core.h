#pragma once
/// What the handle (runtime/engine/engine.h) and the tasks of the engine share. It lives until the
/// last task has let go of it.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>

#include "lib/support/fork.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/memory_rules.h"
#include "runtime/engine/pending.h"
#include "runtime/engine/router.h"

namespace infer::engine {

/// One request in a run, and what the run gave it.
struct BatchItem {
  PendingPtr request;
  Status status = {};
  std::vector<Datum> outputs = {};
  int64_t started_ns = 0, ended_ns = 0, rows = 0;
  int64_t padded_to = 0;
};

/// One run: its requests and the instance that it holds.
struct Batch : std::enable_shared_from_this<Batch> {
  std::shared_ptr<Version> version;
  std::unique_ptr<RunContext> context;
  std::vector<BatchItem> items;
  int64_t formed_ns = 0, started_ns = 0;
  int64_t run_ns = 0;        // that the first attempt took
  int64_t ran_rows = 0;      // of it, where it succeeded
  int64_t ran_bytes = 0;     // that activations of these took
  int64_t refused_rows = 0;  // of the first attempt, where it failed for want of memory
  MemoryInfo took = {};      // of the attempt that took most
  ShapeKey shape = {};
  BatchAdvice advice = {};
  Priority priority = Priority::kNormal;  // of its most urgent request
  Place place = Place::kPool;
  std::stop_source stop = {};
  Status status = {};          // of the attempt
  size_t first = 0, last = 0;  // items of the attempt
  bool as_they_are = false;    // the attempt pads nothing
  // Guarded by the engine's mutex.
  int64_t chosen = 0;  // requests that it was made of
  int64_t live = 0;    // of its items, that have not ended
  bool begun = false;
  bool stacked = false;  // the inputs of items are read no more
};
using BatchPtr = std::shared_ptr<Batch>;

/// How a request came.
struct Entry {
  bool continues = false;  ///< another one, which was taken: it is taken while the engine drains
  bool shadow = false;     ///< a copy, whose answer nobody waits for
  bool helps = false;      ///< the thread that submits may run it
  std::weak_ptr<Pending>* taken = nullptr;  ///< is given the request, for Help
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  /// `homes`: nullptr where nothing is placed.
  Core(EngineOptions options, std::shared_ptr<Homes> homes)
      : options_(std::move(options)), homes_(std::move(homes)) {}

  Status Load(const std::string& name, ModelSource source, ModelOptions options);
  Status Unload(const std::string& name);
  Status Register(const std::string& name, ModelLoader loader, ModelOptions options,
                  int64_t expected_bytes);
  Status Prefetch(const std::string& name);
  MemoryStats Memory() const;
  void Submit(Request request, Callback callback, Entry entry = {});
  /// On a thread that waits for the answer to `p`: runs it, if it was to run alone and no thread
  /// has begun it.
  void Help(const Pending& p);
  /// Rejects the request.
  void Refuse(Request request, Callback callback, Status why);
  /// `sequence`: whether the model has it is told, too.
  ModelLoad LoadOf(const std::string& model, const std::string& sequence = {}) const;
  /// It is loaded, registered, or about to be; or answers what it has.
  bool Knows(const std::string& model) const;
  Result<std::shared_ptr<const Program>> ProgramOf(const std::string& model) const;
  /// A shadow takes copies only, and its runs hold nobody up. InvalidArgument: `model` is not
  /// loaded, or has requests of its own.
  Status SetShadow(const std::string& model, bool shadow);
  int64_t NowNs() const { return options_.clock->NowNs(); }
  Executor& executor() const { return *options_.executor; }
  void Close();
  void Drain();
  void Shutdown();
  std::vector<ModelStats> Stats() const;
  bool forked() const { return ForksSoFar() != forks_; }

 private:
  struct Model {
    std::shared_ptr<Version> current;
    std::vector<std::shared_ptr<Version>> old;
    int64_t versions = 0;
    bool shadow = false;
    // Of a registered one.
    ModelLoader loader;
    ModelOptions load_options;
    int64_t expected_bytes = 0;      // what it took when it was loaded before
    bool loading = false;            // or about to be
    std::list<PendingPtr> arriving;  // that wait until it is loaded
    int64_t last_use = 0;
    int making = 0;  // calls of Load that make a version
    ModelStats stats;
    std::shared_ptr<Telemetry> times = std::make_shared<Telemetry>();
    struct Kept {
      int64_t version;
      std::string device;
      std::shared_ptr<const Times> times;
      std::shared_ptr<const LatencyFactors> factors;  // guarded by the mutex
    };
    std::deque<Kept> kept = {};  // of the last versions

    bool IsThere() const {
      return current || loader || loading || making > 0 || !old.empty() || !arriving.empty();
    }
  };
  /// What is left to do once the mutex is free.
  struct Todo {
    std::vector<PendingPtr> told;  // on this thread
    std::vector<BatchPtr> begun, stopped;
    std::vector<std::shared_ptr<Version>> released;  // destroyed
    std::vector<int64_t> wakes;
    bool deliver = false, load = false;
  };
  struct Parked {
    std::string model;
    std::shared_ptr<Version> version;
  };

  // Called with the mutex held.
  Status Put(const std::string& name, Model& m, std::shared_ptr<Version> version, Todo& todo);
  Status Admit(Pending& p, const Entry& entry);
  Status AdmitTo(Model& m, Pending& p);
  Status AdmitInputs(Model& m, Pending& p);
  Status AdmitStep(Model& m, Pending& p);
  static std::shared_ptr<Version> HolderOf(const Model& m, const std::string& id);
  Status TakeStep(Model& m, Pending& p, Sequence& s);
  void StepEnded(Pending& p, std::vector<Datum>* outputs, int64_t now_ns, Todo& todo);
  void NextStep(const std::shared_ptr<Version>& version, const std::string& id, Sequence& s,
                int64_t now_ns, Todo& todo);
  void ForgetIdle(int64_t now_ns, Todo& todo);
  void DropSequences(Version& version, int64_t now_ns, Todo& todo);
  Status Await(Model& m, Pending& p);
  void Enqueue(const PendingPtr& p, Todo& todo);
  void WantLoaded(const std::string& name, Model& m, Todo& todo);
  Result<std::vector<size_t>> RoomFor(const std::string& name, int64_t bytes,
                                      std::vector<MemoryHolder>& holders) const;
  void GoAway(const std::vector<size_t>& which, const std::vector<MemoryHolder>& holders,
              Todo& todo);
  void Install(Todo& todo);
  void UseRoom(Todo& todo);
  void EndLoad(const std::string& name, const Status& status, Todo& todo);
  void Trim(const Version& grown, Todo& todo);
  int64_t UsedBytes() const;
  void LearnMemory(const Batch& batch, Todo& todo);
  bool IsLimited(const Version& v) const;
  int64_t RoomForRun(const Version& v, int64_t used) const;
  int64_t FreeBytes() const;
  bool End(Pending& p, State how, Status status, int64_t now_ns);
  void EndEarly(Pending& p, State how, Status why, int64_t now_ns, Todo& todo);
  void Expire(int64_t now_ns, Todo& todo);
  void Pump(int64_t now_ns, Todo& todo);
  void EndShadows(const Model& m, int64_t now_ns, Todo& todo);
  int OpenLevels(bool aside) const;
  std::pair<Version*, RequestQueue::Choice> Choose(int64_t now_ns, bool aside, int levels);
  BatchPtr Form(Version& version, const RequestQueue::Choice& choice, int64_t now_ns, int levels);
  void FindPlace(Batch& batch);
  void LeavePlace(const Batch& batch);
  static BatchPtr TakeOwn(const Pending& p, Todo& todo);
  void DropEnded(Batch& batch);
  void Supersede(Model& m);
  void ReleaseVersions(Model& m, Todo& todo);
  static void SetCurrent(Model& m, std::shared_ptr<Version> version);
  void ForgetUnloaded();

  // Called without it.
  void Do(Todo todo);
  void Cancel(const std::weak_ptr<Pending>& weak);
  void Wake(int64_t ns);
  void Begin(const BatchPtr& batch);
  void Attempt(const BatchPtr& batch, size_t first, size_t last);
  static std::vector<RunPart> PartsOf(const Batch& batch);
  void Refuted(const Batch& batch);
  void Compute(Batch& batch);
  void Attempted(const BatchPtr& batch);
  void Keep(Batch& batch);
  void Finish(const BatchPtr& batch);
  void Reject(const PendingPtr& p, Status why);
  void Tell(std::vector<PendingPtr> told);
  void Log(const Pending& p);
  void Deliver();
  void CallBack(Pending& p);
  void AwaitQuiet();
  void LoadNext();
  void Loaded(const std::string& name, Result<std::shared_ptr<Version>> version);

  EngineOptions options_;
  std::shared_ptr<Homes> homes_;
  const uint64_t forks_ = ForksSoFar();
  mutable std::mutex mutex_;
  std::condition_variable quiet_;
  std::map<std::string, Model> models_;
  std::set<std::pair<int64_t, Pending*>> deadlines_;           // of requests that have not ended
  std::set<std::tuple<int64_t, Version*, std::string>> idle_;  // sequences without a step
  std::set<int64_t> wakes_;                                    // that the executor knows of
  std::set<Batch*> batches_;                   // from being formed until they are finished
  std::deque<PendingPtr> deliveries_;          // ends that the timer thread tells
  std::array<int, kPriorities> running_ = {};  // batches by priority, but those aside
  std::array<int, kPlaces> placed_ = {};       // batches by place
  std::deque<std::string> loads_;              // registered models to load, in this order
  Parked parked_;                              // is loaded, and waits until others are gone
  bool waits_for_room_ = false;                // the first of them
  bool load_goes_on_ = false;                  // one at a time
  mutable int64_t peak_bytes_ = 0;
  int64_t loading_bytes_ = 0;  // that the model that is loaded, or next, is expected to take
  int64_t uses_ = 0;           // of models, counted
  int64_t next_id_ = 0;
  int64_t outstanding_ = 0;  // requests whose callback has not returned; without shadows
  int64_t computing_ = 0;    // batches that have begun; without those aside
  int64_t in_wait_ = 0;      // callbacks whose own threads wait for the engine to be quiet
  int waiting_ = 0;          // threads that do
  bool closed_ = false, shut_ = false;
};

}  // namespace infer::engine
