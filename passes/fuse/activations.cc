/// Smooth activations written out.
#include "passes/fuse/formulas.h"
#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

constexpr const char* kSmoothBegin = R"(graph g(x: f32[N,5]) -> (y) { one = const f32[] {1} )";

}  // namespace

Rule FuseSigmoid() {
  Pattern x = Operand();
  Pattern sum = Op("Add", Op("Exp", Op("Neg", x)), Number(1));
  return {
      .name = "fuse-sigmoid",
      .doc = "1 / (1 + exp(-x)) => Sigmoid(x)",
      .match = OneOf({Op("Div", Number(1), sum), Op("Reciprocal", sum)}),
      .build = [=](const Match& m, PatchBuilder& b) { return b("Sigmoid", {m[x]}); },
      .fires_on = {std::string(kSmoothBegin) +
                       "n = Neg(x) e = Exp(n) s = Add(e, one) y = Div(one, s) }",
                   std::string(kSmoothBegin) +
                       "n = Neg(x) e = Exp(n) s = Add(one, e) y = Reciprocal(s) }"},
      .silent_on =
          {{std::string(kSmoothBegin) + "n = Neg(x) e = Exp(n) s = Add(e, one) y = Div(s, one) }",
            "'s' is not a constant"},
           {std::string(kSmoothBegin) + "n = Abs(x) e = Exp(n) s = Add(e, one) y = Div(one, s) }",
            "not a Neg"}},
  };
}

Rule FuseSilu() {
  Pattern x = Any();
  Pattern gate = MaybeNarrower(Op("Sigmoid", MaybeWider(x)));
  Pattern quotient = Op("Div", x, Op("Add", Op("Exp", Op("Neg", x)), Number(1)));
  return {
      .name = "fuse-silu",
      .doc = "x * Sigmoid(x), x / (1 + exp(-x)) => infer::Silu(x)",
      .match = OneOf({Op("Mul", x, gate), quotient}),
      .build = [=](const Match& m, PatchBuilder& b) { return b("infer::Silu", {m[x]}); },
      .fires_on = {"graph g(x: f32[N,5]) -> (y) { s = Sigmoid(x)  y = Mul(s, x) }",
                   std::string(kSmoothBegin) +
                       "n = Neg(x) e = Exp(n) s = Add(e, one) y = Div(x, s) }",
                   R"(graph g(x: f16[N,5]) -> (y) { w = Cast(x) {to=1}  s = Sigmoid(w)
                     c = Cast(s) {to=10}  y = Mul(x, c) })"},
      .silent_on = {{"graph g(x: f32[5], z: f32[5]) -> (y) { s = Sigmoid(z)  y = Mul(s, x) }",
                     "is not the value bound before"},
                    {"graph g(x: f32[5]) -> (y, s) { s = Sigmoid(x)  y = Mul(s, x) }",
                     "'s' has other uses"},
                    {std::string(kSmoothBegin) +
                         "n = Neg(x) e = Exp(n) s = Add(e, one) y = Div(s, x) }",
                     "not a Add"}},
  };
}

Rule FuseSwish() {
  Pattern x = Operand(), alpha = Scalar();
  Pattern divided = Op("Div", x, alpha);
  return {
      .name = "fuse-swish",
      .doc = "x * Sigmoid(a * x), QuickGelu with a = 1.702 => Swish(x) {alpha=a}",
      .match = Op("Mul", x, Op("Sigmoid", OneOf({Op("Mul", alpha, x), divided}))),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const double a = m.Has(divided) ? 1 / m.scalar(alpha) : m.scalar(alpha);
        return b("Swish", {m[x]}, {{"alpha", static_cast<float>(a)}});
      },
      .fires_on = {R"(graph g(x: f32[N,5]) -> (y) { a = const f32[] {1.702}  t = Mul(a, x)
                     s = Sigmoid(t)  y = Mul(x, s) })",
                   R"(graph g(x: f32[N,5]) -> (y) { a = const f32[1] {0.5}  t = Div(x, a)
                     s = Sigmoid(t)  y = Mul(s, x) })"},
      .silent_on = {{R"(graph g(x: f32[N,5]) -> (y) { a = const f32[5] ~1  t = Mul(a, x)
                       s = Sigmoid(t)  y = Mul(x, s) })",
                     "'a' is not one number"},
                    {R"(graph g(x: f32[N,5], a: f32[]) -> (y) { t = Mul(a, x)
                       s = Sigmoid(t)  y = Mul(x, s) })",
                     "'a' is not a constant"},
                    {R"(graph g(x: f32[5]) -> (y) { a = const f32[1,1] {2}  t = Mul(a, x)
                       s = Sigmoid(t)  y = Mul(x, s) })",
                     "the result would be f32[5]"}},
  };
}

