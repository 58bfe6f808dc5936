#include "runtime/plan_ir/plan.h"

#include <algorithm>
#include <unordered_set>

#include "lib/ir/body.h"
#include "lib/ir/editor.h"
#include "lib/ir/eval.h"
#include "lib/ir/op_name.h"
#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

bool IsStatic(const Value* v) {
  return !v || (v->type().is_tensor() && v->tensor_type().is_static());
}

}  // namespace

Plan PartitionByNode(Graph graph) {
  Plan plan(std::move(graph));
  for (const auto& v : plan.graph.values()) {
    plan.ids[v.get()] = static_cast<int>(plan.values.size());
    plan.values.push_back(v.get());
  }
  plan.folded.resize(plan.values.size());
  for (const Value* v : plan.graph.inputs()) plan.inputs.push_back(plan.id(v));
  for (const Value* v : plan.graph.outputs()) plan.outputs.push_back(plan.id(v));
  for (const auto& n : plan.graph.nodes()) {
    PlanStep step;
    step.main = n.get();
    step.nodes = {n.get()};
    plan.steps.push_back(std::move(step));
  }
  Relink(plan);
  return plan;
}

void Relink(Plan& plan) {
  std::unordered_set<const Value*> read(plan.graph.outputs().begin(), plan.graph.outputs().end());
  std::unordered_set<int> seen(plan.outputs.begin(), plan.outputs.end());
  std::vector<PlanStep> kept;
  for (auto it = plan.steps.rbegin(); it != plan.steps.rend(); ++it) {
    PlanStep& step = *it;
    std::unordered_set<const Value*> made;
    step.inputs.clear();
    step.outputs.clear();
    step.dies.clear();
    for (size_t i = 0; i < step.nodes.size(); ++i)
      for (const Value* v : step.nodes[i]->outputs()) {
        if (!v) continue;
        made.insert(v);
        if (i >= step.borrowed && read.count(v) && !plan.constant(v))
          step.outputs.push_back(plan.id(v));
      }
    // A control-flow or random node that nobody reads has no effect either: operators are pure.
    if (step.outputs.empty()) continue;
    std::unordered_set<const Value*> taken;  // a step may have thousands of inputs
    for (const Node* n : step.nodes)
      for (const Value* v : n->inputs()) {
        if (!v || made.count(v) || !taken.insert(v).second) continue;
        step.inputs.push_back(plan.id(v));
        read.insert(v);
      }
    for (int id : step.inputs)
      if (seen.insert(id).second && !plan.constant(plan.values[static_cast<size_t>(id)]))
        step.dies.push_back(id);
    for (int id : step.outputs)
      if (seen.insert(id).second) step.dies.push_back(id);
    kept.push_back(std::move(step));
  }
  std::reverse(kept.begin(), kept.end());
  plan.steps = std::move(kept);
}

const Tensor* Plan::constant(const Value* v) const {
  if (!v) return nullptr;
  if (v->constant()) return v->constant();
  return constant(id(v));
}

const Tensor* Plan::constant(int id) const {
  const auto i = static_cast<size_t>(id);
  if (values[i]->constant()) return values[i]->constant();
  return folded[i].defined() ? &folded[i] : nullptr;
}

void Plan::DropElements(int id) {
  const auto i = static_cast<size_t>(id);
  const auto hollow = [](const Tensor& t) {
    return Tensor(t.dtype(), t.dims(),
                  Buffer::Borrow(nullptr, static_cast<size_t>(t.byte_size()), nullptr));
  };
  if (folded[i].defined()) folded[i] = hollow(folded[i]);
  const Tensor* c = values[i]->constant();
  if (!c) return;
  GraphEditor editor(graph);
  // The graph is the plan's own; others see its values as constant only.
  editor.SetConstant(const_cast<Value*>(values[i]), hollow(*c));
}

Result<Tensor> Plan::Elements(int id) const {
  const Tensor* c = constant(id);
  INFER_CHECK(c);
  if (c->byte_size() == 0 || c->raw()) return *c;
  const auto source = sources->Find(id);
  INFER_CHECK(source);
  return source->Elements();
}

