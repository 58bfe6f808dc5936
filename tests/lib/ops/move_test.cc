/// Operators that move elements: values, inference with symbolic extents, every element type.
#include "lib/ops/move/move.h"

#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

constexpr std::string_view kX23 = "x = const i32[2,3] {1, 2, 3, 4, 5, 6} ";

std::string X23(std::string_view rest) { return Cat(kX23, rest); }

TEST(ShapeOps, Values) {
  CheckValues({
      {"x = const f32[2,3,4] ~1 y = Shape(x)", "i64[3] {2, 3, 4}"},
      {"x = const f32[2,3,4] ~1 y = Shape(x) {start=-2, end=9}", "i64[2] {3, 4}"},
      {"x = const f32[2,3,4] ~1 y = Shape(x) {start=2, end=1}", "i64[0] {}"},
      {"x = const f32[] {1} y = Shape(x)", "i64[0] {}"},
      {"x = const f32[2,0] {} y = Size(x)", "i64[] {0}"},
      {"x = const f32[2,3] ~1 y = Size(x)", "i64[] {6}"},
  });
  CheckTypes({
      {"graph g(x: f32[N,3]) -> (y) { y = Shape(x) }", "i64[2] = {N, 3}"},
      {"graph g(x: f32[N,3]) -> (y) { y = Size(x) }", "i64[] = {3*N}"},
      {"graph g(x: f32[*]) -> (y) { y = Shape(x) }", "i64[?]"},
  });
}

TEST(ReshapeOps, Reshape) {
  CheckValues({
      {X23("s = const i64[2] {3, -1} y = Reshape(x, s)"), "i32[3,2] {1, 2, 3, 4, 5, 6}"},
      {X23("s = const i64[3] {0, 1, 3} y = Reshape(x, s)"), "i32[2,1,3]"},
      {X23("s = const i64[2] {4, -1} y = Reshape(x, s)"), "cannot reshape"},
      {X23("s = const i64[2] {-1, -1} y = Reshape(x, s)"), "more than one -1"},
      {X23("s = const i64[1] {5} y = Reshape(x, s)"), "cannot reshape"},
      {"x = const f32[0,3] {} s = const i64[2] {3, 0} y = Reshape(x, s) {allowzero=1}",
       "f32[3,0] {}"},
      {"x = const f32[1] {7} s = const i64[0] {} y = Reshape(x, s)", "f32[] {7}"},
  });
  CheckTypes({
      {"graph g(x: f32[N,4,6]) -> (y) { s = const i64[2] {0, -1} y = Reshape(x, s) }", "f32[N,24]"},
      {"graph g(x: f32[N,4,6]) -> (y) { s = const i64[2] {-1, 12} y = Reshape(x, s) }",
       "f32[2*N,12]"},
      {"graph g(x: f32[N,4], s: i64[3]) -> (y) { y = Reshape(x, s) }", "f32[?,?,?]"},
      {"graph g(x: f32[N,4], s: i64[k]) -> (y) { y = Reshape(x, s) }", "f32[*]"},
  });
}

/// What exporters write for view(x.size(0), -1), x.view(b, t, heads, width).
TEST(ReshapeOps, ExporterChainsBecomeSymbolic) {
  CheckTypes({
      {R"(graph g(x: f32[B,T,64]) -> (y) {
            s = Shape(x)
            i0 = const i64[] {0}  i1 = const i64[] {1}  a0 = const i64[1] {0}
            b = Gather(s, i0)  t = Gather(s, i1)
            bu = Unsqueeze(b, a0)  tu = Unsqueeze(t, a0)
            h = const i64[1] {8}  w = const i64[1] {-1}
            shape = Concat(bu, tu, h, w) {axis=0}
            y = Reshape(x, shape) })",
       "f32[B,T,8,8]"},
      {R"(graph g(x: f32[B,3,H,W]) -> (y) {
            s = Shape(x)  a = const i64[1] {0}  lo = const i64[1] {0}  hi = const i64[1] {2}
            head = Slice(s, lo, hi, a)  m = const i64[1] {-1}
            shape = Concat(head, m) {axis=0}  y = Reshape(x, shape) })",
       "f32[B,3,H*W]"},
      {R"(graph g(x: f32[B,6]) -> (y, z) {
            s = Shape(x)  k = const i64[2] {1, 1}  b, c = Split(s, k)
            y = Concat(c, b) {axis=0}  q = const i64[0] {}  z = Squeeze(b) })",
       "i64[2] = {6, B}; i64[] = {B}"},
  });
}

