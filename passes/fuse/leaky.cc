/// Activations with a slope below zero, written out.
#include "passes/fuse/formulas.h"
#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"

namespace infer {

Rule FuseLeakyRelu() {
  Pattern x = Operand(), slope = Scalar(), divided = Op("Div", x, slope);
  Pattern below = OneOf({Op("Mul", x, slope), divided});
  Pattern max = Op("Max", x, below);
  Pattern above = Op("Greater|GreaterOrEqual", x, Number(0));
  Pattern under = Op("Less|LessOrEqual", x, Number(0));
  const auto alpha = [=](const Match& m) {
    return m.Has(divided) ? 1 / m.scalar(slope) : m.scalar(slope);
  };
  const char* begin =
      "graph g(x: f32[N,5]) -> (y) { a = const f32[] {0.1}  zero = const f32[] {0} "
      "two = const f32[] {2}  m = Mul(x, a) ";
  const auto text = [=](const char* rest) { return std::string(begin) + rest + " }"; };
  return {
      .name = "fuse-leakyrelu",
      .doc = "Max(x, a x), Where(x > 0, x, a x) => LeakyRelu(x) {alpha=a}",
      .match = OneOf({max, Op("Where", above, x, below), Op("Where", under, below, x)}),
      .when = {{"a slope of at most 1, which is below x where x > 0",
                [=](const Match& m) { return !m.Has(max) || alpha(m) <= 1; }}},
      .build =
          [=](const Match& m, PatchBuilder& b) {
            return b("LeakyRelu", {m[x]}, {{"alpha", static_cast<float>(alpha(m))}});
          },
      .fires_on = {text("y = Max(m, x)"), text("c = Greater(x, zero) y = Where(c, x, m)"),
                   text("c = Less(x, zero) y = Where(c, m, x)"),
                   "graph g(x: f32[N,5]) -> (y) { t = const f32[] {10}  d = Div(x, t) "
                   "y = Max(x, d) }"},
      .silent_on = {{text("d = Mul(x, two) y = Max(x, d)"),
                     "a slope of at most 1, which is below x where x > 0"},
                    {text("c = Greater(x, zero) y = Where(c, m, x)"),
                     "is not the value bound before"},
                    {"graph g(x: f32[N,5], z: f32[N,5]) -> (y) { a = const f32[] {0.1} "
                     "m = Mul(z, a) y = Max(x, m) }",
                     "is not the value bound before"}},
  };
}

Rule FusePRelu() {
  Pattern x = Operand(), slope = Constant();
  Pattern part = Op("Relu", Op("Neg", x));  // max(0, -x)
  Pattern min = Op("Min", x, Number(0));
  // slope * (x - |x|) / 2
  Pattern twice = Op("Sub", x, Op("Abs", x));
  Pattern halved =
      OneOf({Scaled(Op("Mul", twice, slope), 0.5), Op("Mul", Scaled(twice, 0.5), slope)});
  Pattern positive = Op("Relu", x);
  Pattern minus = Op("Mul", part, slope);
  Pattern subtracted = OneOf({Op("Sub", positive, minus), Op("Add", positive, Op("Neg", minus)),
                              Op("Add", positive, Op("Mul", Op("Neg", part), slope))});
  Pattern added = Op("Add", positive, minus);  // with the slope negated in the file
  Pattern direct = OneOf({Op("Add", positive, Op("Mul", min, slope)), Op("Add", positive, halved)});
  const char* begin = R"(graph g(x: f32[N,3,2]) -> (y) { a = const f32[3,1] ~1
    half = const f32[] {0.5}  zero = const f32[] {0}  p = Relu(x)  n = Neg(x)  r = Relu(n) )";
  const char* small = R"(graph g(x: f32[N,3,2]) -> (y) { a = const f32[3,1] ~1
    half = const f32[] {0.5}  zero = const f32[] {0}  p = Relu(x) )";
  return {
      .name = "fuse-prelu",
      .doc =
          "Relu(x) - a * Relu(-x), Relu(x) + a * Min(x, 0), Relu(x) + a * (x - |x|) / 2 => "
          "PRelu(x, a)",
      .match = OneOf({subtracted, added, direct}),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Tensor& a = m.tensor(slope);
        if (!m.Has(added)) return b("PRelu", {m[x], m[slope]});
        std::vector<double> values = ToDoubles(a);
        for (double& v : values) v = -v;
        return b("PRelu", {m[x], b.Const(FromDoubles(a.dtype(), a.dims(), values))});
      },
      .fires_on = {std::string(begin) + "m = Mul(r, a) y = Sub(p, m) }",
                   std::string(begin) + "m = Mul(a, r) y = Add(m, p) }",
                   std::string(begin) + "q = Neg(r) m = Mul(a, q) y = Add(p, m) }",
                   std::string(small) + "q = Min(x, zero) m = Mul(q, a) y = Add(p, m) }",
                   std::string(small) +
                       "q = Abs(x) d = Sub(x, q) m = Mul(d, a) h = Mul(m, half) y = Add(p, h) }"},
      .silent_on = {{std::string(begin) + "m = Mul(r, a) y = Sub(m, p) }", "not a Relu"},
                    {R"(graph g(x: f32[1,3]) -> (y) { a = const f32[2,3] ~1  p = Relu(x)
                       n = Neg(x)  r = Relu(n)  m = Mul(r, a)  y = Sub(p, m) })",
                     "wider than [1,3]"}},
  };
}

}  // namespace infer
