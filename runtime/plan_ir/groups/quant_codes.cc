#include "runtime/plan_ir/groups/quant_codes.h"

#include "lib/ir/eval.h"

namespace infer {
namespace {

bool IsByteTensor(const QuantParams8& p) {
  return p.per_tensor() && (p.dtype == DType::kU8 || p.dtype == DType::kI8);
}

}  // namespace

Result<QuantGroup> WholeCodeGroup(const StepCall& call, size_t operands) {
  INFER_ASSIGN(QuantGroup g, DecodeQuantGroup(call));
  if (!g.output) return Unsupported("the result is not quantized");
  if (g.residual) return Unsupported("an addition follows");
  if (g.inputs.size() < operands) return Unsupported("operands");
  for (size_t i = 0; i < operands; ++i)
    if (!g.inputs[i] || !IsByteTensor(g.inputs[i]->params))
      return Unsupported("an operand is not 8 bits per tensor");
  return g;
}

std::string RefuseCodeTable(const StepCall& call) {
  if (call.main().Is(Trait::kConversion)) return "it gives elements of another type";
  auto g = WholeCodeGroup(call, 1);
  if (!g.ok()) return g.status().message();
  for (size_t i = 1; i < call.main().inputs().size(); ++i)
    if (call.main().input(i) && !call.constant(call.main().input(i)))
      return "a parameter is not constant";
  return "";
}

Result<std::array<uint8_t, 256>> CodeTableOf(const StepCall& call) {
  const QuantGroup g = *WholeCodeGroup(call, 1);
  Tensor all(g.inputs[0]->params.dtype, {256});
  for (int i = 0; i < 256; ++i) all.mutable_raw()[i] = static_cast<std::byte>(i);
  std::vector<Datum> slots(call.plan.values.size());
  for (int id : call.step.inputs)
    if (const Tensor* c = call.constant(call.plan.values[static_cast<size_t>(id)]))
      slots[static_cast<size_t>(id)] = *c;
  slots[static_cast<size_t>(call.plan.id(g.inputs[0]->value))] = all;
  for (const Node* n : call.step.nodes) {
    std::vector<const Datum*> operands;
    for (const Value* v : n->inputs())
      operands.push_back(v ? &slots[static_cast<size_t>(call.plan.id(v))] : nullptr);
    INFER_ASSIGN(auto results, EvaluateNode(*n, operands, call.plan.graph.ops()));
    slots[static_cast<size_t>(call.plan.id(n->output(0)))] = std::move(results[0]);
  }
  const Tensor& y =
      slots[static_cast<size_t>(call.plan.id(call.step.nodes.back()->output(0)))].tensor();
  if (y.num_elements() != 256) return Unsupported("the operator is not element-wise");
  std::array<uint8_t, 256> table;
  for (size_t i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(y.raw()[i]);
  return table;
}

std::string RefuseSameCodes(const StepCall& call) {
  auto g = WholeCodeGroup(call, 1);
  if (!g.ok()) return g.status().message();
  if (!g->activations.empty()) return "an activation follows";
  if (call.main().output(1)) return "a second result is wanted";
  return g->inputs[0]->params == *g->output ? "" : "scales differ";
}

}  // namespace infer