TEST(ReshapeOps, FlattenSqueezeUnsqueeze) {
  CheckValues({
      {X23("y = Flatten(x) {axis=0}"), "i32[1,6]"},
      {X23("y = Flatten(x) {axis=2}"), "i32[6,1]"},
      {X23("y = Flatten(x) {axis=-1}"), "i32[2,3]"},
      {X23("y = Flatten(x) {axis=3}"), "out of range"},
      {"x = const f32[1,2,1] {1, 2} y = Squeeze(x)", "f32[2] {1, 2}"},
      {"x = const f32[1,2,1] {1, 2} a = const i64[1] {-1} y = Squeeze(x, a)", "f32[1,2] {1, 2}"},
      {"x = const f32[1,2,1] {1, 2} a = const i64[1] {1} y = Squeeze(x, a)", "is not 1"},
      {"x = const f32[2] {1, 2} a = const i64[2] {0, -1} y = Unsqueeze(x, a)", "f32[1,2,1]"},
      {"x = const f32[2] {1, 2} a = const i64[2] {0, 0} y = Unsqueeze(x, a)", "twice"},
  });
  CheckTypes({
      {"graph g(x: f32[N,4,M]) -> (y) { y = Flatten(x) {axis=2} }", "f32[4*N,M]"},
      {"graph g(x: f32[N,1,M]) -> (y) { a = const i64[1] {1} y = Squeeze(x, a) }", "f32[N,M]"},
      {"graph g(x: f32[N,1,M]) -> (y) { y = Squeeze(x) }", "f32[*]"},
      {"graph g(x: f32[*]) -> (y) { y = Transpose(x) {perm=[0, 2]} }", "out of range"},
      {"graph g(x: f32[N], a: i64[2]) -> (y) { y = Unsqueeze(x, a) }", "f32[?,?,?]"},
  });
}

TEST(TransposeOps, Values) {
  CheckValues({
      {X23("y = Transpose(x)"), "i32[3,2] {1, 4, 2, 5, 3, 6}"},
      {"x = const i8[2,1,2] {1, 2, 3, 4} y = Transpose(x) {perm=[1, 2, 0]}",
       "i8[1,2,2] {1, 3, 2, 4}"},
      {X23("y = Transpose(x) {perm=[0, 0]}"), "twice"},
      {X23("y = Transpose(x) {perm=[0]}"), "perm has 1"},
      {X23("y = Transpose(x) {perm=[-1, 0]}"), "negative"},
      {"x = const f32[] {3} y = Transpose(x)", "f32[] {3}"},
      {"x = const f32[2,1] {1, 2} s = const i64[3] {2, 1, 2} y = Expand(x, s)",
       "f32[2,2,2] {1, 1, 2, 2, 1, 1, 2, 2}"},
      {"x = const f32[3] {1, 2, 3} s = const i64[1] {1} y = Expand(x, s)", "f32[3] {1, 2, 3}"},
      {"x = const f32[3] {1, 2, 3} s = const i64[1] {2} y = Expand(x, s)", "broadcast"},
      {X23("r = const i64[2] {1, 2} y = Tile(x, r)"),
       "i32[2,6] {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}"},
      {X23("r = const i64[2] {0, 2} y = Tile(x, r)"), "i32[0,6] {}"},
      {"x = const i32[1,4,1,2] {0, 1, 2, 3, 4, 5, 6, 7} y = DepthToSpace(x) {blocksize=2}",
       "i32[1,1,2,4] {0, 2, 1, 3, 4, 6, 5, 7}"},
      {"x = const i32[1,1,2,4] {0, 2, 1, 3, 4, 6, 5, 7} y = SpaceToDepth(x) {blocksize=2}",
       "i32[1,4,1,2] {0, 1, 2, 3, 4, 5, 6, 7}"},
      {R"(x = const i32[1,8,1,1] {0, 1, 2, 3, 4, 5, 6, 7}
          y = DepthToSpace(x) {blocksize=2, mode="CRD"})",
       "i32[1,2,2,2] {0, 1, 2, 3, 4, 5, 6, 7}"},
      {"x = const i32[1,8,1,1] {0, 1, 2, 3, 4, 5, 6, 7} y = DepthToSpace(x) {blocksize=2}",
       "i32[1,2,2,2] {0, 2, 4, 6, 1, 3, 5, 7}"},
      {"x = const i32[1,3,1,1] {0, 1, 2} y = DepthToSpace(x) {blocksize=2}", "multiple"},
  });
  CheckTypes({
      {"graph g(x: f32[N,C]) -> (y) { y = Transpose(x) }", "f32[C,N]"},
      {"graph g(x: f32[N,1]) -> (y) { s = const i64[2] {1, 7} y = Expand(x, s) }", "f32[N,7]"},
      {"graph g(x: f32[N,2]) -> (y) { s = const i64[2] {3, 2} y = Tile(x, s) }", "f32[3*N,4]"},
      {"graph g(x: f32[N,8,H,W]) -> (y) { y = DepthToSpace(x) {blocksize=2} }", "f32[N,2,2*H,2*W]"},
  });
}

