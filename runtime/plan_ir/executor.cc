#include "runtime/plan_ir/executor.h"

#include <algorithm>
#include <unordered_map>

#include "lib/support/stop.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/lanes.h"

namespace infer {
namespace {

BufferView Whole(const std::shared_ptr<DeviceMemory>& memory) {
  return {memory.get(), 0, memory->bytes()};
}

/// Where it lies is known when a run begins.
bool IsExternal(const PlannedBuffer& b) {
  return b.kind == PlannedBuffer::Kind::kInput || b.kind == PlannedBuffer::Kind::kOutput;
}

/// Of a second arena: an eighth more than the first at least, lest it grows in each run of a
/// decoder whose caches do.
int64_t Grown(int64_t before, int64_t needed) { return std::max(needed, before + before / 8); }

}  // namespace

bool Executor::SameType(const Tensor& t, const TensorType& type) {
  if (t.dtype() != type.dtype || t.rank() != type.shape.rank()) return false;
  for (int i = 0; i < t.rank(); ++i)
    if (t.dim(i) != type.shape[i].value()) return false;
  return true;
}

Executor::Executor(std::shared_ptr<const ExecutorProgram> program)
    : PlanContext(program->plan()),
      program_(std::move(program)),
      bodies_(program_->bodies()),
      slots_(plan_.values.size()),
      resident_in_(plan_.inputs.size()),
      resident_out_(plan_.outputs.size()) {
  for (size_t i = 0; i < plan_.values.size(); ++i)
    if (const Tensor* c = plan_.constant(plan_.values[i])) slots_[i] = *c;
}

Executor::~Executor() { static_cast<void>(AwaitDevice()); }

Status Executor::RunBound(const RunOptions& options) {
  if (const Device* const device = program_->device()) INFER_TRY(device->CheckThere());
  INFER_TRY(SelectPlan(options.priority));
  INFER_TRY(PlaceResident());
  INFER_TRY(BindPointers(options));
  check_.emplace(plan_.graph, inputs_);
  Status ran = RunLaunches(options);
  if (program_->device()) {
    // Nothing of this run may be under way when it is over, however it ended.
    Status ended = AwaitDevice();
    if (ran.ok()) ran = std::move(ended);
    if (!ran.ok()) {
      if (encoder_) commands_ += encoder_->commands();
      encoder_.reset();
      ForgetRecorded();
      ForgetResident();
    }
    plans_[0]->has_run = true;
  }
  INFER_TRY(std::move(ran));
  return Finish();
}

bool Executor::Fits(const ShapePlan& plan) const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (IsPlannedInput(i) && inputs_[i].tensor().dims() != plan.input_dims[i]) return false;
  return true;
}

bool Executor::TakeBound() {
  const auto fits = [this](const auto& bound) { return Fits(*bound->plan); };
  if (plans_.empty() || fits(plans_.front())) return !plans_.empty();
  // Where a loop's state grows, the plan that waited longest is the next.
  const auto found =
      fits(plans_.back()) ? plans_.end() - 1 : std::find_if(plans_.begin(), plans_.end(), fits);
  if (found == plans_.end()) return false;
  std::rotate(plans_.begin(), found, found + 1);
  return true;
}

bool Executor::KnowsShapes() { return TakeBound() || program_->HasPlan(InputDims()); }

std::vector<Dims> Executor::BoundShapes() const { return InputDims(); }

Status Executor::SelectPlan(Priority priority) {
  if (TakeBound()) {
    if (plans_[0]->arenas != arenas_) PointIntoArena(*plans_[0]);
    return {};
  }
  INFER_ASSIGN(auto plan, program_->PlanFor(InputDims(), {.priority = priority}));
  return Bind(std::move(plan));
}

Status Executor::GrowArenas(const ShapePlan& plan) {
  const bool host = arena_ && static_cast<int64_t>(arena_->size()) >= plan.memory.arena_bytes;
  const bool device = !plan.frame->uses_device ||
                      (device_arena_ && device_arena_->bytes() >= plan.memory.device_bytes);
  if (host && device) return {};
  // Where there is no memory for the larger one, no plan is left with pointers to the smaller.
  auto known = std::move(plans_);
  plans_.clear();
  for (const auto& bound : known) bound->recorded.clear();
  step_costs_ = {};
  step_kernels_ = {};
  if (!host) {
    const int64_t bytes =
        Grown(arena_ ? static_cast<int64_t>(arena_->size()) : 0, plan.memory.arena_bytes);
    arena_.reset();
    arena_ = Buffer::Allocate(static_cast<size_t>(bytes));
  }
  if (!device) {
    const int64_t bytes =
        Grown(device_arena_ ? device_arena_->bytes() : 0, plan.memory.device_bytes);
    device_arena_.reset();
    INFER_ASSIGN(device_arena_, program_->device()->Allocate(bytes));
  }
  ++arenas_;
  plans_ = std::move(known);
  return {};
}

