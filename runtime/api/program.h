#pragma once
/// Backend -> Program -> RunContext: compile once, run many times, from many threads.
///
/// A Program is immutable: kernels chosen, weights packed and shared. A RunContext holds what one
/// run needs (bound inputs and outputs, arena, profile) and belongs to one thread at a time.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ir/graph.h"
#include "lib/support/parallel.h"
#include "lib/support/stop.h"
#include "runtime/api/compute.h"
#include "runtime/api/device.h"
#include "runtime/api/plan_view.h"

namespace infer {

/// One launch of a program, as `inspect --kernels` and profiles show it.
struct StepInfo {
  std::string node;       ///< name of the (last) node that it computes
  std::string op;         ///< operator, with epilogue: "Conv+Relu"
  std::string kernel;     ///< "onednn:jit_avx512_core", "reference", ...; "a + b": parts
  std::string precision;  ///< "f32", "u8s8s32", ...
  std::vector<std::string> fused_from;  ///< nodes of the original model
  std::vector<std::string> refusals;    ///< "kernel: reason" for each better kernel that refused
  std::vector<std::string> outputs;     ///< value names
  Cost cost;                            ///< for the shapes of the current plan; 0 when dynamic
  int64_t constant_bytes = 0;  ///< of its operands that are constants, as the model has them
};

/// Whether a step whose StepInfo::kernel this is runs on a reference kernel, whole or in a part
/// ("onednn:jit_1x1:avx2 + reference").
inline bool RunsOnReference(std::string_view kernel) {
  constexpr std::string_view kName = "reference", kJoin = " + ";
  for (;;) {
    const size_t end = kernel.find(kJoin);
    if (kernel.substr(0, end) == kName) return true;
    if (end == std::string_view::npos) return false;
    kernel.remove_prefix(end + kJoin.size());
  }
}

struct StepTiming {
  size_t step;      ///< index into Program::steps()
  double start_ms;  ///< since the start of the run
  double duration_ms;
  double reference_ms = 0;  ///< of it in reference kernels; in bodies of control flow, too
  bool is_copy = false;     ///< of an operand or result of the step into another layout
  bool on_device = false;   ///< by the device's own clock; the host's else
};

/// Milliseconds by operator; what runs in a body of control flow is named "Loop/Add".
using OperatorTimes = std::map<std::string, double>;

/// Memory of one shape plan, in bytes.
struct MemoryInfo {
  int64_t arena_bytes = 0;        ///< planned activations, in host memory
  int64_t device_bytes = 0;       ///< and in memory of a device
  int64_t lower_bound_bytes = 0;  ///< largest sum of values alive at once
  int64_t weight_bytes = 0;       ///< weights in the form kept for running

