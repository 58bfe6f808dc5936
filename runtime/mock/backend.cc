#include "runtime/mock/backend.h"

#include <algorithm>
#include <new>

#include "lib/ir/eval.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/mock/device.h"
#include "runtime/plan_ir/interpreter.h"
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

class MockProgram final : public Program, public std::enable_shared_from_this<MockProgram> {
 public:
  explicit MockProgram(Plan plan) : plan_(std::move(plan)), kernels_(plan_.steps.size()) {
    steps_ = DescribeSteps(plan_);
    for (StepInfo& s : steps_) {
      s.kernel = "mock";
      s.precision = "f32";
    }
  }
  const std::vector<Value*>& inputs() const override { return plan_.graph.inputs(); }
  const std::vector<Value*>& outputs() const override { return plan_.graph.outputs(); }
  const std::vector<StepInfo>& steps() const override { return steps_; }
  Result<std::unique_ptr<RunContext>> NewContext() const override;
  const Plan& plan() const { return plan_; }
  Result<std::shared_ptr<const ShapePlan>> PlanFor(std::span<const Dims> dims) const {
    if (auto found = cache_.Find(dims)) return found;
    INFER_ASSIGN(auto made, BuildShapePlan(plan_, kernels_, dims, CopyOnDevice));
    cache_.Add(made);
    return made;
  }

 private:
  Plan plan_;
  std::vector<StepKernels> kernels_;
  std::vector<StepInfo> steps_;
  mutable ShapePlanCache cache_;
};

/// Every planned buffer gets a place on the device: arena buffers as planned, then inputs,
/// constants and outputs behind them.
class MockContext final : public RunContext {
 public:
  explicit MockContext(std::shared_ptr<const MockProgram> program) : program_(std::move(program)) {
    const Plan& plan = program_->plan();
    inputs_.resize(plan.inputs.size());
    is_bound_.resize(plan.inputs.size());
    outputs_.resize(plan.outputs.size());
    buffers_.resize(plan.outputs.size());
  }

  Status BindInput(size_t i, Datum value) override {
    if (i >= inputs_.size()) return InvalidArgument(Cat("the model has no input ", i));
    const Value* v = program_->inputs()[i];
    INFER_TRY(CheckDatum(value, v->type(), v->name()));
    inputs_[i] = std::move(value);
    is_bound_[i] = true;
    return {};
  }
  Status BindOutput(size_t i, Tensor buffer) override {
    if (i >= outputs_.size()) return InvalidArgument(Cat("the model has no output ", i));
    buffers_[i] = std::move(buffer);
    return {};
  }
  Status Run(const RunOptions& options) override {
    try {
      const Status s = RunOnDevice(options);
      if (device_) {  // nothing of this run may still be under way
        const Status late = device_->Wait();
        return s.ok() ? late : s;
      }
      return s;
    } catch (const std::bad_alloc&) {
      return ResourceExhausted("out of memory during the run; try a smaller batch");
    }
  }
  const Datum& output(size_t i) const override { return outputs_[i]; }
  std::span<const StepTiming> profile() const override { return profile_; }
  MemoryInfo memory() const override { return plan_ ? plan_->memory : MemoryInfo(); }

 private:
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
  std::shared_ptr<const ShapePlan> plan_;
  std::vector<DevicePtr> places_;  // by planned buffer
  std::unique_ptr<Device> device_;
  std::vector<Datum> inputs_, outputs_, slots_;
  std::vector<bool> is_bound_;
  std::vector<std::optional<Tensor>> buffers_;
  std::vector<StepTiming> profile_;
};

Status MockContext::UsePlan() {
  std::vector<Dims> dims;
  for (const Datum& d : inputs_) dims.push_back(d.is_tensor() ? d.tensor().dims() : Dims());
  INFER_ASSIGN(auto plan, program_->PlanFor(dims));
  if (plan == plan_) return {};
  device_.reset();
  plan_ = std::move(plan);
  places_.clear();
  int64_t end = plan_->memory.arena_bytes;
  for (const PlannedBuffer& b : plan_->buffers) {
    if (b.kind == PlannedBuffer::Kind::kArena) {
      places_.push_back({b.offset});
      continue;
    }
    places_.push_back({end});
    end += b.bytes;
  }
  device_ = std::make_unique<Device>(end);
  for (size_t b = 0; b < places_.size(); ++b)
    if (plan_->buffers[b].kind == PlannedBuffer::Kind::kConstant)
      device_->Upload(places_[b], plan_->buffers[b].constant.raw(), plan_->buffers[b].bytes);
  slots_.assign(program_->plan().values.size(), Datum());
  for (size_t i = 0; i < slots_.size(); ++i)
    if (const Tensor* c = program_->plan().values[i]->constant(); c && plan_->plain[i] < 0)
      slots_[i] = *c;
  return {};
}

