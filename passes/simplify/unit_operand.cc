/// Arithmetic with a constant that changes nothing: a number or a whole tensor of it. A constant
/// that broadcasts x to a larger shape is refused by the type check.
#include "passes/simplify/simplify.h"

namespace infer {

Rule RemoveAddZero() {
  Pattern x = Any();
  return {
      .name = "remove-add-zero",
      .doc = "x + 0, x - 0 => x",
      .match = OneOf({Op("Add", x, Number(0)), Op("Sub", x, Number(0))}),
      .quiet = true,
      .build = ReplaceBy(x),
      .fires_on = {"graph g(x: f32[2,3]) -> (y) { z = const f32[3] {0, 0, 0}  y = Add(z, x) }",
                   "graph g(x: i64[N]) -> (y) { z = const i64[] {0}  y = Sub(x, z) }"},
      .silent_on = {{"graph g(x: f32[2,3]) -> (y) { z = const f32[3] {0, 1, 0}  y = Add(z, x) }",
                     "'z' is not = 0"},
                    {"graph g(x: f32[2,3]) -> (y) { z = const f32[2,3] ~1  y = Sub(z, x) }",
                     "is not a constant"},
                    {"graph g(x: f32[3]) -> (y) { z = const f32[1,1] {0}  y = Add(z, x) }",
                     "the result would be f32[3]"}},
  };
}

Rule RemoveMulOne() {
  Pattern x = Any();
  return {
      .name = "remove-mul-one",
      .doc = "x * 1, x / 1 => x",
      .match = OneOf({Op("Mul", x, Number(1)), Op("Div", x, Number(1))}),
      .quiet = true,
      .build = ReplaceBy(x),
      .fires_on = {"graph g(x: f32[2,3]) -> (y) { c = const f32[3] {1, 1, 1}  y = Mul(c, x) }",
                   "graph g(x: f16[N]) -> (y) { c = const f16[] {1}  y = Div(x, c) }"},
      .silent_on = {{"graph g(x: f32[2,3]) -> (y) { c = const f32[] {1.00001}  y = Mul(c, x) }",
                     "'c' is not = 1, it is 1.00001"},
                    {"graph g(x: f32[1]) -> (y) { c = const f32[3] {1, 1, 1}  y = Mul(c, x) }",
                     "the result would be f32[1]"}},
  };
}

Rule RemovePowOne() {
  Pattern x = Any();
  return {
      .name = "remove-pow-one",
      .doc = "x ^ 1 => x",
      .match = Op("Pow", x, Number(1)),
      .quiet = true,
      .build = ReplaceBy(x),
      .fires_on = {"graph g(x: f32[2,3]) -> (y) { c = const f32[] {1}  y = Pow(x, c) }"},
      .silent_on = {{"graph g(x: f32[2,3]) -> (y) { c = const f32[] {2}  y = Pow(x, c) }",
                     "'c' is not = 1"}},
  };
}

}  // namespace infer
