#include "runtime/plan_ir/known_operands.h"

#include "lib/ir/eval.h"
#include "lib/support/strings.h"

namespace infer {

Result<std::vector<Datum>> EvaluateKnown(const Node& node, const OpRegistry& ops,
                                         std::span<const Operand> in, std::span<const int> operand,
                                         FunctionRef<std::optional<Tensor>(size_t i)> stand_in) {
  std::vector<Datum> values(node.inputs().size());
  std::vector<const Datum*> operands;
  for (size_t i = 0; i < values.size(); ++i) {
    const Value* v = node.input(i);
    operands.push_back(v ? &values[i] : nullptr);
    if (!v) continue;
    if (auto given = stand_in(i)) {
      values[i] = *std::move(given);
      continue;
    }
    const Tensor* c = v->constant();
    if (!c && operand[i] >= 0) c = in[static_cast<size_t>(operand[i])].constant;
    if (!c) return Unsupported(Cat("'", v->name(), "' is not known before the run"));
    values[i] = *c;
  }
  return EvaluateNode(node, operands, ops);
}

}  // namespace infer
