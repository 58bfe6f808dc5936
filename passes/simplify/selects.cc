/// Choices that are made before the run, and negations.
#include "passes/simplify/simplify.h"

namespace infer {

Rule RemoveKnownWhere() {
  Pattern x = Any(), other = Any(), y = Any();
  return {
      .name = "remove-known-where",
      .doc = "Where(true, x, y), Where(false, y, x), Where(c, x, x) => x",
      .match = OneOf({Op("Where", Number(1), x, other), Op("Where", Number(0), other, x),
                      Op("Where", y, x, x)}),
      .quiet = true,
      .build = ReplaceBy(x),
      .fires_on = {R"(graph g(x: f32[2,3], z: f32[3]) -> (y) { c = const bool[] {1}
                     y = Where(c, x, z) })",
                   R"(graph g(x: f32[2,3], z: f32[]) -> (y) { c = const bool[3] {0, 0, 0}
                     y = Where(c, z, x) })",
                   "graph g(c: bool[3], x: f32[2,3]) -> (y) { y = Where(c, x, x) }"},
      .silent_on = {{R"(graph g(x: f32[3], z: f32[2,3]) -> (y) { c = const bool[] {1}
                       y = Where(c, x, z) })",
                     "the result would be f32[3]"},
                    {R"(graph g(x: f32[2,3], z: f32[3]) -> (y) { c = const bool[3] {1, 0, 1}
                       y = Where(c, x, z) })",
                     "is not = 1"}},
  };
}

Rule MergeNotWhere() {
  Pattern c = Any(), a = Any(), e = Any(), negated = Op("Not", c).Shared();
  return {
      .name = "merge-not-where",
      .doc = "Where(Not(c), a, b) => Where(c, b, a)",
      .match = Op("Where", negated, a, e),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        return b("Where", {m[c], m[e], m[a]});
      },
      .fires_on = {R"(graph g(c: bool[3], x: f32[2,3], z: f32[]) -> (y) { n = Not(c)
                     y = Where(n, x, z) })"},
      .silent_on = {{"graph g(c: bool[3], x: f32[2,3], z: f32[]) -> (y) { y = Where(c, x, z) }",
                     "'c' is a graph input, not a Not"}},
  };
}

Rule CancelNegations() {
  Pattern x = Any();
  return {
      .name = "cancel-negations",
      .doc = "Not(Not(x)), -(-x) => x",
      .match = OneOf({Op("Not", Op("Not", x).Shared()), Op("Neg", Op("Neg", x).Shared())}),
      .build = ReplaceBy(x),
      .fires_on = {"graph g(x: bool[3]) -> (y) { t = Not(x)  y = Not(t) }",
                   "graph g(x: f32[3]) -> (y, t) { t = Neg(x)  y = Neg(t) }"},
      .silent_on = {{"graph g(x: f32[3]) -> (y) { t = Abs(x)  y = Neg(t) }",
                     "'t' is a Abs, not a Neg"}},
  };
}

}  // namespace infer
