#include "runtime/cpu/kernels/common/quant_group.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"

namespace infer {
namespace {

/// `at`: where the scale stands among the operands of `n`; its zero point follows.
Result<QuantParams8> ParamsOf(const StepCall& call, const Node& n, DType dtype, size_t at = 1) {
  QuantParams8 p;
  p.dtype = dtype;
  if (dtype != DType::kU8 && dtype != DType::kI8 && dtype != DType::kI32)
    return Unsupported(Cat("quantized to ", Name(dtype)));
  const Tensor* scale = call.constant(n.input(at));
  const Tensor* zero = call.constant(n.input(at + 1));
  if (!scale || (n.input(at + 1) && !zero))
    return Unsupported("scale or zero point is not constant");
  if (scale->dtype() != DType::kF32) return Unsupported("the scale is not f32");
  if (const auto it = n.attrs().find("block_size");
      it != n.attrs().end() && std::get<int64_t>(it->second) != 0)
    return Unsupported("blocked quantization");
  p.scales = scale->ToFloats();
  p.zero_points.assign(p.scales.size(), 0);
  if (zero) {
    if (zero->num_elements() != scale->num_elements()) return Unsupported("zero points do not fit");
    for (size_t i = 0; i < p.zero_points.size(); ++i)
      p.zero_points[i] = static_cast<int32_t>(zero->IntAt(static_cast<int64_t>(i)));
  }
  if (p.scales.empty()) return Unsupported("no scale");
  for (float s : p.scales)
    if (!(s > 0)) return Unsupported("a scale is not positive");
  if (p.scales.size() > 1) p.axis = n.Attr<int64_t>("axis");
  return p;
}

/// `v` where it comes out of a DQ of the step.
Result<std::optional<QuantInput>> InputOf(const StepCall& call, const Value* v) {
  const auto& nodes = call.step.nodes;
  const Node* dq = v ? v->producer() : nullptr;
  if (!dq || !dq->Is("DequantizeLinear") ||
      std::find(nodes.begin(), nodes.end(), dq) == nodes.end())
    return std::optional<QuantInput>();
  QuantInput in;
  in.value = dq->input(0);
  INFER_ASSIGN(in.params, ParamsOf(call, *dq, in.value->dtype()));
  in.operand = call.operand(in.value);
  in.constant = call.constant(in.value);
  return std::optional(std::move(in));
}

bool IsLinearAdd(const Node& n) { return n.Is("QLinearAdd", "com.microsoft"); }

Result<QuantParams8> OutputOf(const StepCall& call, const Node& q) {
  INFER_ASSIGN(QuantParams8 p, ParamsOf(call, q, q.output(0)->dtype(), IsLinearAdd(q) ? 6 : 1));
  if (!p.per_tensor() || p.dtype == DType::kI32)
    return Unsupported("the result is not quantized to 8 bits per tensor");
  return p;
}

/// QLinearAdd behind the Q whose codes are `codes`.
Result<QuantResidual> LinearResidualOf(const StepCall& call, const Node& add, const Value* codes,
                                       const QuantParams8& between) {
  const size_t mine = add.input(0) == codes ? 0 : 3, at = 3 - mine;
  INFER_ASSIGN(const QuantParams8 same, ParamsOf(call, add, codes->dtype(), mine + 1));
  if (!(same == between)) return Unsupported("quantized and dequantized by different scales");
  QuantInput other;
  other.value = add.input(at);
  INFER_ASSIGN(other.params, ParamsOf(call, add, other.value->dtype(), at + 1));
  other.operand = call.operand(other.value);
  other.constant = call.constant(other.value);
  return QuantResidual{between, std::move(other), false, true};
}

/// The nodes from `at`, behind the first Q: DQ, Add, perhaps Relu, Q; or QLinearAdd.
Result<QuantResidual> ResidualOf(const StepCall& call, size_t at, const QuantParams8& between) {
  const auto& nodes = call.step.nodes;
  const size_t left = nodes.size() - at;
  if (left == 1 && IsLinearAdd(*nodes[at]))
    return LinearResidualOf(call, *nodes[at], nodes[at - 1]->output(0), between);
  if (left < 3 || left > 4 || !nodes[at]->Is("DequantizeLinear") || !nodes[at + 1]->Is("Add") ||
      (left == 4 && !nodes[at + 2]->Is("Relu")) || !nodes.back()->Is("QuantizeLinear"))
    return Unsupported("nodes after the quantization");
  const Node &dq = *nodes[at], &add = *nodes[at + 1];
  INFER_ASSIGN(const QuantParams8 same, ParamsOf(call, dq, dq.input(0)->dtype()));
  if (!(same == between)) return Unsupported("quantized and dequantized by different scales");
  const Value* other = add.input(0) == dq.output(0) ? add.input(1) : add.input(0);
  INFER_ASSIGN(auto in, InputOf(call, other));
  if (!in || other == dq.output(0)) return Unsupported("what is added is not quantized");
  return QuantResidual{between, std::move(*in), left == 4};
}

/// Operators for which a group is tried.
bool MayBeMain(const Node& n, const KernelList& kernels) {
  return !n.Is("DequantizeLinear") && !n.Is("QuantizeLinear") && n.output(0) &&
         std::any_of(kernels.begin(), kernels.end(), [&](const KernelDef& k) {
           return k.Takes(n.def()) && k.name.substr(0, 4) == "int8";
         });
}

const Node* ReaderOfResult(const Node& node) {
  const Value* v = node.output(0);
  return v && v->has_one_use() ? v->uses()[0].user : nullptr;
}

/// `after`, which ends with a Q, and DQ, Add, perhaps Relu, Q behind it, or QLinearAdd; empty: they
/// are not there.
std::vector<const Node*> WithResidual(std::vector<const Node*> after) {
  if (const Node* next = ReaderOfResult(*after.back()); next && IsLinearAdd(*next)) {
    after.push_back(next);
    return after;
  }
  const auto take = [&](std::string_view op) {
    const Node* next = ReaderOfResult(*after.back());
    if (next && next->Is(op)) after.push_back(next);
    return next && next->Is(op);
  };
  if (!take("DequantizeLinear") || !take("Add")) return {};
  take("Relu");
  if (!take("QuantizeLinear")) return {};
  return after;
}

}  // namespace

bool SomeKernelAccepts(const Plan& plan, const PlanStep& step, const KernelList& kernels,
                       const CompileOptions& options) {
  const StepCall call{plan, step, options};
  return std::any_of(kernels.begin(), kernels.end(), [&](const KernelDef& k) {
    // Chains form last, of what groups have left.
    return k.name != kChainKernel && k.Takes(step.main->def()) && k.refuse(call).empty();
  });
}

Result<QuantGroup> DecodeQuantGroup(const StepCall& call) {
  if (call.step.borrowed == 0) return Unsupported("its operands are not quantized");
  QuantGroup g;
  const Node& main = call.main();
  for (const Value* v : main.inputs()) {
    INFER_ASSIGN(auto in, InputOf(call, v));
    g.inputs.push_back(std::move(in));
  }
  const auto& nodes = call.step.nodes;
  size_t i = call.step.borrowed + 1;
  for (; i < nodes.size() && !nodes[i]->Is("QuantizeLinear"); ++i)
    g.activations.push_back(nodes[i]);
  if (i == nodes.size()) return g;
  INFER_ASSIGN(g.output, OutputOf(call, *nodes[i]));
  if (++i == nodes.size()) return g;
  INFER_ASSIGN(g.residual, ResidualOf(call, i, *g.output));
  INFER_ASSIGN(g.output, OutputOf(call, *nodes.back()));
  return g;
}

void GroupQuantized(Plan& plan, const KernelList& kernels, const CompileOptions& options) {
  std::unordered_map<const Node*, size_t> step_of;
  for (size_t s = 0; s < plan.steps.size(); ++s) step_of[plan.steps[s].main] = s;
  auto try_step = [&](const Node& main, const std::vector<const Node*>& after) {
    PlanStep step;
    step.main = &main;
    auto borrow = [&](const Node& n) {
      for (const Value* v : n.inputs()) {
        const Node* dq = v ? v->producer() : nullptr;
        if (dq && dq->Is("DequantizeLinear") &&
            std::find(step.nodes.begin(), step.nodes.end(), dq) == step.nodes.end() &&
            std::find(after.begin(), after.end(), dq) == after.end())
          step.nodes.push_back(dq);
      }
    };
    borrow(main);
    for (const Node* n : after)
      if (n->Is("Add")) borrow(*n);
    step.borrowed = step.nodes.size();
    step.nodes.push_back(&main);
    step.nodes.insert(step.nodes.end(), after.begin(), after.end());
    for (const Node* n : step.nodes)
      for (const Value* v : n->inputs())
        if (v &&
            (!v->producer() ||
             std::find(step.nodes.begin(), step.nodes.end(), v->producer()) == step.nodes.end()) &&
            std::find(step.inputs.begin(), step.inputs.end(), plan.id(v)) == step.inputs.end())
          step.inputs.push_back(plan.id(v));
    step.outputs = {plan.id(step.nodes.back()->output(0))};
    if (step.borrowed == 0 || !SomeKernelAccepts(plan, step, kernels, options)) return false;
    // A DQ that others read, too, stays a step: one that nobody reads is not run.
    for (const Node* n : step.nodes)
      if (!n->Is("DequantizeLinear")) plan.steps[step_of.at(n)].nodes.clear();
    plan.steps[step_of.at(step.nodes.back())] = std::move(step);
    return true;
  };
  for (const auto& node : plan.graph.nodes()) {
    const auto at = step_of.find(node.get());
    if (at == step_of.end() || plan.steps[at->second].nodes.size() != 1 ||
        !MayBeMain(*node, kernels))
      continue;
    std::vector<const Node*> after;
    const Node* next = ReaderOfResult(*node);
    while (next && step_of.count(next) && !next->Is("QuantizeLinear") && onednn::EltwiseOf(*next) &&
           after.size() < 4) {
      after.push_back(next);
      next = ReaderOfResult(*next);
    }
    if (next && next->Is("QuantizeLinear") && step_of.count(next)) {
      auto with_q = after;
      with_q.push_back(next);
      // Of two convolutions that are added the first takes the addition.
      const auto with_residual = WithResidual(with_q);
      const bool free = std::all_of(with_residual.begin(), with_residual.end(), [&](const Node* n) {
        const auto found = step_of.find(n);
        return found != step_of.end() && plan.steps[found->second].nodes.size() == 1;
      });
      if (free && !with_residual.empty() && try_step(*node, with_residual)) continue;
      if (try_step(*node, with_q)) continue;
    }
    while (!try_step(*node, after) && !after.empty()) after.pop_back();
  }
  std::erase_if(plan.steps, [](const PlanStep& step) { return step.nodes.empty(); });
  Relink(plan);
}

std::string PrecisionOf(const StepCall& call) {
  auto group = DecodeQuantGroup(call);
  if (!group.ok()) return "f32";
  std::string text;
  for (size_t i = 0; i < group->inputs.size() && i < 2; ++i)
    if (group->inputs[i]) text += group->inputs[i]->params.dtype == DType::kU8 ? "u8" : "s8";
  const bool product = group->inputs.size() >= 2 && group->inputs[0] && group->inputs[1] &&
                       (call.main().Is("Conv") || call.main().Is("MatMul") ||
                        call.main().Is("Gemm") || call.main().Is("ConvTranspose"));
  return product ? text + "s32" : text;
}

}  // namespace infer
