#include "runtime/plan_ir/interpreter.h"

#include <algorithm>
#include <new>

#include "lib/ir/eval.h"
#include "lib/support/exceptions.h"
#include "lib/support/parallel.h"
#include "lib/support/stop.h"
#include "runtime/plan_ir/plan_program.h"

namespace infer {
namespace {

int64_t BytesOf(const Datum& d) { return d.is_tensor() ? d.tensor().byte_size() : 0; }

class InterpreterProgram final : public PlanProgram,
                                 public std::enable_shared_from_this<InterpreterProgram> {
 public:
  InterpreterProgram(Plan plan, int threads)
      : PlanProgram(std::move(plan), "reference"), threads_(threads) {}
  Result<std::unique_ptr<RunContext>> NewContext() const override;
  int threads() const { return threads_; }

 private:
  int threads_;
};

class InterpreterContext final : public PlanContext {
 public:
  explicit InterpreterContext(std::shared_ptr<const InterpreterProgram> program)
      : PlanContext(program->plan()), program_(std::move(program)), slots_(plan_.values.size()) {
    for (size_t i = 0; i < plan_.values.size(); ++i)
      if (const Tensor* c = plan_.values[i]->constant()) {
        slots_[i] = *c;
        memory_.weight_bytes += c->byte_size();
      }
  }

 private:
  Status RunBound(const RunOptions& options) override;

  std::shared_ptr<const InterpreterProgram> program_;
  std::vector<Datum> slots_;  // by value id
};

Status InterpreterContext::RunBound(const RunOptions& options) {
  for (size_t i = 0; i < inputs_.size(); ++i)
    slots_[static_cast<size_t>(plan_.inputs[i])] = inputs_[i];
  ResultCheck check(plan_.graph, inputs_);
  LaneLease lease(program_->threads(), options.priority);
  const double start = NowMs();
  int64_t alive = 0, peak = 0;
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    lease.Adjust();
    const double begin = options.profile ? NowMs() : 0;
    INFER_TRY(EvaluateStep(plan_, step, slots_, check));
    if (options.profile) Profile(s, start, begin, true);
    for (int id : step.outputs) alive += BytesOf(slots_[static_cast<size_t>(id)]);
    peak = std::max(peak, alive);
    for (int id : step.dies) {
      Datum& d = slots_[static_cast<size_t>(id)];
      if (!plan_.values[static_cast<size_t>(id)]->is_input()) alive -= BytesOf(d);
      d = Datum();
    }
  }
  memory_.arena_bytes = memory_.lower_bound_bytes = peak;
  for (size_t i = 0; i < outputs_.size(); ++i)
    INFER_TRY(Deliver(i, slots_[static_cast<size_t>(plan_.outputs[i])]));
  for (int id : plan_.outputs)
    if (!plan_.values[static_cast<size_t>(id)]->is_constant())
      slots_[static_cast<size_t>(id)] = Datum();
  return {};
}

Result<std::unique_ptr<RunContext>> InterpreterProgram::NewContext() const {
  return std::unique_ptr<RunContext>(new InterpreterContext(shared_from_this()));
}

}  // namespace

Status EvaluateStep(const Plan& plan, const PlanStep& step, std::vector<Datum>& slots,
                    ResultCheck& check, const SubgraphRunner& run) {
  std::vector<const Datum*> operands;
  const StoppableLoops look;
  for (const Node* n : step.nodes) {
    INFER_TRY(CheckStop());
    operands.clear();
    for (const Value* v : n->inputs())
      operands.push_back(v ? &slots[static_cast<size_t>(plan.id(v))] : nullptr);
    auto results = run && IsControlFlow(n->def()) ? EvaluateControlFlow(*n, operands, run)
                                                  : EvaluateNode(*n, operands, plan.graph.ops());
    if (!results.ok()) return results.status();
    for (size_t i = 0; i < n->outputs().size() && i < results->size(); ++i)
      if (const Value* v = n->outputs()[i]) {
        INFER_TRY(check((*results)[i], *v));
        slots[static_cast<size_t>(plan.id(v))] = std::move((*results)[i]);
      }
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
  INFER_TRY(RefuseCompute("reference", options.compute));
  try {
    Plan plan = PartitionByNode(graph.Clone());
    plan.watched = options.watched;
    return std::shared_ptr<const Program>(
        std::make_shared<InterpreterProgram>(std::move(plan), options.threads));
  } catch (...) {
    return StatusOfException("while compiling");
  }
}

}  // namespace infer
