#include "runtime/cpu/quant_group.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

Result<QuantParams8> ParamsOf(const StepCall& call, const Node& n, DType dtype) {
  QuantParams8 p;
  p.dtype = dtype;
  if (dtype != DType::kU8 && dtype != DType::kI8 && dtype != DType::kI32)
    return Unsupported(Cat("quantized to ", Name(dtype)));
  const Tensor* scale = call.constant(n.input(1));
  const Tensor* zero = call.constant(n.input(2));
  if (!scale || (n.input(2) && !zero)) return Unsupported("scale or zero point is not constant");
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

/// Operators for which a group is tried.
bool MayBeMain(const Node& n, const KernelList& kernels) {
  return !n.Is("DequantizeLinear") && !n.Is("QuantizeLinear") && n.output(0) &&
         std::any_of(kernels.begin(), kernels.end(), [&](const KernelDef& k) {
           return n.Is(k.op, k.domain) && k.name.substr(0, 4) == "int8";
         });
}

const Node* OnlyReader(const Node& node) {
  const Value* v = node.output(0);
  return v && v->has_one_use() ? v->uses()[0].user : nullptr;
}

}  // namespace

bool SomeKernelAccepts(const Plan& plan, const PlanStep& step, const KernelList& kernels,
                       const CompileOptions& options) {
  const StepCall call{plan, step, options};
  return std::any_of(kernels.begin(), kernels.end(), [&](const KernelDef& k) {
    return step.main->Is(k.op, k.domain) && k.refuse(call).empty();
  });
}

Result<QuantGroup> DecodeQuantGroup(const StepCall& call) {
  if (call.step.borrowed == 0) return Unsupported("its operands are not quantized");
  QuantGroup g;
  const Node& main = call.main();
  for (const Value* v : main.inputs()) {
    g.inputs.emplace_back();
    const Node* dq = v ? v->producer() : nullptr;
    if (!dq || !dq->Is("DequantizeLinear")) continue;
    const auto& nodes = call.step.nodes;
    if (std::find(nodes.begin(), nodes.end(), dq) == nodes.end()) continue;
    QuantInput in;
    in.value = dq->input(0);
    INFER_ASSIGN(in.params, ParamsOf(call, *dq, in.value->dtype()));
    in.operand = call.operand(in.value);
    in.constant = call.constant(in.value);
    g.inputs.back() = std::move(in);
  }
  const auto& nodes = call.step.nodes;
  for (size_t i = call.step.borrowed + 1; i < nodes.size(); ++i) {
    const Node& n = *nodes[i];
    if (n.Is("QuantizeLinear")) {
      if (i + 1 != nodes.size()) return Unsupported("nodes after the quantization");
      INFER_ASSIGN(g.output, ParamsOf(call, n, n.output(0)->dtype()));
      if (!g.output->per_tensor() || g.output->dtype == DType::kI32)
        return Unsupported("the result is not quantized to 8 bits per tensor");
    } else {
      g.activations.push_back(&n);
    }
  }
  return g;
}

void GroupQuantized(Plan& plan, const KernelList& kernels, const CompileOptions& options) {
  std::unordered_map<const Node*, size_t> step_of;
  for (size_t s = 0; s < plan.steps.size(); ++s) step_of[plan.steps[s].main] = s;
  auto try_step = [&](const Node& main, const std::vector<const Node*>& after) {
    PlanStep step;
    step.main = &main;
    for (const Value* v : main.inputs()) {
      const Node* dq = v ? v->producer() : nullptr;
      if (dq && dq->Is("DequantizeLinear") &&
          std::find(step.nodes.begin(), step.nodes.end(), dq) == step.nodes.end())
        step.nodes.push_back(dq);
    }
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
    const Node* next = OnlyReader(*node);
    while (next && step_of.count(next) && !next->Is("QuantizeLinear") && onednn::EltwiseOf(*next) &&
           after.size() < 4) {
      after.push_back(next);
      next = OnlyReader(*next);
    }
    if (next && next->Is("QuantizeLinear") && step_of.count(next)) {
      auto with_q = after;
      with_q.push_back(next);
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
