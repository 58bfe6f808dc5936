#pragma once
/// ShapePlan: what a program needs for one set of input shapes: types of all values, layouts, the
/// launch list, the memory plan. Cheap beside compiling (weights are packed once per layout). Plans
/// for other extents share what is the same (ADR 59).
#include <algorithm>
#include <functional>
#include <mutex>

#include "runtime/plan_ir/kernel.h"
#include "runtime/plan_ir/memory_plan.h"
#include "runtime/plan_ir/plan_backend.h"
#include "runtime/plan_ir/value_facts.h"

namespace infer {

/// Candidates of each step, best first.
struct StepKernels {
  std::vector<std::shared_ptr<const Kernel>> kernels;
  std::vector<std::string> names;
  std::vector<size_t> backends;  ///< whose each is, of the program's; empty: all are the first's
  size_t backend(size_t k) const { return backends.empty() ? 0 : backends[k]; }
  std::vector<StepKernels> parts = {};  ///< of PlanStep::parts
};

struct PlannedBuffer {
  enum class Kind : uint8_t { kArena, kConstant, kInput, kOutput };
  Kind kind = Kind::kArena;
  int index = 0;    ///< of the graph input or output
  Tensor constant;  ///< kConstant that some launch reads
  int64_t bytes = 0;
  int64_t room = 0;    ///< kArena: that the arena keeps for it
  int64_t offset = 0;  ///< kArena: in the arena of its space
  MemorySpace space = MemorySpace::kHost;
};

struct PlannedLaunch {
  size_t step = 0;
  int part = -1;            ///< of PlanStep::parts; -1: the step is run whole
  std::vector<int> args;    ///< buffers; -1: not read, or (reference) in a slot
  bool is_copy = false;     ///< args[0] to args[1], perhaps into another layout
  bool crosses = false;     ///< a copy between host memory and the device, no launch
  size_t backend = 0;       ///< of the program's, whose launch it is
  bool is_late = false;     ///< all late steps at once (PlanFrame::late)
  bool alone = false;       ///< on the calling thread only
  bool reads_host = false;  ///< Prepared::on_host names one of the operands
  /// Shows args[0] as this output of the graph, and computes nothing; -1: does not.
  int watch = -1;
  int64_t channel_block = 0;  ///< of what it shows, as RawValue::channel_block
};

/// Steps whose shapes hang on data: those that read what only the run sizes, and all that follow
/// from them. They stand last, as one launch (operands, then results); the backend plans them when
/// the shapes are there.
struct LateSteps {
  std::vector<size_t> steps;
  std::vector<int> inputs, outputs;  ///< value ids; outputs are the graph's
  bool Reads(int id) const { return std::find(inputs.begin(), inputs.end(), id) != inputs.end(); }
};

/// The part of a shape plan that hangs on what runs in which order, and not on how large anything
/// is. Plans of one program for other extents share it where it is the same.
struct PlanFrame {
  std::vector<PlannedLaunch> launches;
  /// By value id: the plain buffer, or -1 where the value is a Datum in a slot.
  std::vector<int> plain;
  std::vector<int> outputs;  ///< buffer by graph output; -1: slot, or shown by a launch
  LateSteps late;
  bool uses_device = false;

