#pragma once
/// One version of a model as the engine holds it: contexts over one program, and its queue.
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "runtime/api/program.h"
#include "runtime/engine/batch_axes.h"
#include "runtime/engine/batch_memory.h"
#include "runtime/engine/device_matrix.h"
#include "runtime/engine/padding.h"
#include "runtime/engine/placement.h"
#include "runtime/engine/queue.h"
#include "runtime/engine/sequence.h"
#include "runtime/engine/telemetry.h"

namespace infer::engine {

class DriftWatch;  // drift.h

/// What a model is run by.
struct ModelSource {
  std::shared_ptr<const Program> program;
  BatchAxes axes = {};                   ///< of the graph that the program was compiled from
  std::vector<PaddedAxes> padding = {};  ///< of that graph: ProvePaddings
  int lanes = 0;            ///< that a run asks for (CompileOptions::threads); 0: LaneBudget()
  std::string device = {};  ///< that it was compiled for, for ModelStats: "cpu", "vulkan"
};

/// Proves what it can of the graph that the program is to be compiled from.
void ProveAxes(const Graph& graph, ModelSource& source);

/// Requests whose variable extent differs are made as long as the smallest bucket that holds them,
/// so that they may share a run and fewer shapes have to be planned. Outputs are cut again.
struct Buckets {
  std::string symbol = {};            ///< the extent, as the model names it; "": the first proved
  std::vector<int64_t> extents = {};  ///< above 0, in any order; empty: nothing is padded
};

/// ProveBatchAxes, then Compile.
Result<ModelSource> CompileSource(const Backend& backend, Graph graph,
                                  const CompileOptions& options);

/// Makes the source of a model that is loaded when it is asked for; may be called often, by a
/// thread of the engine, one call at a time. It may throw.
using ModelLoader = std::function<Result<ModelSource>()>;

struct ModelOptions {
  int instances = 1;  ///< contexts: runs of the model that go on at once
  /// For weights and activations of one version, as its contexts count them. Load refuses one that
  /// needs more; batches have as many rows as fit.
  int64_t memory_bytes = kNever;
  /// NUMA nodes that instances may be placed on, by the system's numbers; empty: any. Load refuses
  /// nodes that are not there, and nodes in an engine that places nothing (EngineOptions).
  std::vector<int> nodes = {};
  QueueLimits queue = {};
  /// With max_rows > 1 the source's batch axes must be proved; Load refuses else.
  BatchRules batch = {};
  /// Where padding is not proved to be harmless, requests run as they are, and
  /// ModelStats::unpaddable says why. Load refuses extents that the model does not name.
  Buckets buckets = {};
  StateRules state = {};
  /// Run once in every instance before the version takes requests: alone, stacked to max_rows (with
  /// a memory budget to as many as fit), and padded to each bucket that holds them; where outputs
  /// differ then, nothing is padded. Empty: not run, so the first requests pay for planning their
  /// shapes.
  std::vector<Datum> warm_inputs = {};
  /// Sees inputs and outputs of each request that succeeds, before its callback. Not with state.
  std::shared_ptr<DriftWatch> drift = {};
};

/// What the request's inputs are to the version.
struct Fit {
  Status status;
  int64_t bytes = 0, rows = 1;
  ShapeKey shape;
  int64_t length = 0, padded_to = 0;    ///< padded_to 0: not padded
  std::optional<Padding> padding = {};  ///< nullopt: the version pads nothing
};

class Version {
 public:
  /// How contexts are made and warmed.
  struct Making {
    infer::Priority priority = infer::Priority::kNormal;  ///< of lanes
    std::shared_ptr<Homes> homes = {};                    ///< none: nothing is placed
    int64_t most_bytes = kNever;                          ///< that stacked runs should keep within
  };
  /// On the calling thread, and where each instance will run.
  static Result<std::shared_ptr<Version>> Make(std::string model, int64_t number,
                                               ModelSource source, ModelOptions options,
                                               const Making& making);
  const std::string& model() const { return model_; }
  int64_t number() const { return number_; }
  const ModelOptions& options() const { return options_; }
  const BatchAxes& axes() const { return source_.axes; }
  const std::string& device() const { return source_.device; }
  /// Of its requests; outlives it where somebody keeps it.
  const std::shared_ptr<Times>& times() const { return request_times_; }
  const Program& program() const { return *source_.program; }
  const std::shared_ptr<const Program>& shared_program() const { return source_.program; }
  bool batches() const { return options_.batch.max_rows > 1; }

  /// Where a context runs; nullptr: anywhere.
  const Home* HomeOf(const RunContext& context) const;
  /// By the system's numbers, for each instance that is placed; -1: over several nodes.
  std::vector<int> nodes() const;
  /// Takes the idle instance whose processors have the least to do; among equals the one that ran
  /// last. Pre: `idle` is not empty. Guarded as `idle`.
  std::unique_ptr<RunContext> TakeIdle();
  void GiveBack(std::unique_ptr<RunContext> context);

  bool keeps_state() const { return !options_.state.pairs.empty(); }
  /// The state before the first step. Pre: keeps_state().
  Result<std::vector<Datum>> InitialState(const std::vector<Datum>& inputs) const;
  /// Puts the state among the inputs of a step. InvalidArgument: their number.
  Status AddState(std::vector<Datum>& inputs, const std::vector<Datum>& state) const;
  /// Takes it out of the outputs.
  std::vector<Datum> TakeState(std::vector<Datum>& outputs) const;

