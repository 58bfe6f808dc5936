/// What may be stacked, and what stands against it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/engine/stack.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BatchAxes Of(const std::string& text) { return ProveBatchAxes(Parsed(text)); }

TEST(BatchAxes, RowsThatStayApart) {
  const BatchAxes a = Of(R"(graph g(x: f32[N,3,4,4], s: f32[2,N]) -> (y, z, k) {
    w = const f32[5,3,1,1] ~1 c = Conv(x, w) r = Relu(c) y = MaxPool(r) {kernel_shape=[2,2]}
    z = Softmax(s) {axis=0} k = const f32[2] {1, 2} })");
  EXPECT_TRUE(a.proved) << a.reason;
  EXPECT_EQ(a.symbol, "N");
  EXPECT_THAT(a.inputs, ElementsAre(0, 1));
  EXPECT_THAT(a.outputs, ElementsAre(0, 1, -1));
}

TEST(BatchAxes, AnyAxisOfTheFirstInputWillDo) {
  EXPECT_THAT(Of("graph g(x: f32[T,B,4]) -> (y) { y = Softmax(x) {axis=0} }").inputs,
              ElementsAre(1));
}

TEST(BatchAxes, ASymbolIsNoPartOfAnother) {
  const BatchAxes a = Of("graph g(x: f32[N,N_long]) -> (y) { y = Softmax(x) }");
  EXPECT_TRUE(a.proved) << a.reason;
  const BatchAxes b = Of(R"(graph g(x: f32[N,2,8]) -> (y) { t = Transpose(x) {perm=[1,2,0]}
    y = MaxPool(t) {kernel_shape=[2], strides=[2]} })");
  EXPECT_THAT(b.reason, HasSubstr("mix N with others"));
}

TEST(BatchAxes, ExtentsAreFollowedThroughShapeMath) {
  // The usual way of an exporter: rows of constants as many as there are requests.
  const BatchAxes a = Of(R"(graph g(x: f32[N,4]) -> (y) {
    sh = Shape(x) first = const i64[1] {0} n = Gather(sh, first) four = const i64[1] {4}
    to = Concat(n, four) {axis=0} row = const f32[1,4] ~1 rows = Expand(row, to)
    zeros = ConstantOfShape(to) both = Add(rows, zeros) y = Add(x, both) })");
  EXPECT_TRUE(a.proved) << a.reason;
}

/// Interpolation to the extents of another value, as exporters of U-Nets write it.
TEST(BatchAxes, SizesOfResizeMayNameTheBatch) {
  const BatchAxes a = Of(R"(graph g(x: f32[N,3,H,W]) -> (y) {
    p = AveragePool(x) {kernel_shape=[2,2], strides=[2,2]} sh = Shape(p) {end=2} hw = Shape(x) {start=2}
    to = Concat(sh, hw) {axis=0} u = Resize(p, _, _, to) {mode="linear"} y = Add(u, x) })");
  EXPECT_TRUE(a.proved) << a.reason;
  EXPECT_EQ(a.symbol, "N");
}

