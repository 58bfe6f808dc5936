/// TopK, ArgMax, ArgMin, ReduceMax, ReduceMin, Unique, NonZero, CumSum, CumProd.
#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

TEST(SortOps, TopK) {
  const auto top = [](std::string_view attrs) {
    return ValuesOf(
        Cat("graph g() -> (v, i) { x = const f32[5] {3, nan, 1, 3, -2}"
            " k = const i64[1] {3} v, i = TopK(x, k) {",
            attrs, "} }"));
  };
  EXPECT_EQ(top("largest=1"), "f32[3] {nan, 3, 3}; i64[3] {1, 0, 3}");
  EXPECT_EQ(top("largest=0"), "f32[3] {-2, 1, 3}; i64[3] {4, 2, 0}");
  CheckValues({
      {"x = const u8[2,2] {1, 2, 4, 3} k = const i64[1] {1} v, y = TopK(x, k) {axis=0}",
       "i64[1,2] {1, 1}"},
      {"x = const u8[2] {1, 2} k = const i64[1] {3} v, y = TopK(x, k)", "K is 3"},
      {"x = const i64[2] {9007199254740993, 9007199254740992} k = const i64[1] {1}"
       " v, y = TopK(x, k)",
       "i64[1] {0}"},
  });
  CheckTypes({
      {"graph g(x: f32[N,8], k: i64[1]) -> (v, i) { v, i = TopK(x, k) }", "f32[N,?]; i64[N,?]"},
  });
}

TEST(SortOps, ExtremaOfNothing) {
  const auto of = [](std::string_view op, std::string_view type) {
    return ValuesOf(Cat("graph g() -> (y) { x = const ", type,
                        "[0,1] {} a = const i64[1] {0} y = ", op, "(x, a) {keepdims=0} }"));
  };
  EXPECT_EQ(of("ReduceMax", "bool"), "bool[1] {0}");
  EXPECT_EQ(of("ReduceMin", "bool"), "bool[1] {1}");
  EXPECT_EQ(of("ReduceMax", "i8"), "i8[1] {-128}");
  EXPECT_EQ(of("ReduceMin", "u8"), "u8[1] {255}");
  EXPECT_EQ(of("ReduceMax", "i32"), "i32[1] {-2147483648}");
  EXPECT_EQ(of("ReduceMin", "i64"), "i64[1] {9223372036854775807}");
  EXPECT_EQ(of("ReduceMax", "f16"), "f16[1] {-inf}");
}

TEST(SortOps, ArgMaxAndMin) {
  CheckValues({
      {"x = const f32[2,3] {1, 5, 5, 9, 2, 9} y = ArgMax(x) {axis=1}", "i64[2,1] {1, 0}"},
      {"x = const f32[2,3] {1, 5, 5, 9, 2, 9} y = ArgMax(x) {axis=-1, select_last_index=1}",
       "i64[2,1] {2, 2}"},
      {"x = const i8[2,3] {1, 5, 5, 9, 2, 9} y = ArgMin(x) {keepdims=0}", "i64[3] {0, 1, 0}"},
      {"x = const f32[2,0] {} y = ArgMax(x) {axis=1}", "empty"},
      {"x = const f32[0,2] {} y = ArgMax(x) {axis=1}", "i64[0,1] {}"},
  });
}

TEST(SortOps, Unique) {
  const auto unique = [](std::string_view attrs) {
    return ValuesOf(
        Cat("graph g() -> (y, i, v, c) { x = const i32[6] {2, 1, 1, 3, 4, 3}"
            " y, i, v, c = Unique(x) {",
            attrs, "} }"));
  };
  EXPECT_EQ(unique("sorted=1"),
            "i32[4] {1, 2, 3, 4}; i64[4] {1, 0, 3, 4}; i64[6] {1, 0, 0, 2, 3, 2}; "
            "i64[4] {2, 1, 2, 1}");
  EXPECT_EQ(unique("sorted=0"),
            "i32[4] {2, 1, 3, 4}; i64[4] {0, 1, 3, 4}; i64[6] {0, 1, 1, 2, 3, 2}; "
            "i64[4] {1, 2, 2, 1}");
  CheckValues({
      {"x = const i32[3,2] {5, 6, 1, 2, 5, 6} y = Unique(x) {axis=0}", "i32[2,2] {1, 2, 5, 6}"},
      {R"(x = const str[3] {"b", "a", "b"} y = Unique(x))", R"(str[2] {"a", "b"})"},
      {"x = const f32[0] {} y = Unique(x)", "f32[0] {}"},
  });
}

TEST(SortOps, NonZeroAndCumulative) {
  CheckValues({
      {"x = const bool[2,2] {1, 0, 1, 1} y = NonZero(x)", "i64[2,3] {0, 1, 1, 0, 0, 1}"},
      {"x = const f32[] {2} y = NonZero(x)", "i64[0,1] {}"},
      {"x = const i32[2,2] {1, 2, 3, 4} a = const i64[] {0} y = CumSum(x, a)",
       "i32[2,2] {1, 2, 4, 6}"},
      {"x = const f32[3] {1, 2, 3} a = const i32[] {-1} y = CumSum(x, a) {exclusive=1, reverse=1}",
       "f32[3] {5, 3, 0}"},
      {"x = const f32[3] {1, 2, 3} a = const i32[] {0} y = CumProd(x, a) {exclusive=1}",
       "f32[3] {1, 1, 2}"},
      {"x = const f32[3] {1, 2, 3} a = const i32[] {1} y = CumSum(x, a)", "out of range"},
      {"x = const f32[0] {} a = const i32[] {0} y = CumSum(x, a)", "f32[0] {}"},
  });
}

}  // namespace
}  // namespace infer