std::vector<std::shared_ptr<LaunchState>> Executor::StatesOf(const ShapePlan& plan) const {
  if (!plans_.empty() && plans_[0]->plan->frame == plan.frame) return StatesBeside(plan);
  std::unordered_map<const Launch*, std::shared_ptr<LaunchState>> before;
  if (!plans_.empty())
    for (size_t l = 0; l < plans_[0]->states.size(); ++l)
      before.emplace(plans_[0]->plan->code[l].get(), plans_[0]->states[l]);
  std::vector<std::shared_ptr<LaunchState>> states;
  states.reserve(plan.code.size());
  for (const auto& code : plan.code) {
    const auto found = before.find(code.get());
    if (!code)
      states.push_back(nullptr);
    else if (found != before.end())
      states.push_back(found->second);
    else
      states.push_back(code->NewState());
  }
  return states;
}

std::vector<std::shared_ptr<LaunchState>> Executor::StatesBeside(const ShapePlan& plan) const {
  std::vector<std::shared_ptr<LaunchState>> states = plans_[0]->states;
  for (size_t l = 0; l < states.size(); ++l)
    if (plan.code[l] != plans_[0]->plan->code[l])
      states[l] = plan.code[l] ? plan.code[l]->NewState() : nullptr;
  return states;
}

Status Executor::Bind(std::shared_ptr<const ShapePlan> plan) {
  const int64_t arena = device_arena_ ? device_arena_->bytes() : 0;
  INFER_TRY(program_->CheckRoom(*plan, std::max<int64_t>(plan->memory.device_bytes - arena, 0)));
  INFER_TRY(GrowArenas(*plan));
  const PlanFrame& frame = *plan->frame;
  auto bound = std::make_unique<Bound>();
  bound->states = StatesOf(*plan);
  bound->plain.reserve(frame.launches.size());
  for (size_t l = 0; l < frame.launches.size(); ++l) {
    const bool plain =
        !frame.uses_device && !frame.launches[l].is_late && frame.launches[l].watch < 0;
    bound->plain.push_back(plain ? plan->code[l].get() : nullptr);
  }
  bound->args.resize(frame.args.size());
  // Commands of the device are handed over by the calling thread: runs beside it need no lanes of
  // it.
  bound->alone = true;
  for (size_t l = 0; l < frame.launches.size(); ++l)
    bound->alone &= frame.launches[l].alone || (frame.uses_device && IsCommand(*plan, l));
  if (frame.uses_device) INFER_TRY(BindDevice(*plan, *bound));
  bound->plan = std::move(plan);
  if (bound->plan->frame->uses_device) FindSegments(*bound);
  PointIntoArena(*bound);
  plans_.insert(plans_.begin(), std::move(bound));
  // As many as the program keeps: binding one anew costs more than small networks run.
  if (plans_.size() > PlansKept(plan_.steps.size())) plans_.pop_back();
  return {};
}

Status Executor::BindDevice(const ShapePlan& plan, Bound& bound) {
  bound.device_args.resize(bound.args.size());
  bound.constants.resize(plan.buffers.size());
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const PlannedBuffer& buffer = plan.buffers[b];
    if (buffer.space != MemorySpace::kDevice) continue;
    if (IsExternal(buffer)) bound.resident.push_back(static_cast<int>(b));
    if (!buffer.constant.defined()) continue;
    INFER_ASSIGN(bound.constants[b], program_->OnDevice(buffer.constant));
  }
  return {};
}

void Executor::PointIntoArena(Bound& bound) const {
  const ShapePlan& plan = *bound.plan;
  bound.arenas = arenas_;
  bound.pointers.assign(plan.buffers.size(), nullptr);
  if (plan.frame->uses_device) bound.views.assign(plan.buffers.size(), {});
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& b = plan.buffers[i];
    const bool in_arena = b.kind == PlannedBuffer::Kind::kArena;
    if (b.space == MemorySpace::kDevice) {
      if (in_arena) bound.views[i] = {device_arena_.get(), b.offset, b.bytes};
      if (bound.constants[i]) bound.views[i] = Whole(bound.constants[i]);
      continue;
    }
    std::byte*& p = bound.pointers[i];
    if (in_arena) p = arena_->mutable_data() + b.offset;
    if (b.kind == PlannedBuffer::Kind::kConstant) p = const_cast<std::byte*>(b.constant.raw());
  }
  const std::vector<int>& args = plan.frame->args;
  for (size_t arg = 0; arg < args.size(); ++arg) {
    if (args[arg] < 0) continue;
    const auto b = static_cast<size_t>(args[arg]);
    bound.args[arg] = bound.pointers[b];
    if (!bound.device_args.empty()) bound.device_args[arg] = bound.views[b];
  }
}