TEST(BatchAxes, RequestsMayBeMergedWithWhatTheyHold) {
  const auto merged = [](const std::string& in, const std::string& nodes) {
    return Of("graph g(x: f32[" + in + "]) -> (y) { " + nodes + " }");
  };
  // Windows, channels or neighbours as a batch of their own, then back.
  const BatchAxes windows = merged("N,4,6,8", R"(a = const i64[4] {-1,2,6,8} v = Reshape(x, a)
    s = Softmax(v) {axis=1} b = const i64[3] {-1,4,48} y = Reshape(s, b))");
  EXPECT_TRUE(windows.proved) << windows.reason;
  // Heads: the steps lie before the requests.
  const BatchAxes heads = merged("T,N,12", R"(
    z = const i64[1] {0} o = const i64[1] {1} w = const i64[1] {2} four = const i64[1] {4}
    three = const i64[1] {3} twelve = const i64[1] {12} sh = Shape(x) t = Slice(sh, z, o)
    n = Slice(sh, o, w) h = Mul(n, four) a = Concat(t, h, three) {axis=0} q = Reshape(x, a)
    k = Transpose(q) {perm=[1,0,2]} v = Transpose(q) {perm=[1,2,0]} s = MatMul(k, v)
    p = Softmax(s) m = MatMul(p, k) r = Transpose(m) {perm=[1,0,2]}
    b = Concat(t, n, twelve) {axis=0} y = Reshape(r, b))");
  EXPECT_TRUE(heads.proved) << heads.reason;
  EXPECT_THAT(heads.inputs, ElementsAre(1));
  // Steps of all requests as rows of a layer, the requests inside.
  const BatchAxes rows = merged("5,N,6", R"(a = const i64[2] {-1,6} v = Reshape(x, a)
    w = const f32[6,6] ~1 p = MatMul(v, w) b = const i64[3] {5,-1,6} y = Reshape(p, b))");
  EXPECT_TRUE(rows.proved) << rows.reason;
  // Learned queries, once for each request.
  const BatchAxes tiled = merged("N,4,6", R"(c = const f32[1,4,6] ~1 d = const f32[4,6] ~2
    sh = Shape(x) z = const i64[1] {0} o = const i64[1] {1} n = Slice(sh, z, o)
    r = Concat(n, o, o) {axis=0} t = Tile(c, r) p = Add(t, x) q = Concat(n, o) {axis=0}
    u = Tile(d, q) v = Reshape(u, sh) y = Add(p, v))");
  EXPECT_TRUE(tiled.proved) << tiled.reason;
  // The same table for each request.
  const BatchAxes table = merged("N,4,6", R"(c = const f32[1,4,6] ~1 sh = Shape(x) t = Expand(c, sh)
    a = const i64[2] {-1,6} u = Reshape(t, a) v = Reshape(x, a) p = Add(u, v) y = Reshape(p, sh))");
  EXPECT_TRUE(table.proved) << table.reason;
  const std::pair<const char*, const char*> refused[] = {
      {"N,4,6", "a = const i64[2] {-1,6} y = Reshape(x, a)"},  // rows of the result, not requests
      {"4,N,6",
       "a = const i64[2] {-1,6} v = Reshape(x, a) b = const i64[3] {-1,4,6} y = Reshape(v, b)"},
      {"N,4,6",
       "a = const i64[2] {-1,6} v = Reshape(x, a) s = Softmax(v) {axis=0} b = const i64[3] "
       "{-1,4,6} y = Reshape(s, b)"},
      {"4,N,6",  // one table for each step, not for each request
       "a = const i64[2] {-1,6} v = Reshape(x, a) d = const f32[4,6] ~1 sh = Shape(x) "
       "o = const i64[1] {1} w = const i64[1] {2} n = Slice(sh, o, w) r = Concat(n, o) {axis=0} "
       "u = Tile(d, r) p = Add(u, v) y = Reshape(p, sh)"},
      {"N,4,6",
       "a = const i64[2] {4,-1} v = Reshape(x, a) b = const i64[3] {-1,4,6} y = Reshape(v, b)"},
  };
  for (const auto& [in, nodes] : refused) EXPECT_FALSE(merged(in, nodes).proved) << nodes;
}

TEST(BatchAxes, UpdatesOfTheFirstRowAloneAreNotForEachRequest) {
  const auto scattered = [](const std::string& indices, const std::string& nodes) {
    return Of("graph g(x: f32[N,5]" + indices + ") -> (y: f32[N,5]) { " + nodes +
              " y = ScatterElements(x, i, u) {axis=1} }");
  };
  EXPECT_FALSE(scattered("", "i = const i64[1,2] {0,1} u = const f32[1,2] {7,8}").proved);
  const BatchAxes each = scattered(", i: i64[N,2], u: f32[N,2]", "");
  EXPECT_TRUE(each.proved) << each.reason;
}

