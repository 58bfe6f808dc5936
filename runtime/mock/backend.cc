#include "runtime/mock/backend.h"

#include <algorithm>
#include <new>

#include "lib/support/exceptions.h"
#include "lib/support/parallel.h"
#include "lib/support/stop.h"
#include "lib/support/strings.h"
#include "runtime/mock/device.h"
#include "runtime/plan_ir/interpreter.h"
#include "runtime/plan_ir/plan_program.h"
#include "runtime/plan_ir/shape_plan.h"

namespace infer {
namespace {

using mock::Device;
using mock::DevicePtr;

/// No kernels: every step of the plan is a submission that loads its operands from the device,
/// evaluates the reference kernels there, and stores the results.
Result<Prepared> CopyOnDevice(DType, const Dims&, const Layout&, const Layout&) {
  return Prepared{};  // recognised by the executor: a copy of the stored bytes
}

class MockProgram final : public PlanProgram, public std::enable_shared_from_this<MockProgram> {
 public:
  explicit MockProgram(Plan plan)
      : PlanProgram(std::move(plan), "mock"), kernels_(plan_.steps.size()) {}
  Result<std::unique_ptr<RunContext>> NewContext() const override;
  Result<std::shared_ptr<const ShapePlan>> PlanFor(std::span<const Dims> dims) const {
    if (auto found = cache_.Find(dims)) return found;
    INFER_ASSIGN(auto made, BuildShapePlan(plan_, kernels_, dims, CopyOnDevice, false));
    cache_.Add(made);
    return made;
  }

 private:
  std::vector<StepKernels> kernels_;
  mutable ShapePlanCache cache_;
};

/// Every planned buffer gets a place on the device: arena buffers as planned, then inputs,
/// constants and outputs behind them.
class MockContext final : public PlanContext {
 public:
  explicit MockContext(std::shared_ptr<const MockProgram> program)
      : PlanContext(program->plan()), program_(std::move(program)) {}

 private:
  Status RunBound(const RunOptions& options) override {
    Status s = RunOnDevice(options);
    if (!device_) return s;
    Status late = device_->Wait();  // nothing of this run may still be under way
    return s.ok() ? late : s;
  }
  Status RunOnDevice(const RunOptions& options);
  Status UsePlan();
  void UploadSources();
  Status RunStep(const PlannedLaunch& launch);
  Status DownloadOutputs();
  DevicePtr At(int buffer) const { return places_[static_cast<size_t>(buffer)]; }
  Tensor LoadTensor(int buffer, const TensorType& type) const {
    Tensor t(type.dtype, type.shape.static_dims());
    device_->Load(At(buffer), t.mutable_raw(), t.byte_size());
    return t;
  }