namespace {

/// What leaves elements as they are, or converts them: between codes and the operator that wants
/// them (blocks that are no matrix are dequantized as one, then reshaped).
bool MovesOrConverts(const Node& n) {
  return n.IsAny(Trait::kView | Trait::kPermutation) || IsCast(n);
}

/// The cast of a constant that only layers read, as weights: stored as f16 or bf16, for a smaller
/// file.
bool MakesWeights(const Node& n) {
  if (!IsCast(n) || !n.input(0)->is_constant() || n.output(0)->is_output()) return false;
  const auto& uses = n.output(0)->uses();
  return !uses.empty() && std::all_of(uses.begin(), uses.end(), ReadsAsWeights);
}

/// Folded values that no step reads are nobody's any more.
void DropUnread(Plan& plan) {
  std::vector<bool> read(plan.values.size(), false);
  for (const PlanStep& step : plan.steps)
    for (const int id : step.inputs) read[static_cast<size_t>(id)] = true;
  for (const int id : plan.outputs) read[static_cast<size_t>(id)] = true;
  for (size_t i = 0; i < plan.folded.size(); ++i)
    if (!read[i]) plan.folded[i] = Tensor();
}

}  // namespace

Status FoldConstants(Plan& plan, std::string_view op) {
  for (const PlanStep& step : plan.steps) {
    const Node& n = *step.main;
    if (step.nodes.size() != 1 || !n.def().deterministic || n.inputs().empty()) continue;
    const Value* const x = n.input(0);
    const bool follows = MovesOrConverts(n) && x && !x->is_constant() && plan.constant(x);
    if (!n.Is(op) && !follows && !MakesStoredWeights(n) && !MakesWeights(n)) continue;
    std::vector<Datum> values;
    for (const Value* v : n.inputs())
      if (const Tensor* t = plan.constant(v)) values.emplace_back(*t);
    if (values.size() != n.inputs().size()) continue;
    std::vector<const Datum*> operands;
    for (const Datum& d : values) operands.push_back(&d);
    INFER_ASSIGN(const auto results, EvaluateNode(n, operands, plan.graph.ops()));
    for (size_t i = 0; i < n.outputs().size(); ++i)
      if (n.output(i) && results[i].is_tensor())
        plan.folded[static_cast<size_t>(plan.id(n.output(i)))] = results[i].tensor();
  }
  Relink(plan);
  DropUnread(plan);
  return {};
}

Cost StaticCost(const Node& node, const OpRegistry& ops) {
  if (!std::all_of(node.inputs().begin(), node.inputs().end(), IsStatic) ||
      !std::all_of(node.outputs().begin(), node.outputs().end(), IsStatic))
    return {};
  return CostOfNode(node, ops);
}

std::string OperatorOf(const PlanStep& step) {
  std::string op;
  for (const Node* n : step.nodes)
    op += Cat(op.empty() ? "" : "+", FullOpName(n->def().domain, n->op()));
  return op;
}

std::vector<StepInfo> DescribeSteps(const Plan& plan) {
  std::vector<StepInfo> infos;
  for (const PlanStep& step : plan.steps) {
    StepInfo info;
    info.node = step.nodes.back()->name();
    info.op = OperatorOf(step);
    for (const Node* n : step.nodes) {
      for (const std::string& f : n->fused_from())
        if (std::find(info.fused_from.begin(), info.fused_from.end(), f) == info.fused_from.end())
          info.fused_from.push_back(f);
      const Cost c = StaticCost(*n, plan.graph.ops());
      info.cost.flops += c.flops;
      if (step.nodes.size() == 1) info.cost = c;
    }
    // Inside a group only what enters and leaves it is traffic.
    if (step.nodes.size() > 1) {
      auto bytes = [&](const std::vector<int>& ids) {
        int64_t sum = 0;
        for (int id : ids) {
          const Value* v = plan.values[static_cast<size_t>(id)];
          if (!IsStatic(v) || v->dtype() == DType::kString) continue;
          sum += PackedBytes(v->dtype(), NumElements(v->shape().static_dims()));
        }
        return sum;
      };
      info.cost.bytes_read = bytes(step.inputs);
      info.cost.bytes_written = bytes(step.outputs);
    }
    for (int id : step.inputs)
      if (const Tensor* c = plan.constant(plan.values[static_cast<size_t>(id)]))
        info.constant_bytes += c->byte_size();
    for (int id : step.outputs)
      info.outputs.push_back(plan.values[static_cast<size_t>(id)]->name());
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace infer