void MockContext::UploadSources() {
  for (size_t b = 0; b < places_.size(); ++b) {
    const PlannedBuffer& buffer = plan_->buffers[b];
    if (buffer.kind != PlannedBuffer::Kind::kInput) continue;
    const Tensor& t = inputs_[static_cast<size_t>(buffer.index)].tensor();
    device_->Upload(places_[b], t.raw(), t.byte_size());
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto id = static_cast<size_t>(program_->plan().inputs[i]);
    if (plan_->plain[id] < 0) slots_[id] = inputs_[i];
  }
}

Status MockContext::RunOnDevice(const RunOptions& options) {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (!is_bound_[i])
      return InvalidArgument(Cat("input '", program_->inputs()[i]->name(), "' is not bound"));
  INFER_TRY(UsePlan());
  UploadSources();
  profile_.clear();
  const double start = NowMs();
  for (const PlannedLaunch& launch : plan_->launches) {
    if (options.stop.stop_requested()) return Cancelled("the run was stopped");
    device_->Submit([this, &launch, &options, start] {
      const double begin = NowMs();
      INFER_TRY(RunStep(launch));
      if (options.profile) profile_.push_back({launch.step, begin - start, NowMs() - begin});
      return Status();
    });
  }
  return DownloadOutputs();
}

/// On the device's thread.
Status MockContext::RunStep(const PlannedLaunch& launch) {
  const PlanStep& step = program_->plan().steps[launch.step];
  if (launch.args.size() == 2 && launch.is_copy) {
    const auto& from = plan_->buffers[static_cast<size_t>(launch.args[0])];
    std::vector<std::byte> bytes(static_cast<size_t>(from.bytes));
    device_->Load(At(launch.args[0]), bytes.data(), from.bytes);
    device_->Store(At(launch.args[1]), bytes.data(), from.bytes);
    return {};
  }
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (launch.args[i] >= 0)
      slots_[static_cast<size_t>(step.inputs[i])] =
          LoadTensor(launch.args[i], plan_->types[static_cast<size_t>(step.inputs[i])].tensor());
  INFER_TRY(EvaluateStep(program_->plan(), step, slots_));
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const int b = launch.args[step.inputs.size() + i];
    if (b < 0) continue;
    Datum& made = slots_[static_cast<size_t>(step.outputs[i])];
    if (!made.is_tensor() ||
        made.tensor().byte_size() != plan_->buffers[static_cast<size_t>(b)].bytes)
      return Internal(
          Cat("step '", step.nodes.back()->name(), "' made another type than inferred"));
    device_->Store(At(b), made.tensor().raw(), made.tensor().byte_size());
    made = Datum();
  }
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (launch.args[i] >= 0) slots_[static_cast<size_t>(step.inputs[i])] = Datum();
  return {};
}

Status MockContext::DownloadOutputs() {
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const auto id = static_cast<size_t>(program_->plan().outputs[o]);
    if (plan_->outputs[o] < 0) continue;
    const TensorType& type = plan_->types[id].tensor();
    Tensor t(type.dtype, type.shape.static_dims());
    device_->Download(t.mutable_raw(), At(plan_->outputs[o]), t.byte_size());
    outputs_[o] = std::move(t);
  }
  INFER_TRY(device_->Wait());
  for (size_t o = 0; o < outputs_.size(); ++o) {
    if (plan_->outputs[o] < 0)
      outputs_[o] = slots_[static_cast<size_t>(program_->plan().outputs[o])];
    if (!buffers_[o]) continue;
    INFER_TRY(CopyToBound(outputs_[o], *buffers_[o], program_->outputs()[o]->name()));
    outputs_[o] = *buffers_[o];
  }
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
                                                 const CompileOptions&) const override {
    try {
      return std::shared_ptr<const Program>(std::make_shared<MockProgram>(PartitionByNode(graph)));
    } catch (const std::bad_alloc&) {
      return ResourceExhausted("out of memory while compiling");
    }
  }
};

}  // namespace

std::unique_ptr<Backend> MakeMockBackend() { return std::make_unique<MockBackend>(); }

}  // namespace infer
