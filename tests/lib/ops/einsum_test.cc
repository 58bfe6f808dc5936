/// Einsum, Det, generators, and the operators that sample or pool regions.
#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

std::string Einsum(std::string_view equation) {
  return ValuesOf(Cat(R"(graph g() -> (y) { a = const f32[2,2] {1, 2, 3, 4}
      b = const f32[2,2] {5, 6, 7, 8} y = Einsum(a, b) {equation=")",
                      equation, "\"} }"));
}

TEST(EinsumOps, Values) {
  EXPECT_EQ(Einsum("ij,jk->ik"), "f32[2,2] {19, 22, 43, 50}");
  EXPECT_EQ(Einsum("ij,jk"), "f32[2,2] {19, 22, 43, 50}");
  EXPECT_EQ(Einsum("ij,ij->"), "f32[] {70}");
  EXPECT_EQ(Einsum("ii,jj->ij"), "f32[2,2] {5, 8, 20, 32}");
  EXPECT_EQ(Einsum("...i, ...i -> ..."), "f32[2] {17, 53}");
  EXPECT_EQ(Einsum("Ba,aB"), "f32[] {69}");
  for (std::string_view bad : {"ij->ij", "ijk,ij->i", "ij,jk->z", "ij,jk->ii", "i.j,jk->ik", "i"})
    EXPECT_THAT(Einsum(bad),
                ::testing::AnyOf(::testing::HasSubstr("equation"), ::testing::HasSubstr("term")))
        << bad;
  CheckTypes({
      {R"(graph g(q: f32[B,H,T,8], k: f32[B,H,S,8]) -> (y) {
          y = Einsum(q, k) {equation="bhtd,bhsd->bhts"} })",
       "f32[B,H,T,S]"},
      {R"(graph g(q: f32[B,4,T], k: f32[1,T,6]) -> (y) {
          y = Einsum(q, k) {equation="...ij,...jk->...ik"} })",
       "f32[B,4,6]"},
  });
}

TEST(EinsumOps, Det) {
  CheckValues({
      {"x = const f64[2,2] {1, 2, 3, 4} y = Det(x)", "f64[] {-2}"},
      {"x = const f32[1,2,2] {0, 1, 1, 0} y = Det(x)", "f32[1] {-1}"},
      {"x = const f32[2,2] {1, 2, 2, 4} y = Det(x)", "f32[] {0}"},
      {"x = const f32[2,3] {1, 2, 2, 4, 5, 6} y = Det(x)", "contradict"},
  });
}

TEST(RandomOps, SeedDecides) {
  const auto normal = [](std::string_view seed) {
    return ValuesOf(Cat("graph g() -> (y) { y = RandomNormal() {shape=[4], seed=", seed, "} }"));
  };
  EXPECT_EQ(normal("1.0"), normal("1.0"));
  EXPECT_NE(normal("1.0"), normal("2.0"));
  CheckValues({
      {"y = RandomUniform() {shape=[2], low=3.0, high=3.0}", "f32[2] {3, 3}"},
      {"y = RandomUniform() {shape=[-2]}", "shape"},
      {"p = const f32[2] {0, 1} y = Bernoulli(p) {dtype=9}", "bool[2] {0, 1}"},
      {"x = const f32[1,3] {-inf, 0, -inf} y = Multinomial(x) {sample_size=2, dtype=7}",
       "i64[1,2] {1, 1}"},
      {"x = const i32[2] {1, 2} y = RandomNormalLike(x)", "give another dtype"},
  });
}

TEST(GridOps, Values) {
  CheckValues({
      {R"(x = const f32[1,1,2,2] {1, 2, 3, 4} g = const f32[1,1,3,2] {0, 0, -1, -1, 9, 9}
          y = GridSample(x, g) {align_corners=1})",
       "f32[1,1,1,3] {2.5, 1, 0}"},
      {R"(x = const f32[1,1,2,2] {1, 2, 3, 4} g = const f32[1,1,2,2] {9, -9, nan, nan}
          y = GridSample(x, g) {mode="nearest", padding_mode="border"})",
       "f32[1,1,1,2] {2, 1}"},
      {R"(t = const f32[1,2,3] {1, 0, 0.5, 0, 1, 0} s = const i64[4] {1, 1, 1, 2}
          y = AffineGrid(t, s))",
       "f32[1,1,2,2] {0, 0, 1, 0}"},
      {R"(x = const f32[1,2,2] {1, 2, 3, 4} i = const i64[1] {3} b = const i64[1] {2}
          y = Col2Im(x, i, b))",
       "f32[1,1,3] {1, 5, 4}"},
      {R"(x = const f32[1,2,9] ~1 i = const i64[1] {3} b = const i64[1] {2}
          y = Col2Im(x, i, b))",
       "do not fit image"},
  });
}

TEST(DetectionOps, Values) {
  CheckValues({
      {R"(b = const f32[1,3,4] {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 5, 1, 6} s = const f32[1,1,3] {0.9, 0.8, 0.7}
          m = const i64[] {9} t = const f32[] {0.5} y = NonMaxSuppression(b, s, m, t))",
       "i64[2,3] {0, 0, 0, 0, 0, 2}"},
      {R"(b = const f32[1,1,4] {0, 0, 1, 1} s = const f32[1,1,1] {0.9}
          y = NonMaxSuppression(b, s))",
       "i64[0,3] {}"},
      {R"(x = const f32[1,1,2,2] {1, 2, 3, 4} r = const f32[1,5] {0, 0, 0, 1, 1}
          y = MaxRoiPool(x, r) {pooled_shape=[1, 2]})",
       "f32[1,1,1,2] {3, 4}"},
      {R"(x = const f32[1,1,2,2] {1, 2, 3, 4} r = const f32[1,4] {0, 0, 2, 2} b = const i64[1] {0}
          y = RoiAlign(x, r, b) {sampling_ratio=2})",
       "f32[1,1,1,1] {2.5}"},
      {R"(x = const f32[1,1,2,2] {1, 2, 3, 4} r = const f32[1,4] {0, 0, 2, 2} b = const i64[1] {3}
          y = RoiAlign(x, r, b))",
       "no batch entry"},
      {R"(x = const f32[1,1,2,2] {1, 2, 3, 4} r = const f32[1,4] {0, 0, 2, 2} b = const i64[1] {0}
          y = RoiAlign(x, r, b) {sampling_ratio=2147483648})",
       "1 bins of 2147483648 x 2147483648 samples are more than a region can need"},
      {R"(x = const f32[1,1,2,2] {1, 2, 3, 4} r = const f32[1,4] {0, 0, 900000, 900000}
          b = const i64[1] {0} y = RoiAlign(x, r, b))",
       "samples are more than a region can need"},
  });
}

}  // namespace
}  // namespace infer
