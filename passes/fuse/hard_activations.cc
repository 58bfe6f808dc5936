/// Activations that are made of bounds: Relu, Clip and what is built from them.
#include "passes/fuse/formulas.h"
#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

constexpr const char* kHardBegin = R"(graph g(x: f32[N,5]) -> (y) { three = const f32[] {3}
  zero = const f32[] {0}  one = const f32[1] {1}  six = const f32[] {6}
  sixth = const f32[] {0.16666667}  half = const f32[] {0.5} )";
std::string HardText(const char* rest) { return std::string(kHardBegin) + rest + " }"; }

/// min(max(x + 3, 0), 6).
Pattern ClippedShift(const Pattern& x) {
  return Op("Clip", Op("Add", x, Number(3)), Number(0), Number(6));
}

}  // namespace

Rule FuseRelu() {
  Pattern x = Operand(), above = Op("Greater|GreaterOrEqual", x, Number(0));
  return {
      .name = "fuse-relu",
      .doc = "Max(x, 0), Clip(x, 0), Where(x > 0, x, 0) => Relu(x)",
      .match = OneOf(
          {Op("Max", x, Number(0)), Op("Clip", x, Number(0)), Op("Where", above, x, Number(0))}),
      .build = [=](const Match& m, PatchBuilder& b) { return b("Relu", {m[x]}); },
      .fires_on = {HardText("y = Max(zero, x)"), HardText("y = Clip(x, zero)"),
                   HardText("c = Greater(x, zero) y = Where(c, x, zero)")},
      .silent_on = {{HardText("y = Max(x, one)"), "'one' is not = 0"},
                    {HardText("y = Clip(x, zero, six)"), "is made from 3 operands"},
                    {"graph g(x: u8[5]) -> (y) { zero = const u8[] {0}  y = Max(x, zero) }", "u8"}},
  };
}

Rule FuseClip() {
  Pattern x = Operand(), lo = Scalar(), hi = Scalar();
  Pattern from_relu = Op("Min", Op("Relu", x), hi);
  Pattern outer_min = Op("Min", Op("Max", x, lo), hi);
  return {
      .name = "fuse-clip",
      .doc = "Min(Max(x, lo), hi), Max(Min(x, hi), lo), Min(Relu(x), hi) => Clip(x, lo, hi)",
      .match = OneOf({from_relu, outer_min, Op("Max", Op("Min", x, hi), lo)}),
      .when = {{"bounds in order",
                [=](const Match& m) { return !m.Has(lo) || m.scalar(lo) <= m.scalar(hi); }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto bound = [&](double v) { return b.Const(FromDoubles(m[x]->dtype(), {}, {v})); };
        return b("Clip", {m[x], bound(m.Has(lo) ? m.scalar(lo) : 0.0), bound(m.scalar(hi))});
      },
      .fires_on = {HardText("t = Max(x, zero) y = Min(t, six)"),
                   HardText("t = Relu(x) y = Min(six, t)"),
                   HardText("t = Min(x, one) y = Max(t, zero)")},
      .silent_on = {{HardText("t = Max(x, six) y = Min(t, zero)"), "bounds in order"},
                    {HardText("t = Max(x, zero) y = Min(t, x)"), "'x' is not a constant"}},
  };
}

Rule FuseHardSwish() {
  Pattern x = Operand();
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
      .fires_on =
          {"graph g(x: f32[N,5]) -> (y) { s = HardSigmoid(x) {alpha=0.16666667}  "
           "y = Mul(x, s) }",
           HardText("a = Add(x, three) c = Clip(a, zero, six) p = Mul(x, c)  y = Div(p, six)"),
           HardText("a = Add(x, three) c = Clip(a, zero, six) p = Div(c, six)  y = Mul(p, x)"),
           HardText("a = Add(three, x) c = Clip(a, zero, six) p = Mul(x, sixth) "
                    "y = Mul(p, c)")},
      .silent_on =
          {{"graph g(x: f32[N,5]) -> (y) { s = HardSigmoid(x)  y = Mul(x, s) }",
            "is not made with alpha=1/6"},
           {HardText("a = Add(x, three) c = Clip(a, zero, six) p = Mul(x, c)  y = Div(p, three)"),
            "'three' is not = 6"}},
  };
}

Rule FuseHardSigmoid() {
  Pattern x = Operand(), alpha = Scalar(), beta = Scalar();
  Pattern inner = OneOf({Op("Mul", x, alpha), Op("Div", x, alpha)});
  Pattern line = Op("Add", inner, beta);
  Pattern sixth = Scaled(Op("Add", x, Number(3)), 1.0 / 6);
  return {
      .name = "fuse-hardsigmoid",
      .doc = "Clip(x + 3, 0, 6) / 6, Clip(a x + b, 0, 1) => HardSigmoid(x) {alpha=a, beta=b}",
      .match = OneOf({Scaled(ClippedShift(x), 1.0 / 6),
                      Op("Clip", OneOf({sixth, line}), Number(0), Number(1))}),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        double a = 1.0 / 6, c = 0.5;
        if (m.Has(line)) {
          a = m.choice(inner) == 0 ? m.scalar(alpha) : 1 / m.scalar(alpha);
          c = m.scalar(beta);
        }
        return b("HardSigmoid", {m[x]},
                 {{"alpha", static_cast<float>(a)}, {"beta", static_cast<float>(c)}});
      },
      .fires_on = {HardText("a = Add(x, three) c = Clip(a, zero, six) y = Div(c, six)"),
                   HardText("a = Add(x, three) c = Clip(a, zero, six) y = Mul(sixth, c)"),
                   R"(graph g(x: f32[N,5]) -> (y) { k = const f32[] {0.2}  h = const f32[] {0.5}
                     zero = const f32[] {0}  one = const f32[] {1}  p = Mul(x, k)
                     s = Add(p, h)  y = Clip(s, zero, one) })",
                   R"(graph g(x: f32[N,5]) -> (y) { k = const f32[] {6}  h = const f32[] {3}
                     zero = const f32[] {0}  one = const f32[] {1}  s = Add(x, h)
                     p = Div(s, k)  y = Clip(p, zero, one) })"},
      .silent_on = {{HardText("a = Add(x, three) c = Clip(a, zero, six) y = Div(six, c)"),
                     "is a constant, not a Clip"},
                    {R"(graph g(x: f32[N,5]) -> (y) { k = const f32[5] ~1  h = const f32[] {0.5}
                       zero = const f32[] {0}  one = const f32[] {1}  p = Mul(x, k)
                       s = Add(p, h)  y = Clip(s, zero, one) })",
                     "'k' is not one number"}},
  };
}

}  // namespace infer
