/// Pad, CenterCropPad, Resize.
#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

std::string Pad(std::string_view pads, std::string_view mode) {
  return ValuesOf(Cat("graph g() -> (y) { x = const i16[3] {1, 2, 3} p = const i64[2] {", pads,
                      "} y = Pad(x, p) {mode=\"", mode, "\"} }"));
}

TEST(PadOps, Modes) {
  EXPECT_EQ(Pad("2, 1", "constant"), "i16[6] {0, 0, 1, 2, 3, 0}");
  EXPECT_EQ(Pad("-1, 1", "constant"), "i16[3] {2, 3, 0}");
  EXPECT_EQ(Pad("2, 1", "edge"), "i16[6] {1, 1, 1, 2, 3, 3}");
  EXPECT_EQ(Pad("2, 5", "reflect"), "i16[10] {3, 2, 1, 2, 3, 2, 1, 2, 3, 2}");
  EXPECT_EQ(Pad("2, 4", "wrap"), "i16[9] {2, 3, 1, 2, 3, 1, 2, 3, 1}");
  EXPECT_EQ(Pad("1, -1", "wrap"), "i16[3] {2, 1, 2}");
  EXPECT_THAT(Pad("-2, -2", "constant"), ::testing::HasSubstr("more than axis 0"));
  EXPECT_THAT(Pad("1, 1", "mirror"), ::testing::HasSubstr("no mode"));
  EXPECT_THAT(Pad("9223372036854775807, 0", "edge"), ::testing::HasSubstr("Pad"));
}

TEST(PadOps, Values) {
  CheckValues({
      {R"(x = const f32[1,2] {1, 2} p = const i64[2] {1, 0} v = const f32[] {5}
          a = const i64[1] {-2} y = Pad(x, p, v, a))",
       "f32[2,2] {5, 5, 1, 2}"},
      {R"(x = const str[1] {"a"} p = const i64[2] {0, 1} y = Pad(x, p))", R"(str[2] {"a", ""})"},
      {"x = const u4[3] {1, 2, 3} p = const i64[2] {1, 1} y = Pad(x, p) {mode=\"edge\"}",
       "u4[5] {1, 1, 2, 3, 3}"},
      {"x = const f32[0] {} p = const i64[2] {1, 1} y = Pad(x, p) {mode=\"edge\"}", "empty"},
      {"x = const i32[5] {1, 2, 3, 4, 5} s = const i64[1] {2} y = CenterCropPad(x, s)",
       "i32[2] {2, 3}"},
      {"x = const i32[2] {1, 2} s = const i64[1] {5} y = CenterCropPad(x, s)",
       "i32[5] {0, 1, 2, 0, 0}"},
  });
  CheckTypes({
      {"graph g(x: f32[N,3]) -> (y) { p = const i64[4] {0, 1, 2, 1} y = Pad(x, p) }", "f32[N+2,5]"},
      {"graph g(x: f32[N,3], p: i64[4]) -> (y) { y = Pad(x, p) }", "f32[?,?]"},
      {R"(graph g(x: f32[N,3]) -> (y) { s = const i64[1] {7}
          y = CenterCropPad(x, s) {axes=[1]} })",
       "f32[N,7]"},
  });
}

std::string Resize(std::string_view scale, std::string_view attrs) {
  return ValuesOf(Cat("graph g() -> (y) { x = const f32[1,4] {1, 2, 4, 8} s = const f32[2] {1, ",
                      scale, "} y = Resize(x, _, s) {", attrs, "} }"));
}

TEST(ResizeOps, Nearest) {
  EXPECT_EQ(Resize("2", R"(mode="nearest")"), "f32[1,8] {1, 1, 2, 2, 4, 4, 8, 8}");
  EXPECT_EQ(Resize("0.5", R"(coordinate_transformation_mode="asymmetric", nearest_mode="floor")"),
            "f32[1,2] {1, 4}");
  EXPECT_EQ(Resize("0.5", R"(nearest_mode="ceil")"), "f32[1,2] {2, 8}");
  EXPECT_EQ(Resize("0.5", R"(nearest_mode="round_prefer_ceil")"), "f32[1,2] {2, 8}");
  EXPECT_EQ(Resize("0.5", R"(nearest_mode="round_prefer_floor")"), "f32[1,2] {1, 4}");
  EXPECT_THAT(Resize("0", ""), ::testing::HasSubstr("not a positive number"));
  EXPECT_THAT(Resize("2", R"(mode="spline")"), ::testing::HasSubstr("cannot be 'spline'"));
}

TEST(ResizeOps, LinearAndCubic) {
  EXPECT_EQ(Resize("2", R"(mode="linear", coordinate_transformation_mode="asymmetric")"),
            "f32[1,8] {1, 1.5, 2, 3, 4, 6, 8, 8}");
  EXPECT_EQ(Resize("2", R"(mode="linear")"), "f32[1,8] {1, 1.25, 1.75, 2.5, 3.5, 5, 7, 8}");
  EXPECT_EQ(Resize("0.5", R"(mode="linear", antialias=1)"), "f32[1,2] {1.75, 5.75}");
  // A cubic keeps a line straight, and weights 1/2 apart are (-a, 4-a, 4-a, -a)/8 of Keys' kernel.
  EXPECT_EQ(ValuesOf(R"(graph g() -> (y) { x = const f64[4] {0, 0, 8, 8} s = const f32[1] {2}
              y = Resize(x, _, s) {mode="cubic", coordinate_transformation_mode="asymmetric"} })"),
            "f64[8] {0, -0.75, 0, 4, 8, 8.75, 8, 8}");
}

TEST(ResizeOps, SizesAndRegions) {
  CheckValues({
      {R"(x = const i32[2,4] {1, 2, 3, 4, 5, 6, 7, 8} z = const i64[2] {4, 4}
          y = Resize(x, _, _, z) {keep_aspect_ratio_policy="not_larger"})",
       "i32[2,4] {1, 2, 3, 4, 5, 6, 7, 8}"},
      {R"(x = const i32[2,2] {1, 2, 3, 4} z = const i64[1] {1}
          y = Resize(x, _, _, z) {axes=[-1], nearest_mode="floor"})",
       "i32[2,1] {1, 3}"},
      {R"(x = const f32[4] {1, 2, 3, 4} r = const f32[2] {0.5, 1.5} z = const i64[1] {3}
          y = Resize(x, r, _, z) {mode="linear", extrapolation_value=9.0,
                                  coordinate_transformation_mode="tf_crop_and_resize"})",
       "f32[3] {2.5, 4, 9}"},
      {"x = const f32[4] {1, 2, 3, 4} y = Resize(x)", "either scales or sizes"},
  });
  CheckTypes({
      {R"(graph g(x: f32[N,C,H,W]) -> (y) { s = const f32[4] {1, 1, 2, 0.5}
          y = Resize(x, _, s) })",
       "f32[N,C,2*H,floor((W)/2)]"},
      {R"(graph g(x: f32[1,3,H,W], t: f32[1,1,P,Q]) -> (y) { s = Shape(x) u = Shape(t)
          a = const i64[1] {0} two = const i64[1] {2} four = const i64[1] {4}
          head = Slice(s, a, two, a) tail = Slice(u, two, four, a)
          z = Concat(head, tail) {axis=0} y = Resize(x, _, _, z) })",
       "f32[1,3,P,Q]"},
  });
}

}  // namespace
}  // namespace infer
