/// ScatterElements, ScatterND, TensorScatter.
#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

std::string X23(std::string_view rest) {
  return Cat("x = const i32[2,3] {1, 2, 3, 4, 5, 6} ", rest);
}

TEST(ScatterOps, Values) {
  CheckValues({
      {X23("i = const i64[1,2] {1, -2} u = const i32[1,2] {9, 8} y = ScatterElements(x, i, u)"),
       "i32[2,3] {1, 8, 3, 9, 5, 6}"},
      {X23(R"(i = const i64[1,2] {0, 0} u = const i32[1,2] {9, 8}
              y = ScatterElements(x, i, u) {axis=1, reduction="add"})"),
       "i32[2,3] {18, 2, 3, 4, 5, 6}"},
      {X23(R"(i = const i64[1,2] {1, 1} u = const i32[1,2] {9, 3}
              y = ScatterElements(x, i, u) {reduction="min"})"),
       "i32[2,3] {1, 2, 3, 4, 3, 6}"},
      {X23("i = const i64[1,1] {2} u = const i32[1,1] {9} y = ScatterElements(x, i, u)"),
       "out of range"},
      {X23("i = const i64[1,2] {0, 0} u = const i32[2,1] {9, 8} y = ScatterElements(x, i, u)"),
       "contradict"},
      {R"(x = const f16[2] {1, 2} i = const i64[2] {0, 0} u = const f16[2] {0.5, 4}
          y = ScatterElements(x, i, u) {reduction="mul"})",
       "f16[2] {2, 2}"},
      {R"(x = const str[2] {"a", "b"} i = const i64[1] {1} u = const str[1] {"c"}
          y = ScatterElements(x, i, u))",
       R"(str[2] {"a", "c"})"},
      {X23("i = const i64[1,1] {-1} u = const i32[1,3] {7, 8, 9} y = ScatterND(x, i, u)"),
       "i32[2,3] {1, 2, 3, 7, 8, 9}"},
      {X23(R"(i = const i64[2,2] {0, 0, 0, 0} u = const i32[2] {7, 8}
              y = ScatterND(x, i, u) {reduction="max"})"),
       "i32[2,3] {8, 2, 3, 4, 5, 6}"},
      {X23("i = const i64[1,2] {0, 3} u = const i32[1] {7} y = ScatterND(x, i, u)"),
       "out of range"},
      {X23("i = const i64[1,1] {0} u = const i32[1] {7} y = ScatterND(x, i, u)"), "do not fit"},
      {R"(x = const i8[2,3,1] {1, 2, 3, 4, 5, 6} u = const i8[2,2,1] {7, 8, 9, 10}
          w = const i64[2] {1, 2} y = TensorScatter(x, u, w) {mode="circular"})",
       "i8[2,3,1] {1, 7, 8, 10, 5, 9}"},
      {R"(x = const i8[1,3,1] {1, 2, 3} u = const i8[1,2,1] {7, 8}
          w = const i64[1] {2} y = TensorScatter(x, u, w))",
       "out of range"},
  });
}

TEST(ScatterOps, EditedShapesStayKnown) {
  CheckTypes({
      {R"(graph g(x: f32[N,3]) -> (y) { s = Shape(x)
          i = const i64[1,1] {1} u = const i64[1] {7} y = ScatterND(s, i, u) })",
       "i64[2] = {N, 7}"},
  });
}

}  // namespace
}  // namespace infer
