/// Inputs and outputs that lie in the device's memory between runs (CompileOptions::resident).
#include <algorithm>
#include <atomic>

#include "lib/ir/eval.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/executor.h"

namespace infer {

void Executor::InputBound(size_t i) {
  if (plan_.is_resident_input(i)) resident_in_[i] = {};
}

Status Executor::BindResident(size_t i, DeviceTensor value) {
  if (i >= inputs_.size()) return InvalidArgument(Cat("the model has no input ", i));
  const Value* v = plan_.graph.inputs()[i];
  if (!plan_.is_resident_input(i))
    return Unsupported(Cat("input '", v->name(), "' does not lie on the device"));
  const bool is_ours =
      value.memory && value.dtype != DType::kUndefined && value.device == program_->device();
  const int64_t bytes = is_ours ? PackedBytes(value.dtype, NumElements(value.dims)) : 0;
  if (!is_ours || value.memory->bytes() < bytes)
    return InvalidArgument(Cat("input '", v->name(), "': no memory of this program's device"));
  // For its extents: nobody reads elements of it on the host.
  INFER_TRY(BindInput(i, Tensor(value.dtype, value.dims,
                                Buffer::Borrow(nullptr, static_cast<size_t>(bytes), nullptr))));
  resident_in_[i] = {std::move(value.memory), true};
  return {};
}

Result<DeviceTensor> Executor::resident_output(size_t o) const {
  if (o >= outputs_.size()) return InvalidArgument(Cat("the model has no output ", o));
  if (!plan_.is_resident_output(o) || !resident_out_[o].memory)
    return Unsupported(
        Cat("output '", plan_.graph.outputs()[o]->name(), "' does not lie on the device"));
  return resident_out_[o];
}

Result<std::shared_ptr<DeviceMemory>> Executor::ResidentMemory(int64_t bytes) {
  const auto is_free = [](const std::shared_ptr<DeviceMemory>& m) { return m.use_count() == 1; };
  for (const auto& m : resident_pool_)
    if (is_free(m) && m->bytes() >= bytes) {
      std::atomic_thread_fence(std::memory_order_acquire);  // what its last holder did is over
      return m;
    }
  // One that was too small tells that values grow: the next steps shall fit, too.
  const size_t dropped = std::erase_if(resident_pool_, is_free);
  const int64_t wanted = std::max<int64_t>(dropped > 0 ? bytes + bytes / 4 : bytes, 1);
  INFER_ASSIGN(auto made, program_->device()->Allocate(wanted));
  resident_pool_.push_back(made);
  return made;
}

Status Executor::PlaceResident() {
  Bound& bound = *plans_[0];
  const ShapePlan& plan = *bound.plan;
  for (const int at : bound.resident) {
    const auto b = static_cast<size_t>(at);
    const PlannedBuffer& buffer = plan.buffers[b];
    const auto index = static_cast<size_t>(buffer.index);
    if (buffer.kind == PlannedBuffer::Kind::kInput) {
      ResidentInput& in = resident_in_[index];
      if (!in.memory) {
        INFER_ASSIGN(in.memory, ResidentMemory(buffer.bytes));
      }
      bound.views[b] = {in.memory.get(), 0, buffer.bytes};
      continue;
    }
    const TensorType& type = plan.type(plan_.outputs[index]).tensor();
    DeviceTensor& out = resident_out_[index];
    out = {};
    INFER_ASSIGN(auto memory, ResidentMemory(buffer.bytes));
    bound.views[b] = {memory.get(), 0, buffer.bytes};
    out = {type.dtype, type.shape.static_dims(), std::move(memory), program_->device()};
  }
  return {};
}

const std::shared_ptr<DeviceMemory>& Executor::ResidentAt(int buffer) const {
  const PlannedBuffer& b = plans_[0]->plan->buffers[static_cast<size_t>(buffer)];
  const auto index = static_cast<size_t>(b.index);
  return b.kind == PlannedBuffer::Kind::kInput ? resident_in_[index].memory
                                               : resident_out_[index].memory;
}

Status Executor::MoveResident(bool to_device, const RunOptions& options) {
  const Bound& bound = *plans_[0];
  for (const int at : bound.resident) {
    const auto b = static_cast<size_t>(at);
    const PlannedBuffer& buffer = bound.plan->buffers[b];
    const bool is_input = buffer.kind == PlannedBuffer::Kind::kInput;
    if (is_input != to_device || buffer.bytes == 0) continue;
    const auto index = static_cast<size_t>(buffer.index);
    if (is_input ? resident_in_[index].current : options.leave_resident) continue;
    if (options.profile) INFER_TRY(AwaitDevice());
    const double begin = options.profile ? NowMs() : 0;
    INFER_TRY(MakeEncoder());
    recorded_ = true;
    if (is_input) {
      INFER_TRY(encoder_->Upload(bound.views[b], inputs_[index].tensor().raw()));
      resident_in_[index].current = options.leave_resident;
    } else {
      downloads_ = true;
      INFER_TRY(encoder_->Download(bound.pointers[b], bound.views[b]));
    }
    if (!options.profile) continue;
    INFER_TRY(AwaitDevice());
    Profile(is_input ? 0 : plan_.steps.size() - 1, profile_start_, begin, false, true);
  }
  return {};
}

void Executor::ForgetResident() {
  for (size_t i = 0; i < resident_in_.size(); ++i)
    if (!IsGiven(i)) resident_in_[i].current = false;
  for (DeviceTensor& out : resident_out_) out = {};
}

bool Executor::IsGiven(size_t i) const {
  return inputs_[i].is_tensor() && inputs_[i].tensor().defined() && !inputs_[i].tensor().raw();
}

}  // namespace infer