TEST(ConcatSplitOps, Values) {
  CheckValues({
      {X23("y = Concat(x, x) {axis=-1}"), "i32[2,6] {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}"},
      {X23("e = const i32[2,0] {} y = Concat(e, x, e) {axis=1}"), "i32[2,3] {1, 2, 3, 4, 5, 6}"},
      {X23("e = const i32[1,2] {7, 8} y = Concat(e, x) {axis=0}"), "contradict"},
      {"a = const str[1] {\"p\"} b = const str[2] {\"q\", \"r\"} y = Concat(a, b) {axis=0}",
       "str[3] {\"p\", \"q\", \"r\"}"},
      {X23("s = const i64[2] {1, 2} z, y = Split(x, s) {axis=1}"), "i32[2,2] {2, 3, 5, 6}"},
      {X23("a, y = Split(x) {axis=-1, num_outputs=2}"), "i32[2,1] {3, 6}"},
      {X23("s = const i64[2] {1, 3} z, y = Split(x, s) {axis=1}"), "in all"},
  });
  CheckTypes({
      {"graph g(x: f32[N,P], y: f32[N,Q]) -> (z) { z = Concat(x, y) {axis=1} }", "f32[N,P+Q]"},
      {"graph g(x: f32[4,P], y: f32[?,Q]) -> (z) { z = Concat(y, x) {axis=1} }", "f32[4,P+Q]"},
      {"graph g(x: f32[N,4*C]) -> (a, b) { a, b = Split(x) {axis=1, num_outputs=2} }",
       "f32[N,2*C]; f32[N,2*C]"},
      {"graph g(x: f32[5]) -> (a, b) { a, b = Split(x) {num_outputs=2} }", "f32[3]; f32[2]"},
      // More parts than the standard defines: it says nothing of parts past the end.
      {"graph g(x: f32[5]) -> (a, b, c, d) { a, b, c, d = Split(x) {num_outputs=4} }",
       "f32[?]; f32[?]; f32[?]; f32[?]"},
  });
}

TEST(SliceOps, Values) {
  const auto slice = [](std::string_view s, std::string_view e, std::string_view t) {
    return ValuesOf(Cat("graph g() -> (y) { x = const i32[5] {0, 1, 2, 3, 4} s = const i64[1] {", s,
                        "} e = const i64[1] {", e, "} a = const i64[1] {0} t = const i64[1] {", t,
                        "} y = Slice(x, s, e, a, t) }"));
  };
  EXPECT_EQ(slice("1", "3", "1"), "i32[2] {1, 2}");
  EXPECT_EQ(slice("-2", "9", "1"), "i32[2] {3, 4}");
  EXPECT_EQ(slice("0", "-1", "2"), "i32[2] {0, 2}");
  EXPECT_EQ(slice("4", "-9", "-2"), "i32[3] {4, 2, 0}");
  EXPECT_EQ(slice("-1", "-9223372036854775808", "-1"), "i32[5] {4, 3, 2, 1, 0}");
  EXPECT_EQ(slice("-7", "-9", "-1"), "i32[1] {0}");  // NumPy would begin before the first element
  EXPECT_EQ(slice("3", "1", "1"), "i32[0] {}");
  EXPECT_EQ(slice("0", "9223372036854775807", "9223372036854775807"), "i32[1] {0}");
  EXPECT_EQ(slice("99", "-99", "-9223372036854775808"), "i32[1] {4}");
  EXPECT_THAT(slice("0", "1", "0"), ::testing::HasSubstr("step is 0"));
  CheckTypes({
      {R"(graph g(x: f32[N,8]) -> (y) {
          s = const i64[2] {1, 2} e = const i64[2] {9223372036854775807, -1} y = Slice(x, s, e) })",
       "f32[N-1,5]"},
      {R"(graph g(x: f32[N,8]) -> (y) { a = const i64[1] {0}
          s = const i64[1] {0} e = const i64[1] {5} y = Slice(x, s, e, a) })",
       "f32[?,8]"},
      // The last two of N may be one: what lies before the first element is clamped.
      {R"(graph g(x: f32[N,P+2]) -> (y) {
          s = const i64[2] {-2, -2} e = const i64[2] {9223372036854775807, -1} y = Slice(x, s, e) })",
       "f32[?,1]"},
      {R"(graph g(x: f32[N,M]) -> (y) {
          s = const i64[2] {-1, -3} e = const i64[2] {9223372036854775807, -1} y = Slice(x, s, e) })",
       "f32[1,?]"},
      {R"(graph g(x: f32[1,64], p: f32[P], q: f32[P+Q]) -> (y) { a = const i64[1] {1}
          s = Shape(p) e = Shape(q) y = Slice(x, s, e, a) })",
       "f32[1,Q]"},
  });
}

