#include "runtime/cpu/kernels/common/epilogue.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/gate.h"
#include "runtime/cpu/kernels/common/quant_group.h"

namespace infer {
namespace {

bool IsVectorOfLast(const Value& v, const Value& out) {
  if (!v.shape().has_rank() || !out.shape().has_rank() || out.shape().rank() < 1) return false;
  const int rank = v.shape().rank();
  if (rank < 1 || rank > out.shape().rank()) return false;
  for (int i = 0; i + 1 < rank; ++i)
    if (!(v.shape()[i] == Dim(1))) return false;
  return v.shape()[-1].KnownEqual(out.shape()[-1]) && !(v.shape()[-1] == Dim(1));
}

bool IsF32Tensor(const Value& v) { return v.type().is_tensor() && v.dtype() == DType::kF32; }

/// The step whose main node may take `node`'s only reader, or nullptr.
const Node* OnlyReader(const Node& node) {
  const Value* v = node.output(0);
  if (!v || !v->has_one_use()) return nullptr;
  for (size_t i = 1; i < node.outputs().size(); ++i)
    if (node.output(i)) return nullptr;
  return v->uses()[0].user;
}

/// oneDNN's kernels for 64-bit ARM take Clip and HardSwish behind a product, and leave them out
/// (2.6).
bool IsComputed([[maybe_unused]] const Node& n) {
#ifdef INFER_X86
  return true;
#else
  return !n.Is("Clip") && !n.Is("HardSwish");
#endif
}

}  // namespace

bool SameShape(const Value& a, const Value& b) {
  if (!a.shape().has_rank() || !b.shape().has_rank() || a.shape().rank() != b.shape().rank())
    return false;
  for (int i = 0; i < a.shape().rank(); ++i)
    if (!a.shape()[i].KnownEqual(b.shape()[i])) return false;
  return true;
}

Result<Epilogue> DecodeEpilogue(const StepCall& call, bool may_bias, bool may_gate) {
  Epilogue e;
  if (!may_gate && GateOf(call)) return Unsupported("a gate precedes");
  const auto& nodes = call.step.nodes;
  const auto main = std::find(nodes.begin(), nodes.end(), call.step.main);
  const Value* before = call.step.main->output(0);
  for (auto it = main + 1; it != nodes.end(); ++it) {
    const Node& n = **it;
    if (auto op = onednn::EltwiseOf(n); op && IsComputed(n) && n.input(0) == before) {
      e.ops.push_back(*op);
      e.nodes.push_back(&n);
    } else if (n.Is("Add") && n.inputs().size() == 2 && n.input(0) != n.input(1)) {
      const Value* other = n.input(0) == before ? n.input(1) : n.input(0);
      if (!IsF32Tensor(*other)) return Unsupported("Add of another type");
      const int at = call.operand(other);
      if (may_bias && e.ops.empty() && e.bias < 0 && IsVectorOfLast(*other, *before)) {
        e.bias = at;
      } else if (SameShape(*other, *before) && e.residual < 0 && !call.constant(other)) {
        for (const Value* v : call.step.main->inputs())
          if (v == other) return Unsupported("Add of the operator's own operand");
        e.residual = at;
        e.ops.push_back({onednn::PostOp::Kind::kSum});
        e.nodes.push_back(&n);
      } else {
        return Unsupported("Add that is neither a bias nor a residual");
      }
    } else {
      return Unsupported(Cat(n.op(), " cannot be folded"));
    }
    before = n.output(0);
  }
  return e;
}

void FoldEpilogues(Plan& plan, const KernelList& kernels, const CompileOptions& options) {
  std::unordered_map<const Node*, size_t> step_of;
  for (size_t s = 0; s < plan.steps.size(); ++s)
    if (plan.steps[s].borrowed == 0)
      for (const Node* n : plan.steps[s].nodes) step_of[n] = s;
  std::vector<bool> taken(plan.steps.size(), false);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (taken[s] || plan.steps[s].borrowed > 0 ||
        !SomeKernelAccepts(plan, plan.steps[s], kernels, options))
      continue;
    size_t at = s;  // the longer step stands where its last node stood
    while (const Node* next = OnlyReader(*plan.steps[at].nodes.back())) {
      const auto found = step_of.find(next);
      const size_t t = found == step_of.end() ? s : found->second;
      if (found == step_of.end() || taken[t] || plan.steps[t].nodes.size() != 1) break;
      if (!next->output(0)) break;  // a recurrent layer may leave its first result out
      PlanStep longer = plan.steps[at];
      longer.nodes.push_back(next);
      for (const Value* v : next->inputs())
        if (v && v != longer.nodes[longer.nodes.size() - 2]->output(0) &&
            std::find(longer.inputs.begin(), longer.inputs.end(), plan.id(v)) ==
                longer.inputs.end())
          longer.inputs.push_back(plan.id(v));
      longer.outputs = {plan.id(next->output(0))};
      if (!SomeKernelAccepts(plan, longer, kernels, options)) break;
      plan.steps[at].nodes.clear();
      plan.steps[t] = std::move(longer);
      taken[t] = true;
      at = t;
    }
  }
  std::erase_if(plan.steps, [](const PlanStep& step) { return step.nodes.empty(); });
  Relink(plan);
}

}  // namespace infer
