/// Activations written out. Their product of x, a factor and a constant comes in every order.
#include "passes/fuse/fusions.h"

namespace infer {
namespace {

/// p * c or p / (1/c).
Pattern Scaled(const Pattern& p, double c) {
  return OneOf({Op("Mul", p, Number(c)), Op("Div", p, Number(1 / c))});
}
/// c * x * a, however it is bracketed.
Pattern Product(const Pattern& x, const Pattern& a, double c) {
  return OneOf(
      {Op("Mul", Scaled(x, c), a), Scaled(Op("Mul", x, a), c), Op("Mul", x, Scaled(a, c))});
}
Pattern Square(const Pattern& x) { return OneOf({Op("Pow", x, Number(2)), Op("Mul", x, x)}); }

constexpr double kSqrtHalf = 0.70710678118654752;
constexpr double kSqrtTwoOverPi = 0.79788456080286536;

}  // namespace

Rule FuseGelu() {
  Pattern x = Any();
  Pattern erf = Op("Erf", Scaled(x, kSqrtHalf));
  const std::string begin = R"(graph g(x: f32[N,5]) -> (y) { r = const f32[] {1.4142135}
    i = const f32[] {0.70710677}  one = const f32[] {1}  half = const f32[] {0.5}
    two = const f32[] {2} )";
  return {
      .name = "fuse-gelu",
      .doc = "0.5 * x * (1 + erf(x / sqrt 2)), in any order => Gelu(x)",
      .match = Product(x, Op("Add", erf, Number(1)), 0.5),
      .build = [=](const Match& m, PatchBuilder& b) { return b("Gelu", {m[x]}); },
      .fires_on =
          {begin + "d = Div(x, r) e = Erf(d) a = Add(e, one) h = Mul(x, half) y = Mul(h, a) }",
           begin + "d = Mul(i, x) e = Erf(d) a = Add(one, e) h = Mul(x, a) y = Mul(half, h) }",
           begin + "d = Mul(x, i) e = Erf(d) a = Add(e, one) h = Mul(a, half) y = Mul(h, x) }",
           begin + "d = Div(x, r) e = Erf(d) a = Add(e, one) h = Mul(a, x) y = Div(h, two) }"},
      .silent_on =
          {{begin + "d = Div(x, two) e = Erf(d) a = Add(e, one) h = Mul(x, half) y = Mul(h, a) }",
            "'two' is not = 1.41421"},
           {begin + "d = Div(x, r) e = Erf(d) a = Add(e, half) h = Mul(x, half) y = Mul(h, a) }",
            "'half' is not = 1"},
           {R"(graph g(x: f32[3], z: f32[3]) -> (y) { r = const f32[] {1.4142135}
              one = const f32[] {1}  half = const f32[] {0.5}  d = Div(z, r)  e = Erf(d)
              a = Add(e, one)  h = Mul(x, half)  y = Mul(h, a) })",
            "'z' is not the value bound before"}},
  };
}

Rule FuseTanhGelu() {
  Pattern x = Any(), square = Square(x);
  Pattern cube = OneOf({Op("Pow", x, Number(3)), Op("Mul", square, x)});
  Pattern sum = Op("Add", x, Op("Mul", cube, Number(0.044715)));
  Pattern factor = Op("Add", Op("Mul", square, Number(0.044715)), Number(1));
  Pattern inner = OneOf({Op("Mul", sum, Number(kSqrtTwoOverPi)),
                         Op("Mul", Op("Mul", x, Number(kSqrtTwoOverPi)), factor),
                         Op("Mul", Op("Mul", x, factor), Number(kSqrtTwoOverPi))});
  const std::string begin = R"(graph g(x: f32[N,5]) -> (y) { k = const f32[] {0.7978846}
    c = const f32[] {0.044715}  one = const f32[] {1}  half = const f32[] {0.5}
    three = const f32[] {3} )";
  return {
      .name = "fuse-tanh-gelu",
      .doc =
          "0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), in any order => "
          "Gelu(x) {approximate=tanh}",
      .match = Product(x, Op("Add", Op("Tanh", inner), Number(1)), 0.5),
      .build =
          [=](const Match& m, PatchBuilder& b) {
            return b("Gelu", {m[x]}, {{"approximate", std::string("tanh")}});
          },
      .fires_on = {begin + R"(q = Pow(x, three) m = Mul(q, c) s = Add(x, m) i = Mul(k, s)
                     t = Tanh(i) a = Add(t, one) h = Mul(x, half) y = Mul(h, a) })",
                   begin + R"(p = Mul(x, x) q = Mul(p, x) m = Mul(c, q) s = Add(m, x) i = Mul(s, k)
                     t = Tanh(i) a = Add(one, t) h = Mul(x, a) y = Mul(h, half) })",
                   begin + R"(p = Mul(x, x) m = Mul(c, p) f = Add(m, one) l = Mul(x, k)
                     i = Mul(l, f) t = Tanh(i) a = Add(one, t) h = Mul(a, half) y = Mul(x, h) })"},
      .silent_on = {{begin + R"(q = Pow(x, three) m = Mul(q, c) s = Add(x, m) i = Mul(half, s)
                       t = Tanh(i) a = Add(t, one) h = Mul(x, half) y = Mul(h, a) })",
                     "is not = 0.79788"}},
  };
}

