#include "runtime/cpu/kernels/common/appended.h"

#include <limits>

namespace infer {

Result<Appended> Appended::Of(const StepCall& call, const Epilogue& epilogue) {
  Appended a;
  for (size_t i = 0; i < epilogue.ops.size(); ++i) {
    if (epilogue.ops[i].kind == onednn::PostOp::Kind::kSum) {
      a.residual = epilogue.residual;
      a.residual_last = a.function.has_value();
      continue;
    }
    if (a.function || a.residual_last) return Unsupported("two activations");
    INFER_ASSIGN(a.function, UnaryFunctionOf(call, *epilogue.nodes[i]));
    if (a.function->kind == simd::Unary::kRelu)
      a.function =
          UnaryFunction{simd::Unary::kClip, 0, std::numeric_limits<float>::infinity(), true};
  }
  return a;
}

void Appended::Apply(const float* x, int64_t n, float* y) const {
  simd::TheLoops().unary[static_cast<int>(function->kind)](x, y, n, function->a, function->b);
}

}  // namespace infer
