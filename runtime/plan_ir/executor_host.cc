/// Launches that need operands as tensors on the host: bodies, reference kernels, and steps whose
/// extents only the run knows.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "lib/support/strings.h"
#include "runtime/plan_ir/executor.h"
#include "runtime/plan_ir/interpreter.h"

namespace infer {
namespace {

/// Bytes that contexts for late steps of other shapes than the last may hold.
constexpr int64_t kMostLateBytes = int64_t{64} << 20;

/// A datum that does not borrow memory of the arena.
Datum Owned(const Datum& d) {
  if (d.is_tensor())
    return d.tensor().buffer() && d.tensor().buffer()->borrowed() ? Datum(d.tensor().Clone()) : d;
  if (d.is_sequence()) {
    SequenceDatum s;
    for (const Datum& e : d.sequence()) s.elements.push_back(Owned(e));
    return s;
  }
  if (d.is_optional() && d.optional().value)
    return OptionalDatum{std::make_shared<const Datum>(Owned(*d.optional().value))};
  return d;
}

}  // namespace

Status Executor::RunBodies(const PlannedLaunch& launch, const RunOptions& options, double start) {
  const double begin = options.profile ? NowMs() : 0;
  const std::string op = options.profile ? OperatorOf(plan_.steps[launch.step]) : "";
  OperatorTimes times;
  Status ran = RunReference(
      launch, [&](const SubgraphCall& call) { return bodies_.Run(call, options, op, times); });
  bodies_.Release(*plan_.steps[launch.step].main);
  INFER_TRY(std::move(ran));
  if (!options.profile) return {};
  Profile(launch.step, start, begin, false);
  for (const auto& [inner, ms] : times) {
    profile_.back().reference_ms += ms;
    reference_times_[inner] += ms;
  }
  return {};
}

Datum Executor::OperandOf(int id, int b) {
  if (b < 0) return slots_[static_cast<size_t>(id)];
  const Bound& bound = *plans_[0];
  const PlannedBuffer& buffer = bound.plan->buffers[static_cast<size_t>(b)];
  const TensorType& type = bound.plan->type(id).tensor();
  const Dims dims = type.shape.static_dims();
  if (buffer.kind == PlannedBuffer::Kind::kConstant) return buffer.constant.Reshaped(dims);
  if (buffer.kind == PlannedBuffer::Kind::kInput)
    return inputs_[static_cast<size_t>(buffer.index)].tensor().Reshaped(dims);
  return Tensor(type.dtype, dims,
                Buffer::Borrow(bound.pointers[static_cast<size_t>(b)],
                               static_cast<size_t>(buffer.bytes), nullptr));
}

Status Executor::Keep(int id, int b, Datum made) {
  if (b < 0) {
    slots_[static_cast<size_t>(id)] = Owned(made);
    return {};
  }
  const Bound& bound = *plans_[0];
  const TensorType& type = bound.plan->type(id).tensor();
  if (!made.is_tensor() || !SameType(made.tensor(), type))
    // Inference follows kernels; only what the model declares of a value can mislead it.
    return InvalidModel(Cat("value '", plan_.values[static_cast<size_t>(id)]->name(),
                            "': the model says ", ToString(type),
                            ", running it gives another type"));
  if (const Tensor& t = made.tensor(); t.byte_size() > 0)
    std::memcpy(bound.pointers[static_cast<size_t>(b)], t.raw(),
                static_cast<size_t>(t.byte_size()));
  return {};
}

Status Executor::RunReference(const PlannedLaunch& launch, const SubgraphRunner& run) {
  const LateSteps& late = plans_[0]->plan->frame->late;
  const PlanStep& whole = plan_.steps[launch.step];
  const PlanStep& step = launch.part < 0 ? whole : whole.parts[static_cast<size_t>(launch.part)];
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (launch.args[i] >= 0)
      slots_[static_cast<size_t>(step.inputs[i])] = OperandOf(step.inputs[i], launch.args[i]);
  INFER_TRY(EvaluateStep(plan_, step, slots_, *check_, run));
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    Datum made = std::move(slots_[static_cast<size_t>(step.outputs[i])]);
    slots_[static_cast<size_t>(step.outputs[i])] = Datum();
    INFER_TRY(Keep(step.outputs[i], launch.args[step.inputs.size() + i], std::move(made)));
  }
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (launch.args[i] >= 0) slots_[static_cast<size_t>(step.inputs[i])] = Datum();
  for (int id : step.dies)
    if (!late.Reads(id)) slots_[static_cast<size_t>(id)] = Datum();
  return {};
}

Status Executor::RunLate(const PlannedLaunch& launch, const RunOptions& options, double start) {
  Bound& bound = *plans_[0];
  if (!bound.late_on_reference) {
    Status s = RunLateProgram(launch, options, start);
    if (s.ok() || s.code() == Code::kCancelled || s.code() == Code::kResource) return s;
    bound.late_on_reference = true;
  }
  return RunLateOnReference(launch, options, start);
}

