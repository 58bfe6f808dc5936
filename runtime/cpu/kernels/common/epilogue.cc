#include "runtime/cpu/kernels/common/epilogue.h"

#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/isa.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/groups/gate.h"

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

/// oneDNN's kernels for 64-bit ARM take Clip and HardSwish behind a product, and leave them out
/// (2.6).
bool IsComputed(const Node& n) {
  return kIsX86 || (!n.Is("HardSwish") && (IsRelu(n) || !ClampOf(n)));
}

}  // namespace

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
    } else if (const Value* other = AddedTo(before, n)) {
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
  if (!onednn::KeepsParameters(e.ops)) return Unsupported(std::string(onednn::kLosesParameters));
  return e;
}

}  // namespace infer