Status Executor::BindPointers(const RunOptions& options) {
  Bound& bound = *plans_[0];
  const ShapePlan& plan = *bound.plan;
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const int b = plan.frame->outputs[o];
    if (b < 0) continue;
    if (options.leave_resident &&
        plan.buffers[static_cast<size_t>(b)].space == MemorySpace::kDevice) {
      outputs_[o] = Datum();
      continue;
    }
    const TensorType& type = plan.type(plan_.outputs[o]).tensor();
    if (buffers_[o]) {
      if (!SameType(*buffers_[o], type))
        return InvalidArgument(Cat("output '", plan_.graph.outputs()[o]->name(), "' is ",
                                   ToString(type), ", its buffer ", ToString(buffers_[o]->type())));
      outputs_[o] = *buffers_[o];
    } else if (!outputs_[o].is_tensor() || !SameType(outputs_[o].tensor(), type) ||
               !outputs_[o].tensor().HeldAlone()) {
      outputs_[o] = Tensor(type.dtype, type.shape.static_dims());
    }
    bound.pointers[static_cast<size_t>(b)] = outputs_[o].tensor().mutable_raw();
  }
  for (const size_t arg : plan.frame->external) {
    const int b = plan.frame->args[arg];
    const PlannedBuffer& buffer = plan.buffers[static_cast<size_t>(b)];
    if (buffer.space == MemorySpace::kDevice) {
      bound.device_args[arg] = bound.views[static_cast<size_t>(b)];
      continue;
    }
    std::byte*& p = bound.pointers[static_cast<size_t>(b)];
    if (buffer.kind == PlannedBuffer::Kind::kInput)
      p = const_cast<std::byte*>(inputs_[static_cast<size_t>(buffer.index)].tensor().raw());
    bound.args[arg] = p;
  }
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (plan.frame->plain[static_cast<size_t>(plan_.inputs[i])] < 0)
      slots_[static_cast<size_t>(plan_.inputs[i])] = inputs_[i];
  memory_ = plan.memory;
  step_costs_ = plan.cost;
  step_kernels_ = plan.reports->kernel;
  return {};
}

Status Executor::RunLaunches(const RunOptions& options) {
  const Bound& bound = *plans_[0];
  HeldLanes lanes(program_->host(), bound.alone ? 1 : program_->lanes(), options.priority);
  std::optional<HeldLanes> one;  // while launches run on the calling thread only
  if (options.profile) profile_.reserve(bound.plan->frame->launches.size());
  if (options.profile) INFER_TRY(StartClocks());
  const double start = profile_start_;
  INFER_TRY(MoveResident(true, options));
  double begin = options.profile ? NowMs() : start;
  RecordedRun* const kept = RecordedRunOf(options);
  size_t segment = 0;
  for (size_t l = 0; l < bound.plan->frame->launches.size(); ++l) {
    INFER_TRY(CheckStop());
    if (kept && segment < bound.segments.size() && bound.segments[segment].begin == l) {
      INFER_TRY(RunSegment(segment, *kept));
      l = bound.segments[segment++].end - 1;
      continue;
    }
    const PlannedLaunch& launch = bound.plan->frame->launches[l];
    if (!launch.alone && one) one.reset();
    if (!one) lanes.Adjust();
    if (launch.alone && !one && lanes.lanes() > 1) one.emplace(program_->host(), 1);
    if (bound.plain[l]) {
      INFER_TRY(bound.plain[l]->Run(bound.args.data() + bound.plan->frame->first_arg[l],
                                    bound.states[l].get()));
      if (options.profile) begin = Profile(launch.step, start, begin, false, launch.is_copy);
      continue;
    }
    const bool shows = launch.watch >= 0;
    if (launch.is_late || (!bound.plan->code[l] && !shows && !launch.crosses &&
                           RunsBodies(plan_.steps[launch.step]))) {
      if (downloads_) INFER_TRY(AwaitDevice());
      INFER_TRY(launch.is_late ? RunLate(launch, options, start)
                               : RunBodies(launch, options, start));
      if (options.profile) begin = NowMs();
      continue;
    }
    if (options.profile && bound.plan->frame->uses_device) {
      if (IsOnDevice(launch)) {
        INFER_TRY(RecordTimed(l));
        continue;
      }
      INFER_TRY(AwaitDevice());
      begin = NowMs();
    }
    INFER_TRY(RunLaunch(l, options));
    if (options.profile)
      begin = Profile(launch.step, start, begin, !bound.plan->code[l] && !shows && !launch.crosses,
                      launch.is_copy || shows);
  }
  return MoveResident(false, options);
}

