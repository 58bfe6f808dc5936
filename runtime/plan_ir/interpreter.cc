#include "runtime/plan_ir/interpreter.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "lib/ir/eval.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

class InterpreterProgram;

int64_t BytesOf(const Datum& d) { return d.is_tensor() ? d.tensor().byte_size() : 0; }

class InterpreterContext final : public RunContext {
 public:
  InterpreterContext(std::shared_ptr<const InterpreterProgram> program);
  Status BindInput(size_t i, Datum value) override;
  Status BindOutput(size_t i, Tensor buffer) override;
  Status Run(const RunOptions& options) override;
  const Datum& output(size_t i) const override { return outputs_[i]; }
  std::span<const StepTiming> profile() const override { return profile_; }
  MemoryInfo memory() const override { return memory_; }

 private:
  Status RunSteps(const RunOptions& options);
  std::shared_ptr<const InterpreterProgram> program_;
  std::vector<Datum> inputs_, outputs_, slots_;
  std::vector<bool> bound_;
  std::vector<std::optional<Tensor>> buffers_;
  std::vector<StepTiming> profile_;
  MemoryInfo memory_;
};

class InterpreterProgram final : public Program,
                                 public std::enable_shared_from_this<InterpreterProgram> {
 public:
  InterpreterProgram(Plan plan, int threads) : plan_(std::move(plan)), threads_(threads) {
    steps_ = DescribeSteps(plan_);
    for (StepInfo& s : steps_) {
      s.kernel = "reference";
      s.precision = "f32";
    }
  }
  const std::vector<Value*>& inputs() const override { return plan_.graph.inputs(); }
  const std::vector<Value*>& outputs() const override { return plan_.graph.outputs(); }
  const std::vector<StepInfo>& steps() const override { return steps_; }
  Result<std::unique_ptr<RunContext>> NewContext() const override {
    return std::unique_ptr<RunContext>(new InterpreterContext(shared_from_this()));
  }
  const Plan& plan() const { return plan_; }
  int threads() const { return threads_; }

 private:
  Plan plan_;
  int threads_;
  std::vector<StepInfo> steps_;
};

InterpreterContext::InterpreterContext(std::shared_ptr<const InterpreterProgram> program)
    : program_(std::move(program)) {
  const Plan& plan = program_->plan();
  slots_.resize(plan.values.size());
  inputs_.resize(plan.inputs.size());
  bound_.resize(plan.inputs.size());
  outputs_.resize(plan.outputs.size());
  buffers_.resize(plan.outputs.size());
  for (size_t i = 0; i < plan.values.size(); ++i)
    if (const Tensor* c = plan.values[i]->constant()) {
      slots_[i] = *c;
      memory_.weight_bytes += c->byte_size();
    }
}

Status InterpreterContext::BindInput(size_t i, Datum value) {
  if (i >= inputs_.size()) return InvalidArgument(Cat("the model has no input ", i));
  const Value* v = program_->inputs()[i];
  INFER_TRY(CheckDatum(value, v->type(), v->name()));
  inputs_[i] = std::move(value);
  bound_[i] = true;
  return {};
}

Status InterpreterContext::BindOutput(size_t i, Tensor buffer) {
  if (i >= outputs_.size()) return InvalidArgument(Cat("the model has no output ", i));
  buffers_[i] = std::move(buffer);
  return {};
}

Status InterpreterContext::Run(const RunOptions& options) {
  try {
    return RunSteps(options);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("out of memory during the run; try a smaller batch");
  }
}

Status InterpreterContext::RunSteps(const RunOptions& options) {
  const Plan& plan = program_->plan();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!bound_[i])
      return InvalidArgument(Cat("input '", program_->inputs()[i]->name(), "' is not bound"));
    slots_[static_cast<size_t>(plan.inputs[i])] = inputs_[i];
  }
  LaneLease lease(program_->threads());
  profile_.clear();
  const double start = NowMs();
  int64_t alive = 0, peak = 0;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (options.stop.stop_requested()) return Cancelled("the run was stopped");
    const PlanStep& step = plan.steps[s];
    const double begin = options.profile ? NowMs() : 0;
    INFER_TRY(EvaluateStep(plan, step, slots_));
    if (options.profile) profile_.push_back({s, begin - start, NowMs() - begin});
    for (int id : step.outputs) alive += BytesOf(slots_[static_cast<size_t>(id)]);
    peak = std::max(peak, alive);
    for (int id : step.dies) {
      Datum& d = slots_[static_cast<size_t>(id)];
      if (!plan.values[static_cast<size_t>(id)]->is_input()) alive -= BytesOf(d);
      d = Datum();
    }
  }
  memory_.arena_bytes = memory_.lower_bound_bytes = peak;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i] = slots_[static_cast<size_t>(plan.outputs[i])];
    if (!buffers_[i]) continue;
    INFER_TRY(CopyToBound(outputs_[i], *buffers_[i], program_->outputs()[i]->name()));
    outputs_[i] = *buffers_[i];
  }
  for (int id : plan.outputs)
    if (!plan.values[static_cast<size_t>(id)]->is_constant())
      slots_[static_cast<size_t>(id)] = Datum();
  return {};
}

}  // namespace

double NowMs() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

Status CopyToBound(const Datum& produced, Tensor& buffer, std::string_view output) {
  if (!produced.is_tensor() || produced.tensor().dtype() == DType::kString)
    return InvalidArgument(Cat("output '", output, "' cannot be bound to a buffer"));
  const Tensor& t = produced.tensor();
  if (t.dtype() != buffer.dtype() || t.dims() != buffer.dims())
    return InvalidArgument(Cat("output '", output, "' is ", ToString(t.type()), ", its buffer ",
                               ToString(buffer.type())));
  if (t.byte_size() > 0 && t.raw() != buffer.raw())
    std::memcpy(buffer.mutable_raw(), t.raw(), static_cast<size_t>(t.byte_size()));
  return {};
}

Status EvaluateStep(const Plan& plan, const PlanStep& step, std::vector<Datum>& slots) {
  std::vector<const Datum*> operands;
  for (const Node* n : step.nodes) {
    operands.clear();
    for (const Value* v : n->inputs())
      operands.push_back(v ? &slots[static_cast<size_t>(plan.id(v))] : nullptr);
    auto results = EvaluateNode(*n, operands, plan.graph.ops());
    if (!results.ok()) return results.status();
    for (size_t i = 0; i < n->outputs().size() && i < results->size(); ++i)
      if (const Value* v = n->outputs()[i])
        slots[static_cast<size_t>(plan.id(v))] = std::move((*results)[i]);
  }
  if (step.nodes.size() == 1) return {};
  for (const Node* n : step.nodes)
    for (const Value* v : n->outputs()) {
      if (!v) continue;
      const int id = plan.id(v);
      if (std::find(step.outputs.begin(), step.outputs.end(), id) == step.outputs.end())
        slots[static_cast<size_t>(id)] = Datum();
    }
  return {};
}

Result<std::shared_ptr<const Program>> CompileInterpreter(const Graph& graph,
                                                          const CompileOptions& options) {
  try {
    return std::shared_ptr<const Program>(
        std::make_shared<InterpreterProgram>(PartitionByNode(graph), options.threads));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("out of memory while compiling");
  }
}

}  // namespace infer
