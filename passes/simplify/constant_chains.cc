/// x * c1 * c2 and x + c1 + c2: the constants are combined before the run.
#include <cmath>

#include "lib/support/strings.h"
#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

bool IsPlainFloat(const Value& v) {
  return v.dtype() == DType::kF32 || v.dtype() == DType::kF64 || v.dtype() == DType::kF16 ||
         v.dtype() == DType::kBF16;
}

/// One more node's constant must not become a tensor: a row and a column would be a matrix.
bool IsSmall(const Tensor& combined, const Tensor& a, const Tensor& b) {
  return combined.num_elements() <= std::max(a.num_elements(), b.num_elements());
}

/// Numbers that lose no digits to the ends of the type's range.
bool IsNormal(const Tensor& t) {
  const double least = t.dtype() == DType::kF16   ? 0x1p-14
                       : t.dtype() == DType::kF64 ? 0x1p-1022
                                                  : 0x1p-126;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double v = std::abs(t.At(i));
    if (!std::isfinite(v) || v < least) return false;
  }
  return true;
}

struct Link {
  Pattern x, c = Constant(), up, down, node;
  /// `up` for c put in (Mul, Add), `down` for c taken out (Div, Sub).
  Link(const Pattern& of, std::string_view in, std::string_view out) : x(of) {
    up = Op(in, x, c);
    down = Op(out, x, c);
    node = OneOf({up, down});
  }
  bool IsUp(const Match& m) const { return m.choice(node) == 0; }
};

}  // namespace

Rule MergeConstantFactors() {
  Pattern x = Any().Where("of a floating point type",
                          [](const Value& v) { return v.type().is_tensor() && IsPlainFloat(v); });
  const Link inner(x, "Mul", "Div"), outer(inner.node, "Mul", "Div");
  return {
      .name = "merge-constant-factors",
      .doc = "x * c1 * c2, x / c1 * c2, x * c1 / c2 => x * c; x / c1 / c2 => x / c",
      .match = outer.node,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Tensor &first = m.tensor(inner.c), &then = m.tensor(outer.c);
        const bool up1 = inner.IsUp(m), up2 = outer.IsUp(m);
        const auto times = [](double p, double q) { return p * q; };
        const auto over = [](double p, double q) { return p / q; };
        // The factor, or, where both divide, the divisor.
        const auto factor = up1 == up2 ? Combine(first, then, times)
                            : up1      ? Combine(first, then, over)
                                       : Combine(then, first, over);
        if (!factor || !IsSmall(*factor, first, then))
          return InvalidModel("needs constants that combine to one of their shapes");
        if (!IsNormal(*factor) || !IsNormal(first) || !IsNormal(then))
          return InvalidModel("needs a product within the range of the type");
        return b(up1 || up2 ? "Mul" : "Div", {m[x], b.Const(*factor)});
      },
      .fires_on = {R"(graph g(x: f32[2,3]) -> (y) { c = const f32[] {0.5}  d = const f32[3] {1,2,3}
                     t = Mul(x, c)  y = Mul(d, t) })",
                   R"(graph g(x: f32[2,3]) -> (y) { c = const f32[] {0.5}  d = const f32[] {3}
                     t = Mul(c, x)  y = Div(t, d) })",
                   R"(graph g(x: f32[N,3]) -> (y) { c = const f32[] {7}  d = const f32[] {3}
                     t = Div(x, c)  y = Mul(t, d) })",
                   R"(graph g(x: f32[N,3]) -> (y) { c = const f32[] {7}  d = const f32[] {3}
                     t = Div(x, c)  y = Div(t, d) })"},
      .silent_on = {{R"(graph g(x: i32[3]) -> (y) { c = const i32[] {7}  d = const i32[] {3}
                       t = Div(x, c)  y = Mul(t, d) })",
                     "of a floating point type"},
                    {R"(graph g(x: f32[2,3]) -> (y) { c = const f32[2,1] {7,8}
                       d = const f32[3] {1,2,3}  t = Mul(x, c)  y = Mul(t, d) })",
                     "constants that combine to one of their shapes"},
                    {R"(graph g(x: f32[3]) -> (y) { c = const f32[] {1e-30}  d = const f32[] {1e-30}
                       t = Mul(x, c)  y = Mul(t, d) })",
                     "a product within the range"},
                    {R"(graph g(x: f32[3]) -> (y, t) { c = const f32[] {2}  d = const f32[] {3}
                       t = Mul(x, c)  y = Mul(t, d) })",
                     "'t' has other uses"}},
  };
}

