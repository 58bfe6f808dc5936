#include "runtime/cpu/kernels/matmul/matmul_parts.h"

#include "runtime/cpu/kernels/common/kernels.h"

namespace infer {
namespace {

/// C of Gemm is [N] or [1, N], and not known to be one number for all columns of `y`.
bool IsBiasOfGemm(const Value& c, const Value& y) {
  const Shape &s = c.shape(), &result = y.shape();
  if (!s.has_rank() || s.rank() < 1 || s.rank() > 2) return false;
  const bool is_one = s[-1] == Dim(1);
  if (is_one && !(result.has_rank() && result[-1] == Dim(1))) return false;
  return s.rank() == 1 || s[0] == Dim(1);
}

Tensor ScaledBy(const Tensor& t, float factor) {
  if (factor == 1) return t;
  Tensor scaled = t.Clone();
  for (float& v : scaled.mutable_data<float>()) v *= factor;
  return scaled;
}

}  // namespace

std::string RefuseMatMul(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const Node& n = call.main();
  if (n.Is("Gemm")) {
    if (n.Attr<float>("alpha") != 1 && !call.constant(n.input(1)))
      return "alpha is not 1 and B is not constant";
    if (const Value* c = n.input(2)) {
      if (!IsBiasOfGemm(*c, *n.output(0))) return "C is not one row";
      if (n.Attr<float>("beta") != 1 && !call.constant(c))
        return "beta is not 1 and C is not constant";
    }
  }
  auto e = DecodeEpilogue(call, !n.input(2));
  return e.ok() ? "" : e.status().message();
}

bool MatMulParts::TurnsA(const Node& node) {
  return node.Is("Gemm") && node.Attr<int64_t>("transA") != 0;
}

MatMulParts::MatMulParts(const StepCall& call)
    : gemm(call.main().Is("Gemm")),
      a(call.operand(call.main().input(0))),
      b(call.operand(call.main().input(1))),
      bias(call.operand(call.main().input(2))),
      epilogue(*DecodeEpilogue(call, bias < 0)) {
  const Node& n = call.main();
  if (bias < 0) bias = epilogue.bias;
  float beta = 1;
  if (gemm) {
    trans_a = TurnsA(n);
    trans_b = n.Attr<int64_t>("transB") != 0;
    alpha = n.Attr<float>("alpha");
    if (n.input(2)) beta = n.Attr<float>("beta");
  }
  if (const Tensor* w = call.constant(n.input(1))) constant = w->dims();
  if (bias >= 0)
    if (const Tensor* c = call.constant(
            call.plan.values[static_cast<size_t>(call.step.inputs[static_cast<size_t>(bias)])]))
      bias_constant = ScaledBy(*c, beta);
}

void MatMulParts::TakeWeights(const StepCall& call) {
  const Value* const w = call.main().input(1);
  if (!constant) return;
  weights = alpha == 1 ? call.source(w)
                       : std::make_shared<WeightSource>(ScaledBy(*call.constant(w), alpha));
}

}  // namespace infer