TEST(BatchAxes, TablesOfPositionsAreReadFromTheFirst) {
  const auto cut = [](const std::string& table, const std::string& most) {
    return Of(
        "graph g(x: f32[N,L]) -> (y: f32[N,L], e: f32[N,L]) { sh = Shape(x) f = Cast(sh) {to=1} "
        "most = const f32[2] {" +
        most +
        "} least = Min(f, most) end = Cast(least) {to=7} zero = const i64[2] {0,0} t = "
        "const f32[" +
        table + "] ~1 c = Slice(t, zero, end) e = Expand(c, sh) y = Add(x, e) }");
  };
  EXPECT_TRUE(cut("1,512", "inf,512").proved) << cut("1,512", "inf,512").reason;
  EXPECT_FALSE(cut("8,512", "inf,512").proved) << "other rows for other requests";
}

TEST(BatchAxes, RowsOfTheOnlyInputNeedNoName) {
  const BatchAxes a = Of(
      "graph g(x: f32[?,4]) -> (y, z) { y = Softmax(x) i = const i64[1] {1} z = ReduceMax(x, i) }");
  EXPECT_TRUE(a.proved) << a.reason;
  EXPECT_EQ(a.inputs, std::vector<int>{0});
  EXPECT_EQ(a.outputs, (std::vector<int>{0, 0}));
  EXPECT_FALSE(Of("graph g(x: f32[?,4]) -> (y) { y = Softmax(x) {axis=0} }").proved);
  EXPECT_FALSE(Of("graph g(x: f32[4,?]) -> (y) { y = Relu(x) }").proved);
  // Nothing says that both have the same number of rows.
  EXPECT_FALSE(
      Of("graph g(x: f32[?,4], u: f32[?,4]) -> (y, z) { y = Relu(x) z = Relu(u) }").proved);
}

/// Of one request they would be cut at 1, of four at 4.
TEST(BatchAxes, PlacesThatDependOnTheBatchAreRefused) {
  const std::string head = R"(graph g(x: f32[N,8]) -> (y) { sh = Shape(x) z = const i64[1] {0}
    o = const i64[1] {1} n = Gather(sh, z) before = Sub(n, o) )";
  EXPECT_FALSE(Of(head + "y = Slice(x, before, n, o) }").proved);
  EXPECT_FALSE(Of(head + "y = Slice(x, z, n, o) }").proved);
}

TEST(BatchAxes, RefusalsNameTheNodeAndTheReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"graph g(x: f32[N,4]) -> (y) { y = ReduceMean(x) }", "ReduceMean"},
      {"graph g(x: f32[N,4]) -> (y) { y = Softmax(x) {axis=0} }",
       "axis 0 of operand 'x' does not stay apart"},
      {"graph g(x: f32[N,4]) -> (y) { a = const i64[] {0} y = CumSum(x, a) }", "CumSum"},
      {"graph g(x: f32[N,4]) -> (q, s, z) { q, s, z = DynamicQuantizeLinear(x) }",
       "DynamicQuantizeLinear"},
      {"graph g(x: f32[N,4]) -> (y) { t = const i64[1] {-1} y = Reshape(x, t) }", "Reshape"},
      {"graph g(x: f32[N,4]) -> (y) { t = Transpose(x) y = MatMul(t, x) }", "MatMul"},
      {"graph g(x: f32[N,4]) -> (y) { r = RandomNormalLike(x) y = Add(x, r) }", "random"},
      {"graph g(x: f32[N,4]) -> (y) { n = NonZero(x) y = Cast(n) {to=1} }", "NonZero"},
      {"graph g(x: f32[N,4]) -> (y) { s = Shape(x) f = Cast(s) {to=1} m = ReduceMax(f) y = Mul(x, "
       "m) }",
       "depends on how many requests share a run"},
      {"graph g(x: f32[N,4]) -> (y, n) { y = Relu(x) n = Shape(x) }", "output 'n' depends on"},
      {"graph g(x: f32[N,4], t: f32[2]) -> (y) { y = Relu(x) }", "'t' is f32[2]"},
      {"graph g(x: f32[3,4]) -> (y) { y = Relu(x) }", "no extent that the model leaves open"},
      {"graph g(x: f32[N,N]) -> (y) { y = Relu(x) }", "not one axis of N"},
      {"graph g(x: str[N]) -> (y) { y = Identity(x) }", "cannot be cut"},
      {R"(graph g(x: f32[N,4]) -> (y) { sh = Shape(x) first = const i64[] {0} n = Gather(sh, first)
          z = const i64[] {0} o = const i64[] {1} r = Range(z, n, o) f = Cast(r) {to=1}
          a = const i64[1] {1} c = Unsqueeze(f, a) y = Add(x, c) })",
       "Range"},
      // As long as the batch, but another number for each row.
      {R"(graph g(x: f32[N]) -> (y) { sh = Shape(x) first = const i64[] {0} n = Gather(sh, first)
          w = HannWindow(n) y = Mul(x, w) })",
       "depends on how many requests share a run"},
      {R"(graph g(x: f32[N,4]) -> (y) { c = const bool[] {true}
          y = If(c) [x] {then_branch=graph(x) -> (a) { a = Relu(x) }, else_branch=graph(x) -> (b) { b = Abs(x) }} })",
       "If"},
  };
  for (const auto& [text, reason] : cases) {
    auto graph = ParseGraph(text, Ops());
    ASSERT_TRUE(graph.ok()) << text << graph.status().message();
    const BatchAxes a = ProveBatchAxes(*graph);
    EXPECT_FALSE(a.proved) << text;
    EXPECT_THAT(a.reason, HasSubstr(reason)) << text;
  }
}

