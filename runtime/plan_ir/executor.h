#pragma once
/// One run of a program at a time: arenas, bound pointers, launch states, and on a device the
/// commands that are under way. Written once for all backends: bodies of control flow,
/// data-dependent steps, watched outputs, reference kernels, profiles.
#include "lib/ir/control_flow.h"
#include "lib/ir/eval.h"
#include "runtime/plan_ir/bodies.h"

namespace infer {

class Executor final : public PlanContext {
 public:
  explicit Executor(std::shared_ptr<const ExecutorProgram> program);
  ~Executor() override;
  /// Whether this context or its program has a plan for what is bound.
  bool KnowsShapes();
  /// By input; empty for what is no tensor.
  std::vector<Dims> BoundShapes() const;
  Status BindResident(size_t i, DeviceTensor value) override;
  Result<DeviceTensor> resident_output(size_t o) const override;
  CommandInfo commands() const override;

 private:
  /// Launches of the device, one behind the other, that hang on nothing of the run but bytes.
  struct Segment {
    size_t begin = 0, end = 0;    // launches
    std::vector<size_t> renewed;  // of them, those that bring bytes to the device or back
    bool downloads = false;
  };
  /// The commands of all segments, for resident values at these places.
  struct RecordedRun {
    std::vector<std::weak_ptr<DeviceMemory>> resident;        // as Bound::resident
    std::vector<std::shared_ptr<RecordedCommands>> segments;  // nullptr: not recorded yet
  };
  /// A shape plan with this context's pointers.
  struct Bound {
    std::shared_ptr<const ShapePlan> plan;
    std::vector<std::byte*> args;                      // as PlanFrame::args
    std::vector<std::shared_ptr<LaunchState>> states;  // by launch; plans share that of a launch
    std::vector<const Launch*> plain;  // by launch: of host memory, with nothing around it
    std::vector<std::byte*> pointers;  // by buffer, of host memory
    // The next three are empty where no device is used.
    std::vector<BufferView> views;                         // by buffer, of the device's
    std::vector<BufferView> device_args;                   // as args
    std::vector<std::shared_ptr<DeviceMemory>> constants;  // by buffer
    std::vector<int> resident;                             // buffers: inputs and outputs there
    std::vector<Segment> segments;
    std::vector<RecordedRun> recorded;  // most recent first
    bool has_run = false;               // with commands that were handed over once
    bool keeps_commands = true;
    size_t arenas = 0;                                    // to which its pointers lead
    bool alone = false;                                   // all launches are
    std::shared_ptr<const ExecutorProgram> late_program;  // once it has run
    std::unique_ptr<Executor> late;
    int64_t late_bytes = 0;          // that it holds between runs
    bool late_on_reference = false;  // no program could run them
  };
  Status RunBound(const RunOptions& options) override;
  Status RunLaunches(const RunOptions& options);
  /// One that is no late one, and runs no bodies.
  Status RunLaunch(size_t index, const RunOptions& options);
  /// The launch shows an output.
  Status ShowWatched(size_t index, const RunOptions& options);
  Status SelectPlan(Priority priority);
  bool Fits(const ShapePlan& plan) const;
  /// Puts the bound plan of these shapes first; false: there is none.
  bool TakeBound();
  Status Bind(std::shared_ptr<const ShapePlan> plan);
  /// Of a plan that uses the device: its constants and resident buffers there.
  Status BindDevice(const ShapePlan& plan, Bound& bound);
  /// By launch of the plan: the state that the plan before has of it, or a new one.
  std::vector<std::shared_ptr<LaunchState>> StatesOf(const ShapePlan& plan) const;
  /// The same, of a plan that shares the frame of the one before.
  std::vector<std::shared_ptr<LaunchState>> StatesBeside(const ShapePlan& plan) const;
  /// Memory for the largest plan so far.
  Status GrowArenas(const ShapePlan& plan);
  /// Sets all pointers but those of inputs and outputs.
  void PointIntoArena(Bound& bound) const;
  Status BindPointers(const RunOptions& options);

  void InputBound(size_t i) override;
  /// Memory that nobody else holds, of earlier runs where there is some.
  Result<std::shared_ptr<DeviceMemory>> ResidentMemory(int64_t bytes);
  /// Where resident inputs and outputs of this run lie.
  Status PlaceResident();
  const std::shared_ptr<DeviceMemory>& ResidentAt(int buffer) const;
  /// Copies resident inputs to the device, or resident outputs from there, where they have to go.
  Status MoveResident(bool to_device, const RunOptions& options);
  /// After a failed run: what it copied and made is not there.
  void ForgetResident();
  /// Whether input i was bound as a tensor of the device.
  bool IsGiven(size_t i) const;