  int64_t activation_bytes() const { return arena_bytes + device_bytes; }
};

/// A result where a kernel left it, in the layout that it has there.
struct RawValue {
  size_t output = 0;  ///< of the program
  DType dtype = DType::kUndefined;
  Dims dims;
  const std::byte* data = nullptr;
  /// 0: row-major. b: [N, ceil(C / b), spatial.., b] of [N, C, spatial..], where what fills the
  /// last block up is no element. b = C is channels last.
  int64_t channel_block = 0;
};

/// Inputs and outputs, by position, that lie in a device's memory between runs.
struct ResidentValues {
  std::vector<size_t> inputs, outputs;
};

/// Those that hold the caches of `graph` (FindCarried).
ResidentValues CachesOf(const Graph& graph);

/// A row-major tensor in a device's memory, from its first byte on. Nobody writes what is shared.
struct DeviceTensor {
  DType dtype = DType::kUndefined;
  Dims dims = {};
  std::shared_ptr<DeviceMemory> memory = {};
  const Device* device = nullptr;  ///< whose memory it is
};

struct CompileOptions {
  /// 0: every node by itself, f32 as written (the golden model); 1: with epilogues and integer
  /// kernels for DQ -> op -> Q; 2: also what changes rounding (Winograd, Strassen).
  int level = 2;
  /// From level 1 on; level 0 multiplies in f32. Unsupported by a backend that lacks it.
  Compute compute = Compute::kF32;
  int threads = 0;  ///< lanes a run asks for; 0: the process budget
  /// For lanes, while weights are packed.
  Priority priority = Priority::kNormal;
  /// Weights in no form that is larger than they are, such as Winograd's and sums that Strassen's
  /// products keep. Slower, and with other rounding.
  bool low_memory = false;
  bool allow_reference = true;  ///< false: Unsupported lists all nodes without a fast kernel
  /// Candidates of a step are timed on its real shapes, and the fastest is taken; else the first
  /// that accepts. What was measured is kept in `tune_cache`, a file of this machine, and taken
  /// from there where it is known, also without `tune`. "": no file.
  bool tune = false;
  std::string tune_cache = {};
  /// The last so many outputs are only watched: RunOptions::watch is shown them, as soon as they
  /// are there where the backend can, and they are not kept. No number is another than if they were
  /// outputs like the others.
  size_t watched = 0;
  /// Inputs and outputs that lie on the device, where the backend has one: steps that work on them
  /// are placed there. A run copies such values between host and device like others, unless it may
  /// leave them there (RunOptions::leave_resident). nullopt: the model's caches.
  std::optional<ResidentValues> resident = {};
  /// Is shown the program after every step of compiling, where the backend has such steps; bodies
  /// of control flow and what is compiled during a run are left out.
  PlanObserver observe = {};
};

struct RunOptions {
  bool profile = false;
  /// Looked at while the run waits for lanes or for a plan that another run makes, between steps,
  /// between nodes of bodies and before each iteration of a loop, and inside of reference kernels,
  /// not inside of others; then Run returns Cancelled.
  std::stop_token stop = {};
  /// As if `stop` asked at that time.
  Deadline deadline = kNoDeadline;
  /// For lanes. A less urgent run gives lanes up between two launches while a more urgent one
  /// waits.
  Priority priority = Priority::kNormal;
  /// Is shown each watched output that is a tensor of numbers, once, in the thread that runs and
  /// with its lanes. What it is shown is gone when it returns.
  std::function<void(const RawValue&)> watch = {};
  /// A resident output is not copied to the host: output() of it is undefined, resident_output()
  /// has it. A resident input from the host is copied to the device once after it was bound.
  bool leave_resident = false;
};

class RunContext {
 public:
  virtual ~RunContext() = default;
  /// Inputs are kept until bound again. InvalidArgument when type or shape do not fit the graph's;
  /// where two inputs share a symbol, and their extents differ, Run says so.
  virtual Status BindInput(size_t i, Datum value) = 0;
  /// Optional: the run writes output i into this buffer (host, right type and size).
  virtual Status BindOutput(size_t i, Tensor buffer) = 0;
  /// Input i is `value`, which stays where it is. InvalidArgument where type, extents or device do
  /// not fit; Unsupported where the input is not resident.
  virtual Status BindResident(size_t i, DeviceTensor value);
  /// Output o of the last successful run. Unsupported where it is not resident.
  virtual Result<DeviceTensor> resident_output(size_t o) const;
  /// Output o of the last successful run is input i of the next, as in a sequence of steps. Nothing
  /// is copied where both are resident, or neither. InvalidArgument as by BindInput.
  Status Carry(size_t o, size_t i);
  virtual Status Run(const RunOptions& options = {}) = 0;
  /// Begins a run on another thread and returns at once; the completion's Wait gives what Run
  /// would have. Until then nothing else may be asked of the context. A completion that is dropped
  /// waits for its run.
  std::shared_ptr<Completion> Start(RunOptions options = {});
  /// Of the last successful Run; copies outlive it. Host memory. Undefined where it is watched.
  virtual const Datum& output(size_t i) const = 0;
  virtual std::span<const StepTiming> profile() const = 0;  ///< of the last run, if asked for
  /// What the last run, if it was profiled, spent in reference kernels.
  virtual const OperatorTimes& reference_times() const = 0;
  virtual MemoryInfo memory() const = 0;  ///< of the current shape plan
  /// Of Program::steps(), for the current shape plan; empty where the backend plans no shapes.
  virtual std::span<const Cost> step_costs() const = 0;
  /// The implementations that run, as step_costs().
  virtual std::span<const std::string> step_kernels() const = 0;
  /// Of all runs so far, on a device; without those of bodies of control flow.
  virtual CommandInfo commands() const { return {}; }
};

/// What a device's driver made of shaders, for all programs of a backend so far.
struct PipelineInfo {
  int64_t made = 0;          ///< pipelines
  double made_ms = 0;        ///< that the driver took to create them
  std::string cache;         ///< "off", "absent", "loaded", or "rejected: " with the reason
  int64_t loaded_bytes = 0;  ///< of the cache
};

class Program {
 public:
  virtual ~Program() = default;
  virtual const std::vector<Value*>& inputs() const = 0;  ///< of the compiled graph
  virtual const std::vector<Value*>& outputs() const = 0;
  virtual const std::vector<StepInfo>& steps() const = 0;
  /// The cost of each of steps() for inputs of these extents (empty for one that is no tensor),
  /// which need not be run: zeros where values decide a shape. Not ok where the extents do not fit.
  virtual Result<std::vector<Cost>> CostsFor(std::span<const Dims> input_dims) const = 0;
  virtual Result<std::unique_ptr<RunContext>> NewContext() const = 0;
  /// nullopt where nothing runs on shaders.
  virtual std::optional<PipelineInfo> pipelines() const { return std::nullopt; }
  /// On which steps run; nullptr where all run on host memory.
  virtual Device* device() const { return nullptr; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  ///< "reference", "cpu", "vulkan", "mock"
  /// "" when this machine can run the backend, else why not.
  virtual std::string Unavailable() const = 0;
  /// Whether a kernel of the backend's own may take the operator, depending on types, shapes and
  /// attributes; all others run on the reference kernel.
  virtual bool HasKernelFor(const OpDef& /*def*/) const { return false; }
  /// How this machine computes in it, where a user would want to know (slowly, by other means); ""
  /// for as expected. Unsupported: the backend does not.
  virtual Result<std::string> HowComputes(Compute compute) const;
  /// Copies what it needs from `graph` (tensors are shared). Unsupported lists all nodes that
  /// cannot run.
  virtual Result<std::shared_ptr<const Program>> Compile(const Graph& graph,
                                                         const CompileOptions& options) const = 0;
  /// The same, of a graph that nobody else needs: weights are let go as kernels take them into
  /// forms of their own, so that a program holds each once.
  virtual Result<std::shared_ptr<const Program>> CompileOwned(Graph graph,
                                                              const CompileOptions& options) const {
    return Compile(graph, options);
  }
};

/// Of a backend that multiplies in f32 only: Unsupported for anything else.
Status RefuseCompute(std::string_view backend, Compute compute);

/// Binds, runs in a context of its own, and returns the outputs, all in graph order.
Result<std::vector<Datum>> RunOnce(const Program& program, std::span<const Datum> inputs,
                                   const RunOptions& options = {});

}  // namespace infer