Rule FuseSilu() {
  Pattern x = Any();
  return {
      .name = "fuse-silu",
      .doc = "x * Sigmoid(x) => infer::Silu(x)",
      .match = Op("Mul", x, Op("Sigmoid", x)),
      .build = [=](const Match& m, PatchBuilder& b) { return b("infer::Silu", {m[x]}); },
      .fires_on = {"graph g(x: f32[N,5]) -> (y) { s = Sigmoid(x)  y = Mul(s, x) }"},
      .silent_on = {{"graph g(x: f32[5], z: f32[5]) -> (y) { s = Sigmoid(z)  y = Mul(s, x) }",
                     "is not the value bound before"},
                    {"graph g(x: f32[5]) -> (y, s) { s = Sigmoid(x)  y = Mul(s, x) }",
                     "'s' has other uses"}},
  };
}

namespace {

/// min(max(x + 3, 0), 6).
Pattern ClippedShift(const Pattern& x) {
  return Op("Clip", Op("Add", x, Number(3)), Number(0), Number(6));
}
constexpr const char* kClip = R"(graph g(x: f32[N,5]) -> (y) { three = const f32[] {3}
  zero = const f32[] {0}  six = const f32[] {6}  sixth = const f32[] {0.16666667}
  a = Add(x, three)  c = Clip(a, zero, six) )";

}  // namespace

Rule FuseHardSwish() {
  Pattern x = Any();
  Pattern gate = Op("HardSigmoid", x).Where("made with alpha=1/6, beta=1/2", [](const Value& v) {
    const Node& n = *v.producer();
    return IsNumber(Tensor::Scalar(n.Attr<float>("alpha")), 1.0 / 6) &&
           n.Attr<float>("beta") == 0.5f;
  });
  return {
      .name = "fuse-hardswish",
      .doc = "x * HardSigmoid(x), x * Clip(x + 3, 0, 6) / 6, in any order => HardSwish(x)",
      .match = OneOf({Op("Mul", x, gate), Product(x, ClippedShift(x), 1.0 / 6)}),
      .build = [=](const Match& m, PatchBuilder& b) { return b("HardSwish", {m[x]}); },
      .fires_on = {"graph g(x: f32[N,5]) -> (y) { s = HardSigmoid(x) {alpha=0.16666667}  "
                   "y = Mul(x, s) }",
                   std::string(kClip) + "p = Mul(x, c)  y = Div(p, six) }",
                   std::string(kClip) + "p = Div(c, six)  y = Mul(p, x) }",
                   std::string(kClip) + "p = Mul(x, sixth)  y = Mul(p, c) }"},
      .silent_on = {{"graph g(x: f32[N,5]) -> (y) { s = HardSigmoid(x)  y = Mul(x, s) }",
                     "is not made with alpha=1/6"},
                    {std::string(kClip) + "p = Mul(x, c)  y = Div(p, three) }",
                     "'three' is not = 6"}},
  };
}

Rule FuseHardSigmoid() {
  Pattern x = Any();
  return {
      .name = "fuse-hardsigmoid",
      .doc = "Clip(x + 3, 0, 6) / 6 => HardSigmoid(x) {alpha=1/6, beta=1/2}",
      .match = Scaled(ClippedShift(x), 1.0 / 6),
      .build =
          [=](const Match& m, PatchBuilder& b) {
            return b("HardSigmoid", {m[x]}, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
          },
      .fires_on = {std::string(kClip) + "y = Div(c, six) }",
                   std::string(kClip) + "y = Mul(sixth, c) }"},
      .silent_on = {{std::string(kClip) + "y = Div(six, c) }", "is a constant, not a Clip"}},
  };
}

}  // namespace infer