Status Executor::RunLateOnReference(const PlannedLaunch& launch, const RunOptions& options,
                                    double start) {
  const ShapePlan& plan = *plans_[0]->plan;
  auto slot = [this](int id) -> Datum& { return slots_[static_cast<size_t>(id)]; };
  for (size_t i = 0; i < plan.frame->late.inputs.size(); ++i)
    slot(plan.frame->late.inputs[i]) = OperandOf(plan.frame->late.inputs[i], launch.args[i]);
  std::vector<int> used;
  for (size_t s : plan.frame->late.steps) {
    const PlanStep& step = plan_.steps[s];
    const double begin = options.profile ? NowMs() : 0;
    for (int id : step.inputs)
      if (const Tensor& known = plan.value(id).known; known.defined()) {
        slot(id) = known;
      } else if (plan_.constant(id)) {
        INFER_ASSIGN(slot(id), plan_.Elements(id));
      }
    INFER_TRY(EvaluateStep(plan_, step, slots_, *check_));
    for (int id : step.inputs)
      if (const Tensor* c = plan_.constant(id)) slot(id) = *c;
    if (options.profile) Profile(s, start, begin, true);
    used.insert(used.end(), step.inputs.begin(), step.inputs.end());
    used.insert(used.end(), step.outputs.begin(), step.outputs.end());
  }
  for (size_t o = 0; o < plan.frame->late.outputs.size(); ++o) {
    const int id = plan.frame->late.outputs[o];
    INFER_TRY(Keep(id, launch.args[plan.frame->late.inputs.size() + o], Datum(slot(id))));
  }
  for (int id : used)
    if (!plan_.constant(plan_.values[static_cast<size_t>(id)]) &&
        std::find(plan_.outputs.begin(), plan_.outputs.end(), id) == plan_.outputs.end())
      slot(id) = Datum();
  return {};
}

void Executor::ReleaseInputs() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Datum none;
    SwapInput(i, none);
    slots_[static_cast<size_t>(plan_.inputs[i])] = Datum();
  }
}

int64_t Executor::HeldBytes() const {
  int64_t bytes = arena_ ? static_cast<int64_t>(arena_->size()) : 0;
  for (const Datum& d : outputs_)
    if (d.is_tensor() && d.tensor().defined()) bytes += d.tensor().byte_size();
  for (const auto& bound : plans_) bytes += bound->late_bytes;
  return bytes;
}

void Executor::LimitLate() {
  int64_t held = 0;
  for (size_t i = 0; i < plans_.size(); ++i) {
    held += plans_[i]->late_bytes;
    if (i == 0 || held <= kMostLateBytes) continue;
    held -= plans_[i]->late_bytes;
    plans_[i]->late.reset();
    plans_[i]->late_bytes = 0;
  }
}

Status Executor::RunLateProgram(const PlannedLaunch& launch, const RunOptions& options,
                                double start) {
  Bound& bound = *plans_[0];
  const LateSteps& late = bound.plan->frame->late;
  const double begin = options.profile ? NowMs() : 0;
  if (!bound.late) {
    if (!bound.late_program) {
      INFER_ASSIGN(bound.late_program, program_->LateProgram(*bound.plan));
    }
    LimitLate();  // what they hold makes room for this one
    bound.late = std::make_unique<Executor>(bound.late_program);
  }
  for (size_t i = 0; i < late.inputs.size(); ++i)
    INFER_TRY(bound.late->BindInput(i, OperandOf(late.inputs[i], launch.args[i])));
  INFER_TRY(bound.late->Run(options));
  for (size_t o = 0; o < late.outputs.size(); ++o)
    INFER_TRY(Keep(late.outputs[o], launch.args[late.inputs.size() + o], bound.late->output(o)));
  bound.late->ReleaseInputs();
  bound.late_bytes = bound.late->HeldBytes();
  LimitLate();
  const auto& graph_outputs = plan_.outputs;
  for (int id : late.inputs)
    if (std::find(graph_outputs.begin(), graph_outputs.end(), id) == graph_outputs.end())
      slots_[static_cast<size_t>(id)] = Datum();
  if (!options.profile) return {};
  // Their steps are ours, known by what they make; what is left is the whole's.
  std::unordered_map<std::string_view, size_t> step_of;
  for (size_t s : late.steps)
    for (const std::string& name : program_->steps()[s].outputs) step_of.emplace(name, s);
  double inside = 0;
  for (const StepTiming& t : bound.late->profile()) {
    const StepInfo& info = bound.late_program->steps()[t.step];
    const auto it = info.outputs.empty() ? step_of.end() : step_of.find(info.outputs[0]);
    profile_.push_back({it == step_of.end() ? launch.step : it->second, begin - start + t.start_ms,
                        t.duration_ms, t.reference_ms});
    inside += t.duration_ms;
  }
  profile_.push_back({launch.step, begin - start, std::max(0.0, NowMs() - begin - inside), 0});
  for (const auto& [op, ms] : bound.late->reference_times()) reference_times_[op] += ms;
  return {};
}

}  // namespace infer