Rule FuseSoftplus() {
  Pattern x = Operand();
  Pattern plain = Op("Log", Op("Add", Op("Exp", x), Number(1)));
  Pattern split = Op("Log", Op("Add", Op("Exp", Op("Neg", Op("Abs", x))), Number(1)));
  // Where(x > 20, x, log(1 + exp(x))): beyond 15 the two are one to the last bit but two of f32.
  Pattern threshold =
      Scalar().Where("at least 15", [](const Value& v) { return v.constant()->At(0) >= 15; });
  Pattern large = Op("Greater|GreaterOrEqual", x, threshold);
  return {
      .name = "fuse-softplus",
      .doc = "log(1 + exp(x)), also without overflow for large x => Softplus(x)",
      .match = OneOf({plain, Op("Add", OneOf({Op("Relu", x), Op("Max", x, Number(0))}), split),
                      Op("Where", large, x, OneOf({Op("Softplus", x), plain}))}),
      .build = [=](const Match& m, PatchBuilder& b) { return b("Softplus", {m[x]}); },
      .fires_on = {std::string(kSmoothBegin) + "e = Exp(x) s = Add(one, e) y = Log(s) }",
                   std::string(kSmoothBegin) + R"(r = Relu(x) a = Abs(x) n = Neg(a) e = Exp(n)
                     s = Add(e, one) l = Log(s) y = Add(l, r) })",
                   std::string(kSmoothBegin) +
                       R"(t = const f32[] {20} c = Greater(x, t) s = Softplus(x)
                     y = Where(c, x, s) })"},
      .silent_on = {{std::string(kSmoothBegin) + "e = Exp(x) s = Add(e, e) y = Log(s) }",
                     "'e' is not a constant"},
                    {std::string(kSmoothBegin) +
                         R"(t = const f32[] {2} c = Greater(x, t) s = Softplus(x)
                       y = Where(c, x, s) })",
                     "'t' is not at least 15"}},
  };
}

Rule FuseMish() {
  Pattern x = Any();
  return {
      .name = "fuse-mish",
      .doc = "x * Tanh(Softplus(x)) => Mish(x)",
      .match = Op("Mul", x, Op("Tanh", Op("Softplus", x))),
      .build = [=](const Match& m, PatchBuilder& b) { return b("Mish", {m[x]}); },
      .fires_on = {"graph g(x: f32[N,5]) -> (y) { s = Softplus(x)  t = Tanh(s)  y = Mul(x, t) }"},
      .silent_on =
          {{"graph g(x: f32[5], z: f32[5]) -> (y) { s = Softplus(z)  t = Tanh(s)  y = Mul(x, t) }",
            "is not the value bound before"}},
  };
}

Rule FuseSoftsign() {
  Pattern x = Operand();
  return {
      .name = "fuse-softsign",
      .doc = "x / (1 + |x|) => Softsign(x)",
      .match = Op("Div", x, Op("Add", Op("Abs", x), Number(1))),
      .build = [=](const Match& m, PatchBuilder& b) { return b("Softsign", {m[x]}); },
      .fires_on = {std::string(kSmoothBegin) + "a = Abs(x) s = Add(one, a) y = Div(x, s) }"},
      .silent_on = {{std::string(kSmoothBegin) + "a = Abs(x) s = Add(a, a) y = Div(x, s) }",
                     "'a' is not a constant"}},
  };
}

}  // namespace infer
