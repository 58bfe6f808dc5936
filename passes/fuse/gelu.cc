/// Gelu written out. Its product of x, 1/2 and a sum comes in every order.
#include "passes/fuse/formulas.h"
#include "passes/fuse/fusions.h"

namespace infer {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752;
constexpr double kSqrtTwoOverPi = 0.79788456080286536;

/// x * (1 + f) / 2, however it is bracketed.
Pattern HalfOfOnePlus(const Pattern& x, const Pattern& f) {
  Pattern half_x = Scaled(x, 0.5);
  return OneOf({Product(x, MaybeNarrower(Op("Add", f, Number(1))), 0.5),
                Op("Mul", x, Op("Add", Scaled(f, 0.5), Number(0.5))),
                Op("Add", half_x, Op("Mul", half_x, f))});
}

}  // namespace

Rule FuseGelu() {
  Pattern x = Operand();
  Pattern erf = MaybeNarrower(Op("Erf", MaybeWider(Scaled(MaybeWider(x), kSqrtHalf))));
  const std::string constants = R"( r = const f32[] {1.4142135}
    i = const f32[] {0.70710677}  one = const f32[] {1}  half = const f32[] {0.5}
    two = const f32[] {2} )";
  const std::string begin = "graph g(x: f32[N,5]) -> (y) {" + constants;
  const std::string short_begin = R"(graph g(x: f16[N,5]) -> (y) { one = const f16[] {1}
    r = const f32[] {1.4142135}  half = const f16[] {0.5} )";
  return {
      .name = "fuse-gelu",
      .doc = "0.5 * x * (1 + erf(x / sqrt 2)), in any order => Gelu(x)",
      .match = HalfOfOnePlus(x, erf),
      .build = [=](const Match& m, PatchBuilder& b) { return b("Gelu", {m[x]}); },
      .fires_on =
          {begin + "d = Div(x, r) e = Erf(d) a = Add(e, one) h = Mul(x, half) y = Mul(h, a) }",
           begin + "d = Mul(i, x) e = Erf(d) a = Add(one, e) h = Mul(x, a) y = Mul(half, h) }",
           begin + "d = Mul(x, i) e = Erf(d) a = Add(e, one) h = Mul(a, half) y = Mul(h, x) }",
           begin + "d = Div(x, r) e = Erf(d) a = Add(e, one) h = Mul(a, x) y = Div(h, two) }",
           begin + "d = Div(x, r) e = Erf(d) h = Mul(e, half) a = Add(h, half) y = Mul(a, x) }",
           begin + "d = Div(x, r) e = Erf(d) h = Mul(x, half) p = Mul(h, e) y = Add(p, h) }",
           short_begin + R"(w = Cast(x) {to=1} d = Div(w, r) e = Erf(d) s = Cast(e) {to=10}
             a = Add(s, one) h = Mul(x, a) y = Mul(h, half) })"},
      .silent_on =
          {{begin + "d = Div(x, two) e = Erf(d) a = Add(e, one) h = Mul(x, half) y = Mul(h, a) }",
            "'two' is not = 1.41421"},
           {begin + "d = Div(x, r) e = Erf(d) a = Add(e, half) h = Mul(x, half) y = Mul(h, a) }",
            "'half' is not = 1"},
           {R"(graph g(x: f32[3], z: f32[3]) -> (y) { r = const f32[] {1.4142135}
              one = const f32[] {1}  half = const f32[] {0.5}  d = Div(z, r)  e = Erf(d)
              a = Add(e, one)  h = Mul(x, half)  y = Mul(h, a) })",
            "'z' is not the value bound before"},
           {"graph g(x: f32[*]) -> (y) {" + constants +
                "d = Div(x, r) e = Erf(d) a = Add(e, one) h = Mul(x, half) y = Mul(h, a) }",
            "'x' is not of known rank"},
           {R"(graph g(x: f32[3,1]) -> (y) { r = const f32[] {1.4142135}
              one = const f32[] {1}  half = const f32[5] {0.5,0.5,0.5,0.5,0.5}  d = Div(x, r)
              e = Erf(d)  a = Add(e, one)  h = Mul(x, half)  y = Mul(h, a) })",
            "the result would be f32[3,1]"},
           {R"(graph g(x: f32[3]) -> (y) { r = const f32[] {1.4142135}  one = const f32[] {1}
              half = const f32[] {0.5}  d = Div(x, r)  c = Cast(d) {to=7}  f = Cast(c) {to=1}
              e = Erf(f)  a = Add(e, one)  h = Mul(x, half)  y = Mul(h, a) })",
            "not a Mul"}},
  };
}

