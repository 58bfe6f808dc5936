#include "runtime/cpu/kernels/common/unary_function.h"

#include <limits>

#include "lib/support/strings.h"

namespace infer {
namespace {

using simd::Unary;

struct UnaryOp {
  std::string_view op, domain;
  Unary kind;
  const char* a = nullptr;  ///< attributes that are the loop's parameters
  const char* b = nullptr;
  bool keeps_zero = false;  ///< f(0) = 0: padding of a blocked layout stays zero
};
constexpr UnaryOp kUnary[] = {
    {"Abs", "", Unary::kAbs, nullptr, nullptr, true},
    {"Neg", "", Unary::kNeg, nullptr, nullptr, true},
    {"Relu", "", Unary::kRelu, nullptr, nullptr, true},
    {"LeakyRelu", "", Unary::kLeakyRelu, "alpha", nullptr, true},
    {"Clip", "", Unary::kClip},
    {"Exp", "", Unary::kExp},
    {"Sigmoid", "", Unary::kSigmoid},
    {"Tanh", "", Unary::kTanh, nullptr, nullptr, true},
    {"Erf", "", Unary::kErf, nullptr, nullptr, true},
    {"Gelu", "", Unary::kGelu, nullptr, nullptr, true},
    {"Gelu", "com.microsoft", Unary::kGelu, nullptr, nullptr, true},
    {"QuickGelu", "com.microsoft", Unary::kSwish, "alpha", nullptr, true},
    {"Swish", "", Unary::kSwish, "alpha", nullptr, true},
    {"Silu", "infer", Unary::kSwish, nullptr, nullptr, true},
    {"HardSwish", "", Unary::kHardSwish, nullptr, nullptr, true},
    {"HardSigmoid", "", Unary::kHardSigmoid, "alpha", "beta"},
    {"Elu", "", Unary::kElu, "alpha", nullptr, true},
    {"Sqrt", "", Unary::kSqrt, nullptr, nullptr, true},
    {"Reciprocal", "", Unary::kReciprocal},
    {"Floor", "", Unary::kFloor, nullptr, nullptr, true},
    {"Ceil", "", Unary::kCeil, nullptr, nullptr, true},
    {"Softplus", "", Unary::kSoftplus},
    {"Mish", "", Unary::kMish, nullptr, nullptr, true},
    {"Sign", "", Unary::kSign, nullptr, nullptr, true},
    {"Log", "", Unary::kLog},
    {"Sin", "", Unary::kSin, nullptr, nullptr, true},
    {"Cos", "", Unary::kCos},
    {"Tan", "", Unary::kTan, nullptr, nullptr, true},
    {"Asin", "", Unary::kAsin, nullptr, nullptr, true},
    {"Acos", "", Unary::kAcos},
    {"Atan", "", Unary::kAtan, nullptr, nullptr, true},
    {"Sinh", "", Unary::kSinh, nullptr, nullptr, true},
    {"Cosh", "", Unary::kCosh},
    {"Asinh", "", Unary::kAsinh, nullptr, nullptr, true},
    {"Acosh", "", Unary::kAcosh},
    {"Atanh", "", Unary::kAtanh, nullptr, nullptr, true},
    {"Round", "", Unary::kRound, nullptr, nullptr, true},
    {"Softsign", "", Unary::kSoftsign, nullptr, nullptr, true},
    {"ThresholdedRelu", "", Unary::kThresholdedRelu, "alpha"},
    {"Selu", "", Unary::kSelu, "alpha", "gamma", true},
    {"Shrink", "", Unary::kShrink, "lambd", "bias"},
    {"FastGelu", "com.microsoft", Unary::kGeluTanh, nullptr, nullptr, true},
};

const UnaryOp* FindUnary(const Node& n) {
  for (const UnaryOp& u : kUnary)
    if (n.Is(u.op, u.domain)) return &u;
  return nullptr;
}

}  // namespace

Result<UnaryFunction> UnaryFunctionOf(const StepCall& call, const Node& n) {
  const UnaryOp* u = FindUnary(n);
  if (!u) return Unsupported(Cat(n.op(), " is no unary function"));
  if (n.Is("FastGelu", "com.microsoft") && n.input(1)) return Unsupported("it has a bias");
  for (size_t i = 1; i < n.inputs().size(); ++i)
    if (n.input(i) &&
        (!call.constant(n.input(i)) || call.constant(n.input(i))->num_elements() != 1))
      return Unsupported("a bound is not constant");
  UnaryFunction f{u->kind, u->a ? n.Attr<float>(u->a) : 1.0f, u->b ? n.Attr<float>(u->b) : 0.0f,
                  u->keeps_zero};
  if (f.kind == Unary::kGelu && u->domain.empty() && n.Attr<std::string>("approximate") == "tanh")
    f.kind = Unary::kGeluTanh;
  if (f.kind == Unary::kClip) {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    f.a = n.input(1) ? static_cast<float>(call.constant(n.input(1))->At(0)) : -kInf;
    f.b = n.input(2) ? static_cast<float>(call.constant(n.input(2))->At(0)) : kInf;
    f.keeps_zero = f.a <= 0 && 0 <= f.b;
  }
  return f;
}

std::vector<std::pair<std::string_view, std::string_view>> UnaryOperators() {
  std::vector<std::pair<std::string_view, std::string_view>> list;
  for (const UnaryOp& u : kUnary) list.emplace_back(u.op, u.domain);
  return list;
}

}  // namespace infer
