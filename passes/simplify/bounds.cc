/// Bounds upon bounds, and what is done twice.
#include <algorithm>

#include "lib/support/strings.h"
#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

/// A Clip without the bounds that do nothing; x itself where there is none. Integers have no
/// infinity: their type's ends stand for it.
Result<Value*> Clipped(PatchBuilder& b, Value* x, const Clamp& bounds) {
  const auto bound = [&](double v) -> Value* {
    return std::isinf(v) ? nullptr : b.Const(FromDoubles(x->dtype(), {}, {v}));
  };
  Value *lo = bound(bounds.low), *hi = bound(bounds.high);
  if (!lo && !hi) return x;
  if (lo && bounds.low == 0 && !hi && IsFloat(x->dtype())) return b("Relu", {x});
  return b("Clip", {x, lo, hi});
}

/// min(max(v, lo), hi): how Clip is defined where lo > hi.
double HeldWithin(const Clamp& b, double v) { return std::min(std::max(v, b.low), b.high); }

/// One bounding operator with known bounds.
struct BoundPattern {
  Pattern x, lo = Scalar().OrOmitted(), hi = Scalar().OrOmitted();
  Pattern max = Scalar(), min = Scalar();
  Pattern node;
  explicit BoundPattern(const Pattern& of) : x(of) {
    node = OneOf({Op("Clip", x, lo, hi), Op("Relu", x), Op("Max", {x, max}), Op("Min", {x, min})});
  }
  Clamp Of(const Match& m) const {
    Clamp b;
    switch (m.choice(node)) {
      case 0:
        if (m.Has(lo)) b.low = m.scalar(lo);
        if (m.Has(hi)) b.high = m.scalar(hi);
        break;
      case 1: b.low = 0; break;
      case 2: b.low = m.scalar(max); break;
      default: b.high = m.scalar(min); break;
    }
    return b;
  }
};

}  // namespace

Rule MergeBounds() {
  Pattern x = Any();
  const BoundPattern inner(x), outer(inner.node);
  return {
      .name = "merge-bounds",
      .doc = "Clip|Relu|Max|Min with a number of Clip|Relu|Max|Min(x) => Clip(x) or Relu(x)",
      .match = outer.node,
      .when = {{"numbers that a double holds",
                [=](const Match& m) {
                  return m.root()->dtype() != DType::kI64 && m.root()->dtype() != DType::kU64;
                }},
               {"bounds in order",
                [=](const Match& m) {
                  const Clamp a = inner.Of(m), b = outer.Of(m);
                  return a.low <= a.high && b.low <= b.high;
                }}},
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Clamp first = inner.Of(m), then = outer.Of(m);
        return Clipped(b, m[x], {HeldWithin(then, first.low), HeldWithin(then, first.high)});
      },
      .fires_on =
          {"graph g(x: f32[9]) -> (y) { h = const f32[] {1}  t = Relu(x)  y = Clip(t, _, h) }",
           "graph g(x: f32[9]) -> (y) { l = const f32[] {0.25}  t = Relu(x)  y = Clip(t, l) }",
           "graph g(x: f32[9]) -> (y) { t = Relu(x)  y = Relu(t) }",
           R"(graph g(x: f32[9]) -> (y) { l = const f32[1] {-1}  h = const f32[1] {0.5}
              t = Max(x, l)  y = Min(t, h) })",
           R"(graph g(x: i32[9]) -> (y) { l = const i32[] {1}  h = const i32[] {2}
              t = Min(x, h)  y = Max(l, t) })",
           R"(graph g(x: f32[9]) -> (y) { l = const f32[] {-1}  h = const f32[] {0.5}
              k = const f32[] {-0.5}  t = Clip(x, l, h)  y = Clip(t, k, _) })"},
      .silent_on = {{R"(graph g(x: f32[9]) -> (y, t) { l = const f32[] {0.25}  t = Relu(x)
                       y = Clip(t, l) })",
                     "'t' has other uses"},
                    {"graph g(x: f32[9], l: f32[]) -> (y) { t = Relu(x)  y = Clip(t, l) }",
                     "'l' is not a constant"},
                    {R"(graph g(x: i64[9]) -> (y) { l = const i64[] {1}  h = const i64[] {2}
                       t = Min(x, h)  y = Max(l, t) })",
                     "numbers that a double holds"},
                    {R"(graph g(x: f32[9]) -> (y) { l = const f32[] {1}  h = const f32[] {-1}
                       t = Clip(x, l, h)  y = Relu(t) })",
                     "bounds in order"}},
  };
}

Rule RemoveRepeated() {
  std::vector<Pattern> twice;
  twice.push_back(Op("Floor|Ceil|Round", Op("Floor|Ceil|Round", Any()).Shared()));
  twice.push_back(Op("Sign", Op("Sign", Any()).Shared()));
  twice.push_back(
      Op("Abs|Relu",
         Op("Abs|Relu|Sigmoid|HardSigmoid|Exp|Sqrt|Softplus", Any()).MoreInputs().Shared()));
  return {
      .name = "remove-repeated",
      .doc = "f(f(x)) => f(x), f = Floor, Round, Sign, ...; Abs or Relu of what is never negative",
      .match = OneOf(std::move(twice)),
      .build = [](const Match& m, PatchBuilder&) -> Result<Value*> {
        return m.root()->producer()->input(0);
      },
      .fires_on = {"graph g(x: f32[9]) -> (y) { t = Relu(x)  y = Relu(t) }",
                   "graph g(x: f32[9]) -> (y, t) { t = Sigmoid(x)  y = Abs(t) }",
                   "graph g(x: f32[9]) -> (y) { t = Floor(x)  y = Round(t) }",
                   "graph g(x: f32[9]) -> (y) { t = Sign(x)  y = Sign(t) }"},
      .silent_on = {{"graph g(x: f32[9]) -> (y) { t = Tanh(x)  y = Relu(t) }",
                     "'t' is a Tanh, not a Abs"},
                    {"graph g(x: f32[9]) -> (y) { t = Sign(x)  y = Floor(t) }",
                     "'t' is a Sign, not a Floor"}},
  };
}

}  // namespace infer