TEST(TileOps, RepeatsOfTheRun) {
  const auto tile = [](int64_t repeats) {
    return ValuesOf("graph g(x: i32[2], r: i64[1]) -> (y) { y = Tile(x, r) }",
                    {Datum(Tensor::Of<int32_t>({2}, {1, 2})), Datum(Tensor::Int64s({repeats}))});
  };
  EXPECT_EQ(tile(2), "i32[4] {1, 2, 1, 2}");
  EXPECT_THAT(tile(-1), ::testing::HasSubstr("repeats has -1"));
  EXPECT_THAT(tile(INT64_MIN), ::testing::HasSubstr("repeats has -9223372036854775808"));
}

TEST(GatherOps, Values) {
  CheckValues({
      {X23("i = const i64[2,1] {-1, 0} y = Gather(x, i) {axis=1}"), "i32[2,2,1] {3, 1, 6, 4}"},
      {X23("i = const i32[] {1} y = Gather(x, i)"), "i32[3] {4, 5, 6}"},
      {X23("i = const i64[1] {2} y = Gather(x, i)"), "out of range"},
      {X23("i = const i64[0] {} y = Gather(x, i)"), "i32[0,3] {}"},
      {X23("i = const i64[1,2] {1, -2} y = GatherElements(x, i)"), "i32[1,2] {4, 2}"},
      {X23("i = const i64[2,1] {2, 0} y = GatherElements(x, i) {axis=1}"), "i32[2,1] {3, 4}"},
      {X23("i = const i64[1,2] {1, -1} y = GatherND(x, i)"), "i32[1] {6}"},
      {X23("i = const i64[2,1] {1, 0} y = GatherND(x, i)"), "i32[2,3] {4, 5, 6, 1, 2, 3}"},
      {X23("i = const i64[2,1] {1, 0} y = GatherND(x, i) {batch_dims=1}"), "i32[2] {2, 4}"},
      {X23("i = const i64[1,2] {1, 3} y = GatherND(x, i)"), "out of range"},
      {X23("c = const bool[2] {0, 1} y = Compress(x, c) {axis=1}"), "i32[2,1] {2, 5}"},
      {X23("c = const bool[5] {0, 1, 0, 0, 1} y = Compress(x, c)"), "i32[2] {2, 5}"},
      {X23("n = const i64[3] {2, 1, 2} y = ReverseSequence(x, n)"), "i32[2,3] {4, 2, 6, 1, 5, 3}"},
      {X23("n = const i64[2] {2, 3} y = ReverseSequence(x, n) {batch_axis=0, time_axis=1}"),
       "i32[2,3] {2, 1, 3, 6, 5, 4}"},
      {X23("n = const i64[2] {2, 3} y = ReverseSequence(x, n) "
           "{batch_axis=1, time_axis=9223372036854775807}"),
       "time_axis are not 0 and 1"},
  });
  CheckTypes({
      {"graph g(x: f32[V,64], i: i64[B,T]) -> (y) { y = Gather(x, i) }", "f32[B,T,64]"},
      {"graph g(x: f32[N,4,D], i: i64[K,2]) -> (y) { y = GatherND(x, i) }", "f32[K,D]"},
      {"graph g(x: f32[N,4], i: i64[N,K]) -> (y) { y = GatherElements(x, i) }", "f32[N,K]"},
  });
}

