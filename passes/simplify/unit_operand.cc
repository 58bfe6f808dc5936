/// Arithmetic with a constant that changes nothing: a number or a whole tensor of it. A constant
/// that broadcasts x to a larger shape is refused by the type check.
#include "passes/simplify/simplify.h"

namespace infer {

namespace {

/// Zeros in extents that the run knows, as PyTorch's baddbmm starts from.
Pattern Zeros() {
  return Op("ConstantOfShape", Any()).Shared().Where("of zeros", [](const Value& v) {
    const auto& attrs = v.producer()->attrs();
    const auto value = attrs.find("value");
    return value == attrs.end() || std::get<Tensor>(value->second).At(0) == 0;
  });
}

}  // namespace

Rule RemoveAddZero() {
  Pattern x = Any();
  return {
      .name = "remove-add-zero",
      .doc = "x + 0, x - 0 => x",
      .match = OneOf({Op("Add", x, Number(0)), Op("Sub", x, Number(0)), Op("Add", x, Zeros())}),
      .quiet = true,
      .build = ReplaceBy(x),
      .fires_on =
          {"graph g(x: f32[2,3]) -> (y) { z = const f32[3] {0, 0, 0}  y = Add(z, x) }",
           "graph g(x: i64[N]) -> (y) { z = const i64[] {0}  y = Sub(x, z) }",
           "graph g(x: f32[N,3]) -> (y) { s = Shape(x)  z = ConstantOfShape(s)  y = Add(x, z) }"},
      .silent_on = {{"graph g(x: f32[2,3]) -> (y) { z = const f32[3] {0, 1, 0}  y = Add(z, x) }",
                     "'z' is not = 0"},
                    {"graph g(x: f32[2,3]) -> (y) { z = const f32[2,3] ~1  y = Sub(z, x) }",
                     "is not a constant"},
                    {"graph g(x: f32[3]) -> (y) { z = const f32[1,1] {0}  y = Add(z, x) }",
                     "the result would be f32[3]"},
                    {R"(graph g(x: f32[3], s: i64[2]) -> (y) {
                       z = ConstantOfShape(s) {value=const f32[1] {1}}  y = Add(x, z) })",
                     "of zeros"}},
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