  bool pads() const { return pad_ >= 0; }
  /// Pre: pads().
  const PaddedAxes& padded_axes() const { return source_.padding[static_cast<size_t>(pad_)]; }
  const std::string& unpaddable() const { return unpaddable_; }

  /// Number, types and extents of inputs against the model's.
  Fit FitOf(const std::vector<Datum>& inputs) const;

  // The rest is guarded by the engine's mutex.
  RequestQueue queue;
  std::vector<std::unique_ptr<RunContext>> idle;
  std::map<std::string, Sequence> sequences;
  int64_t running_requests = 0;
  int running = 0;          // instances in runs
  int64_t run_ns = 0;       // what a run takes: a moving mean, each new one counts an eighth
  bool superseded = false;  // takes no more requests
  bool aside = false;       // its runs are nobody's to wait for
  bool ran = false;         // or was warmed
  std::shared_ptr<LatencyFactors> factors = std::make_shared<LatencyFactors>();
  /// Weights, what contexts hold (as much as the largest of their runs took), and what runs that go
  /// on are expected to take where that fits.
  int64_t bytes() const;
  int64_t weight_bytes() const { return weight_bytes_; }
  /// Runs of the context, which are over, took so much at most.
  void Grew(const RunContext& context, const MemoryInfo& took);
  /// Its run, which begins, is expected to take so much for activations.
  void Expect(const RunContext& context, int64_t bytes);
  /// By the instance that TakeIdle takes, of activations. Pre: `idle` is not empty.
  int64_t HeldByNext() const;
  /// Bytes of runs whose requests have this shape.
  const BatchMemory& MemoryOf(const ShapeKey& shape) const;
  void RanWithin(const ShapeKey& shape, int64_t rows, int64_t bytes);
  void RefusedMemory(const ShapeKey& shape, int64_t rows);
  bool refused_memory() const { return refused_memory_; }  ///< at any time
  /// Of runs whose requests have this shape; nullptr: there was none.
  const BatchTimes* TimesOf(const ShapeKey& shape) const;
  void BeginTrial(const ShapeKey& shape, int64_t limit);
  /// `ns`: that it kept an instance.
  void RanBatch(const ShapeKey& shape, const BatchAdvice& advice, int64_t rows, int64_t ns);
  void Ran(int64_t ns) { run_ns += run_ns == 0 ? ns : (ns - run_ns) / 8; }

 private:
  Version(std::string model, int64_t number, ModelSource source, ModelOptions options)
      : queue(options.queue),
        model_(std::move(model)),
        number_(number),
        source_(std::move(source)),
        options_(std::move(options)) {}
  Status MakeInstances(const Making& making);
  Status Warm(RunContext& context, const RunOptions& how, int64_t most_bytes);
  Status WarmRows(RunContext& context, const Fit& fit, const RunOptions& how, int64_t most_bytes);
  Status WarmBuckets(RunContext& context, const Fit& fit, const RunOptions& how);
  Status ChooseBuckets();
  Status CheckState() const;
  size_t NextIdle() const;
  BatchMemory* Memory(const ShapeKey& shape);
  void FitBucket(const std::vector<Datum>& inputs, Fit& fit) const;
  ShapeKey ShapeOf(const std::vector<Datum>& inputs, const Fit& fit) const;
  /// In the run.
  int64_t ExtentOf(const Tensor& t, size_t input, int axis, const Fit& fit) const;

  std::string model_;
  int64_t number_;
  ModelSource source_;
  ModelOptions options_;
  std::map<ShapeKey, BatchTimes> times_;
  std::shared_ptr<Times> request_times_ = std::make_shared<Times>();
  int64_t weight_bytes_ = 0;
  struct ContextBytes {
    int64_t held = 0, expected = 0;
    int64_t most() const { return held > expected ? held : expected; }
  };
  std::map<const RunContext*, ContextBytes> context_bytes_;
  std::map<ShapeKey, BatchMemory> memory_;
  bool refused_memory_ = false;
  std::shared_ptr<Homes> homes_;
  std::map<const RunContext*, std::shared_ptr<const Home>> home_of_;  // as Make left it
  int pad_ = -1;                                                      // position in source_.padding
  std::string unpaddable_;
};

/// One request of a run.
struct RunPart {
  const std::vector<Datum>* inputs = nullptr;
  int64_t rows = 1;
  int64_t length = 0, padded_to = 0;  ///< padded_to 0: not padded
};

/// Binds the inputs of requests, padded, and side by side where they are several. What is bound
/// may borrow the requests' memory: they must outlive the run.
Status BindStacked(const Version& version, RunContext& context, std::span<const RunPart> requests);

/// Outputs of each request, in memory of their own, without what padding added. Failed where an
/// output has not the extents that the axes promise, or, padded, is not finite where the proof
/// takes it to be.
Result<std::vector<std::vector<Datum>>> SplitOutputs(const Version& version,
                                                     const RunContext& context,
                                                     std::span<const RunPart> requests);

}  // namespace infer::engine