TEST(GenerateOps, Values) {
  CheckValues({
      {"s = const i64[2] {2, 1} y = ConstantOfShape(s)", "f32[2,1] {0, 0}"},
      {"s = const i64[0] {} y = ConstantOfShape(s) {value=const i4[1] {-3}}", "i4[] {-3}"},
      {"s = const i64[1] {3} y = ConstantOfShape(s) {value=const u4[1] {9}}", "u4[3] {9, 9, 9}"},
      {"s = const i64[1] {-1} y = ConstantOfShape(s)", "shape"},
      {"s = const i64[2] {4611686018427387904, 4} y = ConstantOfShape(s)", "no tensor can be"},
      {"a = const i64[] {10} b = const i64[] {3} c = const i64[] {-3} y = Range(a, b, c)",
       "i64[3] {10, 7, 4}"},
      {"a = const f32[] {0} b = const f32[] {1} c = const f32[] {0.25} y = Range(a, b, c)",
       "f32[4] {0, 0.25, 0.5, 0.75}"},
      {"a = const i32[] {5} b = const i32[] {5} c = const i32[] {1} y = Range(a, b, c)",
       "i32[0] {}"},
      {"a = const i32[] {5} b = const i32[] {5} c = const i32[] {0} y = Range(a, b, c)",
       "delta is 0"},
      {"x = const f32[2,3] ~1 y = EyeLike(x) {k=1, dtype=7}", "i64[2,3] {0, 1, 0, 0, 0, 1}"},
      {"x = const f32[2,2] ~1 y = EyeLike(x) {k=-9223372036854775808}", "f32[2,2] {0, 0, 0, 0}"},
      {"i = const i64[2] {1, -1} d = const i64[] {3} v = const f32[2] {5, 7} y = OneHot(i, d, v)",
       "f32[2,3] {5, 7, 5, 5, 5, 7}"},
      {R"(i = const i64[2] {1, 8} d = const f32[1] {3} v = const i32[2] {0, 1}
          y = OneHot(i, d, v) {axis=0})",
       "i32[3,2] {0, 0, 1, 0, 0, 0}"},
      {X23("y = Trilu(x)"), "i32[2,3] {1, 2, 3, 0, 5, 6}"},
      {X23("k = const i64[] {1} y = Trilu(x, k) {upper=0}"), "i32[2,3] {1, 2, 0, 4, 5, 6}"},
      {X23("k = const i64[] {9223372036854775807} y = Trilu(x, k) {upper=0}"),
       "i32[2,3] {1, 2, 3, 4, 5, 6}"},
  });
  CheckTypes({
      {R"(graph g(x: f32[N,3]) -> (y) {
          s = Shape(x) y = ConstantOfShape(s) {value=const i64[1] {1}} })",
       "i64[N,3]"},
      {R"(graph g(x: f32[N,3]) -> (y) { s = Shape(x) i = const i64[] {0} n = Gather(s, i)
          z = const i64[] {0} o = const i64[] {1} y = Range(z, n, o) })",
       "i64[N]"},
  });
}

/// The same moves on every element type give the same elements.
TEST(Movement, EveryElementType) {
  Random random(7);
  for (int t = 1; t < kNumDTypes; ++t) {
    const auto type = static_cast<DType>(t);
    const Tensor x = RandomTensor(random, type, {3, 5, 7});
    const Tensor order = [] {
      Tensor i(DType::kI64, {3, 5, 7});
      for (int64_t k = 0; k < 105; ++k) i.SetInt(k, k);
      return i;
    }();
    const auto transposed = [&](const Tensor& in) {
      Tensor out(in.dtype(), {7, 3, 5});
      CopyStrided(in, {0, {1, 35, 7}}, out, Dense({7, 3, 5}), {7, 3, 5});
      return out;
    };
    const Tensor moved = transposed(x), where = transposed(order);
    Tensor back(type, {3, 5, 7});
    for (int64_t k = 0; k < 105; ++k) RunCopier(moved, back, 1)(k, where.IntAt(k));
    EXPECT_TRUE(BitEqual(back, x)) << Name(type);
  }
}

}  // namespace
}  // namespace infer