bool Executor::IsOnDevice(const PlannedLaunch& launch) const {
  return launch.crosses || program_->backends()[launch.backend]->space() == MemorySpace::kDevice;
}

Status Executor::RunLaunch(size_t index, const RunOptions& options) {
  const Bound& bound = *plans_[0];
  const PlannedLaunch& launch = bound.plan->frame->launches[index];
  if (bound.plan->frame->uses_device) {
    if (IsOnDevice(launch)) return Record(index);
    INFER_TRY(downloads_ ? AwaitDevice() : SubmitRecorded());
  }
  if (launch.watch >= 0) return ShowWatched(index, options);
  const Launch* code = bound.plan->code[index].get();
  return code ? code->Run(bound.args.data() + bound.plan->frame->first_arg[index],
                          bound.states[index].get())
              : RunReference(launch);
}

Status Executor::MakeEncoder() {
  if (encoder_) return {};
  INFER_ASSIGN(encoder_, program_->device()->NewEncoder());
  return {};
}

bool Executor::IsUpload(const PlannedLaunch& launch) const {
  return launch.crosses && plans_[0]->plan->buffers[static_cast<size_t>(launch.args[1])].space ==
                               MemorySpace::kDevice;
}

std::span<const BufferView> Executor::DeviceArgs(size_t index) {
  Bound& bound = *plans_[0];
  const PlannedLaunch& launch = bound.plan->frame->launches[index];
  const size_t first = bound.plan->frame->first_arg[index];
  const auto args = std::span(bound.device_args).subspan(first, launch.args.size());
  for (size_t i = 0; launch.reads_host && i < args.size(); ++i)
    args[i].host = bound.args[first + i];
  return args;
}

Status Executor::Record(size_t index) {
  const Bound& bound = *plans_[0];
  const PlannedLaunch& launch = bound.plan->frame->launches[index];
  // Bytes that are read here may be on their way to the host still: views run nothing in between.
  if (downloads_ && (launch.reads_host || IsUpload(launch))) INFER_TRY(AwaitDevice());
  INFER_TRY(MakeEncoder());
  recorded_ = true;
  if (!launch.crosses)
    return bound.plan->code[index]->Record(*encoder_, DeviceArgs(index), bound.states[index].get());
  const auto from = static_cast<size_t>(launch.args[0]), to = static_cast<size_t>(launch.args[1]);
  if (IsUpload(launch)) return encoder_->Upload(bound.views[to], bound.pointers[from]);
  downloads_ = true;
  return encoder_->Download(bound.pointers[to], bound.views[from]);
}

Status Executor::SubmitRecorded() {
  if (!std::exchange(recorded_, false)) return {};
  INFER_ASSIGN(auto submitted, encoder_->Submit());
  under_way_.push_back(std::move(submitted));
  return {};
}

Status Executor::AwaitDevice() {
  Status first = SubmitRecorded();
  downloads_ = false;
  for (const auto& submitted : std::exchange(under_way_, {})) {
    Status ended = submitted->Wait();
    if (first.ok()) first = std::move(ended);
  }
  if (first.ok()) return ReadMarks();
  marked_.clear();
  return first;
}

Status Executor::ShowWatched(size_t index, const RunOptions& options) {
  const Bound& bound = *plans_[0];
  const PlannedLaunch& launch = bound.plan->frame->launches[index];
  const auto o = static_cast<size_t>(launch.watch);
  const TensorType& t = bound.plan->type(plan_.outputs[o]).tensor();
  const std::byte* shown = bound.args[bound.plan->frame->first_arg[index]];
  Show({o, t.dtype, t.shape.static_dims(), shown, launch.channel_block}, options);
  return {};
}

Status Executor::Finish() {
  for (size_t o = 0; o < outputs_.size(); ++o)
    if (plans_[0]->plan->frame->outputs[o] < 0)
      INFER_TRY(Deliver(o, slots_[static_cast<size_t>(plan_.outputs[o])]));
  for (int id : plan_.outputs)
    if (!plan_.constant(plan_.values[static_cast<size_t>(id)]))
      slots_[static_cast<size_t>(id)] = Datum();
  return {};
}

}  // namespace infer