Rule FuseTanhGelu() {
  Pattern x = Operand(), square = Square(x);
  Pattern cube = OneOf({Op("Pow", x, Number(3)), Op("Mul", square, x)});
  // 0.044715 stands at the cube, at the square or at x.
  Pattern cubic = OneOf({Scaled(cube, 0.044715), Op("Mul", Scaled(square, 0.044715), x),
                         Op("Mul", square, Scaled(x, 0.044715)),
                         Op("Mul", Op("Mul", Scaled(x, 0.044715), x), x)});
  Pattern sum = Op("Add", x, cubic);
  Pattern factor =
      Op("Add", OneOf({Scaled(square, 0.044715), Op("Mul", Scaled(x, 0.044715), x)}), Number(1));
  Pattern inner = OneOf(
      {Op("Mul", sum, Number(kSqrtTwoOverPi)), Op("Mul", Scaled(x, kSqrtTwoOverPi), factor),
       Op("Mul", x, Scaled(factor, kSqrtTwoOverPi)),
       Op("Mul", x, Op("Add", Scaled(square, kSqrtTwoOverPi * 0.044715), Number(kSqrtTwoOverPi))),
       Op("Mul", Op("Mul", x, factor), Number(kSqrtTwoOverPi))});
  const std::string begin = R"(graph g(x: f32[N,5]) -> (y) { k = const f32[] {0.7978846}
    c = const f32[] {0.044715}  one = const f32[] {1}  half = const f32[] {0.5}
    three = const f32[] {3} )";
  return {
      .name = "fuse-tanh-gelu",
      .doc =
          "0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), in any order => "
          "Gelu(x) {approximate=tanh}",
      .match = HalfOfOnePlus(x, MaybeNarrower(Op("Tanh", MaybeWider(inner)))),
      .build =
          [=](const Match& m, PatchBuilder& b) {
            return b("Gelu", {m[x]}, {{"approximate", std::string("tanh")}});
          },
      .fires_on = {begin + R"(q = Pow(x, three) m = Mul(q, c) s = Add(x, m) i = Mul(k, s)
                     t = Tanh(i) a = Add(t, one) h = Mul(x, half) y = Mul(h, a) })",
                   begin + R"(p = Mul(x, x) q = Mul(p, x) m = Mul(c, q) s = Add(m, x) i = Mul(s, k)
                     t = Tanh(i) a = Add(one, t) h = Mul(x, a) y = Mul(h, half) })",
                   begin + R"(p = Mul(x, x) m = Mul(c, p) f = Add(m, one) l = Mul(x, k)
                     i = Mul(l, f) t = Tanh(i) a = Add(one, t) h = Mul(a, half) y = Mul(x, h) })",
                   begin + R"(p = Mul(x, x) m = Mul(c, p) q = Mul(x, m) s = Add(q, x)
                     i = Mul(s, k) t = Tanh(i) a = Add(one, t) h = Mul(x, half) y = Mul(h, a) })",
                   begin + R"(l = Mul(x, c) p = Mul(l, x) f = Add(p, one) n = Mul(x, k)
                     i = Mul(n, f) t = Tanh(i) a = Add(t, one) h = Mul(x, half) y = Mul(h, a) })",
                   begin + R"(d = const f32[] {0.0356774} p = Mul(x, x) m = Mul(p, d) f = Add(m, k)
                     i = Mul(x, f) t = Tanh(i) a = Add(t, one) h = Mul(x, half) y = Mul(h, a) })"},
      .silent_on = {{begin + R"(q = Pow(x, three) m = Mul(q, c) s = Add(x, m) i = Mul(half, s)
                       t = Tanh(i) a = Add(t, one) h = Mul(x, half) y = Mul(h, a) })",
                     "is not = 0.79788"},
                    {begin + R"(q = Pow(x, half) m = Mul(q, c) s = Add(x, m) i = Mul(k, s)
                       t = Tanh(i) a = Add(t, one) h = Mul(x, half) y = Mul(h, a) })",
                     "is not = 3"}},
  };
}

}  // namespace infer
