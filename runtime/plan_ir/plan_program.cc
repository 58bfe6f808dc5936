#include "runtime/plan_ir/plan_program.h"

#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "lib/ir/eval.h"
#include "lib/support/exceptions.h"
#include "lib/support/stop.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/specialize.h"

namespace infer {
namespace {

/// InvalidArgument where `buffer` is not of the type that was made.
Status CopyToBound(const Datum& made, Tensor& buffer, const std::string& output) {
  if (!made.is_tensor() || made.tensor().dtype() == DType::kString)
    return InvalidArgument(Cat("output '", output, "' cannot be bound to a buffer"));
  const Tensor& t = made.tensor();
  if (t.dtype() != buffer.dtype() || t.dims() != buffer.dims())
    return InvalidArgument(Cat("output '", output, "' is ", ToString(t.type()), ", its buffer ",
                               ToString(buffer.type())));
  if (t.byte_size() > 0 && t.raw() != buffer.raw())
    std::memcpy(buffer.mutable_raw(), t.raw(), static_cast<size_t>(t.byte_size()));
  return {};
}

}  // namespace

PlanProgram::PlanProgram(Plan plan, std::string_view kernel)
    : plan_(std::move(plan)), steps_(DescribeSteps(plan_)) {
  for (StepInfo& s : steps_) {
    s.kernel = kernel;
    s.precision = "f32";
  }
}

Result<std::vector<Cost>> PlanProgram::CostsFor(std::span<const Dims> input_dims) const {
  if (input_dims.size() != plan_.inputs.size())
    return InvalidArgument(
        Cat("extents of ", input_dims.size(), " inputs for a model with ", plan_.inputs.size()));
  ShapePlan shapes;
  INFER_TRY(Specialize(plan_, input_dims, shapes));
  return std::move(shapes.cost);
}

PlanContext::PlanContext(const Plan& plan)
    : plan_(plan),
      inputs_(plan.inputs.size()),
      outputs_(plan.outputs.size()),
      buffers_(plan.outputs.size()),
      is_bound_(plan.inputs.size()),
      shown_(plan.outputs.size()) {
  if (!plan.is_part) FindSharedExtents();
}

void PlanContext::FindSharedExtents() {
  std::map<std::string, std::pair<size_t, int>> first;
  const auto& inputs = plan_.graph.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]->type().is_tensor() || !inputs[i]->shape().has_rank()) continue;
    for (int axis = 0; axis < inputs[i]->shape().rank(); ++axis) {
      const Dim& d = inputs[i]->shape()[axis];
      if (!d.is_symbolic()) continue;
      const auto [it, fresh] = first.try_emplace(d.ToString(), i, axis);
      if (!fresh) shared_.push_back({i, it->second.first, axis, it->second.second});
    }
  }
}

Status PlanContext::CheckSharedExtents() const {
  for (const SharedExtent& s : shared_) {
    const int64_t own = inputs_[s.input].tensor().dim(s.axis),
                  other = inputs_[s.other].tensor().dim(s.other_axis);
    if (own == other) continue;
    const auto& inputs = plan_.graph.inputs();
    return InvalidArgument(Cat("input '", inputs[s.input]->name(), "' has ",
                               inputs[s.input]->shape()[s.axis].ToString(), " = ", own, ", input '",
                               inputs[s.other]->name(), "' has ", other));
  }
  return {};
}

Status PlanContext::BindInput(size_t i, Datum value) {
  if (i >= inputs_.size()) return InvalidArgument(Cat("the model has no input ", i));
  const Value* v = plan_.graph.inputs()[i];
  INFER_TRY(CheckDatum(value, v->type(), v->name()));
  inputs_[i] = std::move(value);
  is_bound_[i] = true;
  InputBound(i);
  return {};
}

void PlanContext::SwapInput(size_t i, Datum& value) {
  std::swap(inputs_[i], value);
  is_bound_[i] = true;
}

Status PlanContext::BindOutput(size_t i, Tensor buffer) {
  if (i >= outputs_.size()) return InvalidArgument(Cat("the model has no output ", i));
  if (buffer.defined() && buffer.buffer()->borrowed())
    return InvalidArgument(Cat("the buffer for output ", i, " is read-only"));
  buffers_[i] = std::move(buffer);
  return {};
}

Status PlanContext::Run(const RunOptions& options) {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (!is_bound_[i])
      return InvalidArgument(Cat("input '", plan_.graph.inputs()[i]->name(), "' is not bound"));
  INFER_TRY(CheckSharedExtents());
  profile_.clear();
  reference_times_.clear();
  shown_.assign(shown_.size(), false);
  const StopScope stop(options.stop, options.deadline);
  try {
    INFER_TRY(CheckStop());
    INFER_TRY(RunBound(options));
    for (size_t o = outputs_.size() - plan_.watched; o < outputs_.size(); ++o) {
      const Datum made = std::exchange(outputs_[o], Datum());
      if (shown_[o] || !made.is_tensor() || !made.tensor().defined()) continue;
      const Tensor& t = made.tensor();
      if (t.dtype() != DType::kString) Show({o, t.dtype(), t.dims(), t.raw()}, options);
    }
    return {};
  } catch (...) {
    return StatusOfException("during the run; try a smaller batch");
  }
}

double PlanContext::Profile(size_t step, double run_start, double begin, bool on_reference,
                            bool is_copy) {
  const double end = NowMs();
  if (plan_.steps.empty()) return end;  // an input that is an output is copied by no step
  const double ms = end - begin;
  profile_.push_back({step, begin - run_start, ms, on_reference ? ms : 0, is_copy});
  if (on_reference) reference_times_[OperatorOf(plan_.steps[step])] += ms;
  return end;
}

std::vector<Dims> PlanContext::InputDims() const {
  std::vector<Dims> dims;
  for (size_t i = 0; i < inputs_.size(); ++i)
    dims.push_back(IsPlannedInput(i) ? inputs_[i].tensor().dims() : Dims());
  return dims;
}

bool PlanContext::IsPlannedInput(size_t i) const {
  return inputs_[i].is_tensor() && plan_.graph.inputs()[i]->type().is_tensor();
}

void PlanContext::Show(const RawValue& value, const RunOptions& options) {
  shown_[value.output] = true;
  if (options.watch) options.watch(value);
}

Status PlanContext::Deliver(size_t i, const Datum& made) {
  if (!buffers_[i]) {
    outputs_[i] = made;
    return {};
  }
  INFER_TRY(CopyToBound(made, *buffers_[i], plan_.graph.outputs()[i]->name()));
  outputs_[i] = *buffers_[i];
  return {};
}

double NowMs() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace infer
