/// Operators of any number of operands that have one or two.
#include "passes/simplify/simplify.h"

namespace infer {

Rule RemoveSingleSum() {
  Pattern x = Any();
  return {
      .name = "remove-single-sum",
      .doc = "Sum(x), Mean(x), Max(x), Min(x) => x",
      .match = Op("Sum|Mean|Max|Min", x),
      .build = ReplaceBy(x),
      .fires_on = {"graph g(x: f32[N,3]) -> (y) { t = Relu(x)  y = Sum(t) }",
                   "graph g(x: i64[3]) -> (y) { t = Neg(x)  y = Max(t) }"},
      .silent_on = {{"graph g(x: f32[3], z: f32[3]) -> (y) { y = Max(x, z) }",
                     "made from 2 operands, the pattern has 1"}},
  };
}

Rule SumOfTwo() {
  Pattern a = Any(), b = Any();
  return {
      .name = "sum-of-two",
      .doc = "Sum(a, b) => Add(a, b), which other rules know",
      .match = Op("Sum", a, b),
      .build =
          [=](const Match& m, PatchBuilder& make) {
            return make("Add", {m[a], m[b]});
          },
      .fires_on = {"graph g(x: f32[N,3], z: f32[3]) -> (y) { y = Sum(x, z) }"},
      .silent_on = {{"graph g(x: f32[3], z: f32[3]) -> (y) { y = Sum(x, z, x) }",
                     "made from 3 operands, the pattern has 2"}},
  };
}

}  // namespace infer