  /// Begins to profile a run: where the device has a clock, what it shows now.
  Status StartClocks();
  /// Record, with an entry of the profile. A launch of the device is timed by marks on its clock,
  /// which wait for nothing; a transfer, and all where the device has no clock, by the host's.
  Status RecordTimed(size_t index);
  /// Fills the entries of launches that have ended.
  Status ReadMarks();
  /// A copy between the memory spaces, or a launch of the device, behind what was recorded.
  Status Record(size_t index);
  bool IsOnDevice(const PlannedLaunch& launch) const;
  /// Launch `l` of the plan is a command for the device, whatever the run brings.
  bool IsCommand(const ShapePlan& plan, size_t l) const;
  Status MakeEncoder();
  /// What Record was given for the launch.
  std::span<const BufferView> DeviceArgs(size_t index);
  /// A copy from host memory to the device; else one back. Pre: it crosses.
  bool IsUpload(const PlannedLaunch& launch) const;

  void FindSegments(Bound& bound) const;
  /// Where commands of this run are kept; nullptr: they are handed over once.
  RecordedRun* RecordedRunOf(const RunOptions& options);
  Status RunSegment(size_t index, RecordedRun& run);
  Status RecordSegment(const Segment& segment, std::shared_ptr<RecordedCommands>& kept);
  /// Hands it over again, with the bytes of this run.
  Status ReplaySegment(const Segment& segment, const std::shared_ptr<RecordedCommands>& kept);
  void ForgetRecorded();
  /// Hands over what was recorded. The host goes on beside it.
  Status SubmitRecorded();
  /// Until all commands have ended; then what was downloaded is there.
  Status AwaitDevice();

  /// What the node itself spends is not a kernel's; its bodies say what of theirs is the
  /// reference's.
  Status RunBodies(const PlannedLaunch& launch, const RunOptions& options, double start);
  /// All late steps, by a program of their own.
  Status RunLate(const PlannedLaunch& launch, const RunOptions& options, double start);
  Status RunLateProgram(const PlannedLaunch& launch, const RunOptions& options, double start);
  /// Lets go of all inputs, which have to be bound anew.
  void ReleaseInputs();
  /// Bytes held between runs: arena, outputs, and those of late steps.
  int64_t HeldBytes() const;
  /// Lets go of contexts for late steps of earlier shapes where they hold much: where a loop's
  /// state grows, each shape would keep a state of its own.
  void LimitLate();
  /// One by one: what contradicts itself in a branch that is not taken has no plan.
  Status RunLateOnReference(const PlannedLaunch& launch, const RunOptions& options, double start);
  /// The tensor has this type and these extents.
  static bool SameType(const Tensor& t, const TensorType& type);
  /// The operand of a launch that is no kernel's: value `id`, in buffer `b` or in its slot.
  Datum OperandOf(int id, int b);
  /// Takes the result of such a launch.
  Status Keep(int id, int b, Datum made);
  Status RunReference(const PlannedLaunch& launch, const SubgraphRunner& run = {});
  Status Finish();

  std::shared_ptr<const ExecutorProgram> program_;
  BodyRuns bodies_;
  std::vector<Datum> slots_;          // by value id, for steps on reference kernels
  std::optional<ResultCheck> check_;  // of what they make in this run
  std::shared_ptr<Buffer> arena_;
  std::shared_ptr<DeviceMemory> device_arena_;
  size_t arenas_ = 0;  // how often they were made
  struct ResidentInput {
    std::shared_ptr<DeviceMemory> memory = {};
    bool current = false;  // it holds what is bound
  };
  std::vector<ResidentInput> resident_in_;                    // by input
  std::vector<DeviceTensor> resident_out_;                    // by output
  std::vector<std::shared_ptr<DeviceMemory>> resident_pool_;  // also what others still hold
  std::vector<std::unique_ptr<Bound>> plans_;                 // most recent first
  std::unique_ptr<Encoder> encoder_;  // nullptr until it is needed, and after a failure
  CommandInfo commands_;              // of encoders before it
  bool recorded_ = false;             // something that is not submitted
  bool downloads_ = false;            // something that the host waits for
  std::vector<std::shared_ptr<Completion>> under_way_;
  struct Marked {
    size_t entry, begin, end;  // of the profile; numbers of marks
  };
  std::vector<Marked> marked_;
  double profile_start_ = 0;  // NowMs
  double device_zero_ = 0;    // of the device's clock, as NowMs has it
  bool has_clock_ = false;
};

}  // namespace infer