/// Every operator's example that is proved, with its first extent left open: what a request holds
/// reaches its own rows and no others.
TEST(BatchAxes, ProvedExamplesAreIndependent) {
  int proved = 0;
  for (const OpDef* def : Ops().all()) {
    if (def->example.empty()) continue;
    std::string text(def->example);
    const size_t input = text.find("f32["), end = text.find_first_of(",]", input);
    if (input == std::string::npos || text.find("const") < input) continue;
    text.replace(input + 4, end - input - 4, "N");
    auto graph = ParseGraph(text, Ops());
    if (!graph.ok() || graph->inputs().size() != 1) continue;
    const BatchAxes axes = ProveBatchAxes(*graph);
    if (!axes.proved) continue;
    Dims dims;
    for (const Dim& d : graph->inputs()[0]->shape().dims())
      dims.push_back(d.is_static() ? d.value() : 3);
    auto program = MakeReferenceBackend()->Compile(*graph, {});
    ASSERT_TRUE(program.ok()) << text;
    Tensor x(DType::kF32, dims);
    for (int64_t i = 0; i < x.num_elements(); ++i)
      x.Set(i, 0.125 + 0.125 * static_cast<double>(i % 5));
    Tensor changed = x.Clone();
    const int64_t row = x.num_elements() / 3;
    for (int64_t i = row; i < 2 * row; ++i) changed.Set(i, x.At(i) + 0.0625);
    ASSERT_EQ(axes.inputs[0], 0) << text;
    const Datum a[] = {x}, b[] = {changed};
    const auto before = RunOnce(**program, a), after = RunOnce(**program, b);
    if (!before.ok() || !after.ok()) continue;  // an example that runs with its own extents only
    ++proved;
    for (size_t o = 0; o < before->size(); ++o) {
      const Tensor &p = (*before)[o].tensor(), &q = (*after)[o].tensor();
      if (axes.outputs[o] != 0) {
        EXPECT_TRUE(axes.outputs[o] > 0 || BitEqual(p, q)) << text;
        continue;
      }
      ASSERT_EQ(p.dim(0), 3) << text;
      for (int64_t r : {0, 2}) ASSERT_TRUE(BitEqual(Part(p, 0, r, 1), Part(q, 0, r, 1))) << text;
    }
  }
  EXPECT_GT(proved, 60) << "operators whose examples could be judged";
}

}  // namespace
}  // namespace infer::engine