Rule MergeConstantTerms() {
  Pattern x = Any().Where("of a floating point type",
                          [](const Value& v) { return v.type().is_tensor() && IsPlainFloat(v); });
  const Link inner(x, "Add", "Sub"), outer(inner.node, "Add", "Sub");
  return {
      .name = "merge-constant-terms",
      .doc = "x + c1 + c2, x + c1 - c2, ... => x + c",
      .match = outer.node,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Tensor &first = m.tensor(inner.c), &then = m.tensor(outer.c);
        const bool up1 = inner.IsUp(m), up2 = outer.IsUp(m);
        const auto plus = [](double p, double q) { return p + q; };
        const auto minus = [](double p, double q) { return p - q; };
        // The term, or, where both are taken away, what is.
        const auto term = up1 == up2 ? Combine(first, then, plus)
                          : up1      ? Combine(first, then, minus)
                                     : Combine(then, first, minus);
        if (!term || !IsSmall(*term, first, then))
          return InvalidModel("needs constants that combine to one of their shapes");
        // (x + 2^23) - 2^23 rounds x: what cancels may be there for that.
        const auto larger = Combine(
            first, then, [](double p, double q) { return std::max(std::abs(p), std::abs(q)); });
        for (int64_t i = 0; i < term->num_elements(); ++i)
          if (!(std::abs(term->At(i)) >= larger->At(i) / 2) || !std::isfinite(term->At(i)))
            return InvalidModel("needs constants that do not cancel");
        return b(up1 || up2 ? "Add" : "Sub", {m[x], b.Const(*term)});
      },
      .fires_on = {R"(graph g(x: f32[2,3]) -> (y) { c = const f32[] {0.5}  d = const f32[3] {1,2,3}
                     t = Add(x, c)  y = Add(d, t) })",
                   R"(graph g(x: f32[N,3]) -> (y) { c = const f32[] {0.5}  d = const f32[] {3}
                     t = Sub(x, c)  y = Add(t, d) })",
                   R"(graph g(x: f32[N,3]) -> (y) { c = const f32[] {0.5}  d = const f32[] {3}
                     t = Sub(x, c)  y = Sub(t, d) })"},
      .silent_on = {{R"(graph g(x: i32[3]) -> (y) { c = const i32[] {7}  d = const i32[] {3}
                       t = Add(x, c)  y = Add(t, d) })",
                     "of a floating point type"},
                    {R"(graph g(x: f32[3]) -> (y) { c = const f32[] {8388608}
                       t = Add(x, c)  y = Sub(t, c) })",
                     "constants that do not cancel"},
                    {R"(graph g(x: f32[2,3]) -> (y) { c = const f32[2,1] {7,8}
                       d = const f32[3] {1,2,3}  t = Add(x, c)  y = Add(t, d) })",
                     "constants that combine to one of their shapes"}},
  };
}

/// The other way, x * (1/s) of a computed s is no x / s: every fourth quotient of f32 has another
/// last bit, and 0 * (1/s) is NaN where s is subnormal.
Rule DivideByMultiplying() {
  Pattern x = Any(), c = Constant();
  Pattern root = Op("Div", x, c);
  return {
      .name = "divide-by-multiplying",
      .doc = "x / c => x * (1/c), where c is a power of two",
      .match = root,
      .when = {{"powers of two",
                [=](const Match& m) {
                  const Tensor& t = m.tensor(c);
                  if (!IsPlainFloat(*m[c])) return false;
                  for (int64_t i = 0; i < t.num_elements(); ++i) {
                    int exponent = 0;
                    const double v = std::abs(t.At(i));
                    // f16 has the fewest: its inverse must be normal, too.
                    if (!std::isfinite(v) || std::frexp(v, &exponent) != 0.5) return false;
                    if (std::abs(exponent) > 12) return false;
                  }
                  return true;
                }}},
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        std::vector<double> inverse = ToDoubles(m.tensor(c));
        for (double& v : inverse) v = 1 / v;
        return b("Mul", {m[x], b.Const(FromDoubles(m[c]->dtype(), m.tensor(c).dims(), inverse))});
      },
      .fires_on = {"graph g(x: f32[N,3]) -> (y) { c = const f32[] {8}  y = Div(x, c) }",
                   "graph g(x: f32[2,3]) -> (y) { c = const f32[3] {-2,0.5,1}  y = Div(x, c) }"},
      .silent_on = {{"graph g(x: f32[3]) -> (y) { c = const f32[] {3}  y = Div(x, c) }",
                     "powers of two"},
                    {"graph g(x: i32[3]) -> (y) { c = const i32[] {2}  y = Div(x, c) }",
                     "powers of two"}},
  };
}

}  // namespace infer