  std::shared_ptr<const MockProgram> program_;
  std::shared_ptr<const ShapePlan> shape_plan_;
  std::vector<DevicePtr> places_;  // by planned buffer
  std::unique_ptr<Device> device_;
  std::vector<Datum> slots_;  // by value id
};

Status MockContext::UsePlan() {
  INFER_ASSIGN(auto plan, program_->PlanFor(InputDims()));
  if (plan == shape_plan_) return {};
  device_.reset();
  shape_plan_ = std::move(plan);
  memory_ = shape_plan_->memory;
  step_costs_ = shape_plan_->cost;
  step_kernels_ = shape_plan_->kernel;
  places_.clear();
  int64_t end = shape_plan_->memory.arena_bytes;
  for (const PlannedBuffer& b : shape_plan_->buffers) {
    if (b.kind == PlannedBuffer::Kind::kArena) {
      places_.push_back({b.offset});
      continue;
    }
    places_.push_back({end});
    end += b.bytes;
  }
  device_ = std::make_unique<Device>(end);
  for (size_t b = 0; b < places_.size(); ++b)
    if (shape_plan_->buffers[b].constant.defined())
      device_->Upload(places_[b], shape_plan_->buffers[b].constant.raw(),
                      shape_plan_->buffers[b].bytes);
  slots_.assign(plan_.values.size(), Datum());
  for (size_t i = 0; i < slots_.size(); ++i)
    if (const Tensor* c = plan_.values[i]->constant(); c && shape_plan_->plain[i] < 0)
      slots_[i] = *c;
  return {};
}

void MockContext::UploadSources() {
  for (size_t b = 0; b < places_.size(); ++b) {
    const PlannedBuffer& buffer = shape_plan_->buffers[b];
    if (buffer.kind != PlannedBuffer::Kind::kInput) continue;
    const Tensor& t = inputs_[static_cast<size_t>(buffer.index)].tensor();
    device_->Upload(places_[b], t.raw(), t.byte_size());
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto id = static_cast<size_t>(plan_.inputs[i]);
    if (shape_plan_->plain[id] < 0) slots_[id] = inputs_[i];
  }
}

Status MockContext::RunOnDevice(const RunOptions& options) {
  INFER_TRY(UsePlan());
  UploadSources();
  const double start = NowMs();
  for (const PlannedLaunch& launch : shape_plan_->launches) {
    if (options.stop.stop_requested()) return Cancelled("the run was stopped");
    device_->Submit([this, &launch, &options, start] {
      const StopScope stop(options.stop);  // of the device's thread
      const double begin = NowMs();
      INFER_TRY(RunStep(launch));
      if (options.profile) Profile(launch.step, start, begin, !launch.is_copy);
      return Status();
    });
  }
  return DownloadOutputs();
}

/// On the device's thread.
Status MockContext::RunStep(const PlannedLaunch& launch) {
  const PlanStep& step = plan_.steps[launch.step];
  if (launch.args.size() == 2 && launch.is_copy) {
    const auto& from = shape_plan_->buffers[static_cast<size_t>(launch.args[0])];
    std::vector<std::byte> bytes(static_cast<size_t>(from.bytes));
    device_->Load(At(launch.args[0]), bytes.data(), from.bytes);
    device_->Store(At(launch.args[1]), bytes.data(), from.bytes);
    return {};
  }
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (launch.args[i] >= 0)
      slots_[static_cast<size_t>(step.inputs[i])] = LoadTensor(
          launch.args[i], shape_plan_->types[static_cast<size_t>(step.inputs[i])].tensor());
  ResultCheck check(plan_.graph, inputs_);
  INFER_TRY(EvaluateStep(plan_, step, slots_, check));
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const int b = launch.args[step.inputs.size() + i];
    if (b < 0) continue;
    Datum& made = slots_[static_cast<size_t>(step.outputs[i])];
    if (!made.is_tensor() ||
        made.tensor().byte_size() != shape_plan_->buffers[static_cast<size_t>(b)].bytes)
      return InvalidModel(Cat("value '", plan_.values[static_cast<size_t>(step.outputs[i])]->name(),
                              "': running it gives another type than the model says"));
    device_->Store(At(b), made.tensor().raw(), made.tensor().byte_size());
    made = Datum();
  }
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (launch.args[i] >= 0) slots_[static_cast<size_t>(step.inputs[i])] = Datum();
  return {};
}

Status MockContext::DownloadOutputs() {
  std::vector<Datum> made(outputs_.size());
  for (size_t o = 0; o < made.size(); ++o) {
    if (shape_plan_->outputs[o] < 0) continue;
    const auto id = static_cast<size_t>(plan_.outputs[o]);
    const TensorType& type = shape_plan_->types[id].tensor();
    Tensor t(type.dtype, type.shape.static_dims());
    device_->Download(t.mutable_raw(), At(shape_plan_->outputs[o]), t.byte_size());
    made[o] = std::move(t);
  }
  INFER_TRY(device_->Wait());
  for (size_t o = 0; o < made.size(); ++o)
    INFER_TRY(Deliver(
        o, shape_plan_->outputs[o] < 0 ? slots_[static_cast<size_t>(plan_.outputs[o])] : made[o]));
  return {};
}

Result<std::unique_ptr<RunContext>> MockProgram::NewContext() const {
  return std::unique_ptr<RunContext>(new MockContext(shared_from_this()));
}

class MockBackend final : public Backend {
 public:
  std::string_view name() const override { return "mock"; }
  std::string Unavailable() const override { return ""; }
  Result<std::shared_ptr<const Program>> Compile(const Graph& graph,
                                                 const CompileOptions& options) const override {
    try {
      Plan plan = PartitionByNode(graph.Clone());
      plan.watched = options.watched;
      return std::shared_ptr<const Program>(std::make_shared<MockProgram>(std::move(plan)));
    } catch (...) {
      return StatusOfException("while compiling");
    }
  }
};

}  // namespace

std::unique_ptr<Backend> MakeMockBackend() { return std::make_unique<MockBackend>(); }

}  // namespace infer