  /// The rest follows from `launches` and from the kinds of the plan's buffers.
  void Index(std::span<const PlannedBuffer> buffers);
  std::vector<int> args;          ///< of all launches, one after the other
  std::vector<size_t> first_arg;  ///< by launch
  std::vector<size_t> external;   ///< arguments that are inputs or outputs of the graph
  /// By buffer: the first and the last launch that has it as an argument; {.., -1}: none.
  std::vector<std::pair<int, int>> lives;
};

/// How steps run, for reports; by step.
struct StepReports {
  std::vector<std::string> kernel;                 ///< implementation; of a group in parts "a + b"
  std::vector<std::string> precision;              ///< Prepared::precision
  std::vector<size_t> backend;                     ///< whose it is; reference: the last
  std::vector<std::vector<std::string>> refusals;  ///< "name: reason"
};

struct ShapePlan {
  std::vector<Dims> input_dims;
  std::vector<FactsPtr> facts;  ///< by value id
  const ValueFacts& value(int id) const { return *facts[static_cast<size_t>(id)]; }
  const ValueType& type(int id) const { return value(id).type; }
  std::shared_ptr<const PlanFrame> frame;
  std::vector<PlannedBuffer> buffers;
  /// By launch of the frame; nullptr: the step runs on reference kernels.
  std::vector<std::shared_ptr<const Launch>> code;
  /// By step: the extents of a result are what the model declares, and follow from nothing else.
  /// Such steps run even where nobody reads them, on reference kernels, whose results are compared
  /// with the declaration, or on a kernel that compares itself.
  std::vector<bool> declared;
  std::shared_ptr<const StepReports> reports;
  std::vector<Cost> cost;  ///< by step; zeros where not static
  MemoryInfo memory;
};

/// What lies in a buffer: a value (-1: scratch) in a layout.
struct BufferOrigin {
  int value = -1;
  Layout layout;
};

/// Knows, or measures, which kernel of a step is fastest.
class KernelChooser {
 public:
  virtual ~KernelChooser() = default;
  /// The candidate to ask first; nullopt: not known.
  virtual std::optional<size_t> Known(const PlanStep& step, std::span<const Operand> in,
                                      std::span<const Operand> out,
                                      const StepKernels& candidates) = 0;
  virtual bool measures() const = 0;
  /// The fastest, which is remembered; nullopt: such a step cannot be measured. `prepared` has an
  /// entry for each candidate, nullopt where it refuses.
  virtual std::optional<size_t> Fastest(const PlanStep& step, std::span<const Operand> in,
                                        std::span<const Operand> out, const StepKernels& candidates,
                                        std::span<const std::optional<Prepared>> prepared) = 0;
  /// Keeps what was measured; runs measure nothing after it.
  virtual Status Save() = 0;
};

struct PlanReuse;

/// What a caller wants to know while the plan is made.
struct ShapePlanHooks {
  Priority priority = Priority::kNormal;  ///< for lanes
  /// Of the same plan, kernels and backends; nullptr: nothing is kept. After an error it cannot be
  /// used any more.
  PlanReuse* reuse = nullptr;
  KernelChooser* chooser = nullptr;              ///< else the first that accepts
  std::vector<BufferOrigin>* origins = nullptr;  ///< by buffer
  /// Asked before the launches of a step are made: whether they run on the calling thread only.
  std::function<bool(size_t step, const Cost& cost)> alone = {};
  /// The kernels of this step will not be asked again.
  std::function<void(size_t step)> step_done = {};
  /// No launch reads this constant, and no step or late step needs its elements.
  std::function<void(int value)> constant_unread = {};
};

/// InvalidArgument or InvalidModel when the shapes do not fit the graph. `input_dims` has an empty
/// entry for an input that is not a tensor.
Result<std::shared_ptr<const ShapePlan>> BuildShapePlan(const Plan& plan,
                                                        std::span<const StepKernels> kernels,
                                                        std::span<const Dims> input_dims,
                                                        const PlanBackends& backends,
                                                        const ShapePlanHooks& hooks = {});

/// How many shape plans of a program of so many steps are worth their memory: 32, and of small
/// programs, such as a Loop's body whose state grows, up to 512.
inline size_t PlansKept(size_t steps) {
  constexpr size_t kLaunches = 8192, kFewest = 32, kMost = 512;
  return std::clamp(kLaunches / std::max<size_t>(steps, 1), kFewest, kMost);
}

/// The shape plans of a program, least recently used dropped first. Thread-safe.
class ShapePlanCache {
 public:
  explicit ShapePlanCache(size_t capacity) : capacity_(capacity) {}
  std::shared_ptr<const ShapePlan> Find(std::span<const Dims> input_dims);
  void Add(std::shared_ptr<const ShapePlan> plan);
  void Drop(const ShapePlan* plan);

 private:
  size_t capacity_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const ShapePlan>> plans_;  // most recent first
};

}  // namespace infer
