/// What a model declares of shapes that hang on data: a run takes its extents from what it was
/// given, and refuses where the declaration is another. Every backend says what Evaluate() says.
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// `call` makes y (and z) from x: f32[4] or f32[2,2] and an operand s that only the run knows.
struct DeclaredCase {
  std::string inputs, call;
  std::vector<Datum> values;
  std::string truth, lie;  ///< what is declared of the outputs
};

Datum Counted(Dims dims) {
  Tensor t(DType::kF32, std::move(dims));
  for (int64_t i = 0; i < t.num_elements(); ++i) t.Set(i, static_cast<double>(i) + 1);
  return t;
}
Datum Sizes(std::vector<int64_t> values) { return Tensor::Int64s(std::move(values)); }

std::vector<DeclaredCase> DeclaredCases() {
  const Datum x = Counted({4}), m = Counted({2, 2});
  return {
      {"x: f32[4], s: i64[2]",
       "y, z = Split(x, s)",
       {x, Sizes({1, 3})},
       "y: f32[1], z: f32[3]",
       "y: f32[1], z: f32[600]"},
      {"x: f32[4], s: i64[2]", "y, z = Split(x, s)", {x, Sizes({1, 3})}, "z: f32[3]", "z: f32[2]"},
      {"x: f32[1], s: i64[1]",
       "y = Expand(x, s)",
       {Counted({1}), Sizes({4})},
       "y: f32[4]",
       "y: f32[600]"},
      {"x: f32[4], s: i64[2]",
       "y = Reshape(x, s)",
       {x, Sizes({2, 2})},
       "y: f32[2,2]",
       "y: f32[4,1]"},
      {"x: f32[4], s: i64[2]",
       "y = Reshape(x, s)",
       {x, Sizes({2, 2})},
       "y: f32[2,2]",
       "y: f32[40,40]"},
      {"x: f32[4], s: i64[1]", "y = Tile(x, s)", {x, Sizes({2})}, "y: f32[8]", "y: f32[600]"},
      {"x: f32[4], s: i64[2]", "y = Pad(x, s)", {x, Sizes({1, 1})}, "y: f32[6]", "y: f32[600]"},
      {"x: f32[4], s: i64[1], e: i64[1]",
       "y = Slice(x, s, e)",
       {x, Sizes({1}), Sizes({3})},
       "y: f32[2]",
       "y: f32[600]"},
      {"x: f32[4], s: i64[1]",
       "y, z = TopK(x, s)",
       {x, Sizes({2})},
       "y: f32[2], z: i64[2]",
       "y: f32[600], z: i64[600]"},
      {"x: f32[2,2], s: i64[1]",
       "y = ReduceSum(x, s) {keepdims=0}",
       {m, Sizes({0})},
       "y: f32[2]",
       "y: f32[600]"},
      {"x: f32[1,2,1], s: i64[1]",
       "y = Squeeze(x, s)",
       {Counted({1, 2, 1}), Sizes({0})},
       "y: f32[2,1]",
       "y: f32[1,2]"},
      {"x: f32[4], s: i64[1]",
       "y = Unsqueeze(x, s)",
       {x, Sizes({0})},
       "y: f32[1,4]",
       "y: f32[4,1]"},
      {"x: f32[1,1,2,2], s: i64[4]",
       "y = Resize(x, _, _, s) {mode=\"linear\"}",
       {Counted({1, 1, 2, 2}), Sizes({1, 1, 4, 4})},
       "y: f32[1,1,4,4]",
       "y: f32[1,1,40,40]"},
      {"x: f32[2], d: i64[]",
       "i = const i64[3] {0, 1, 2} y = OneHot(i, d, x)",
       {Counted({2}), Datum(Tensor::Scalar<int64_t>(4))},
       "y: f32[3,4]",
       "y: f32[3,600]"},
      {"s: i64[1]", "y = ConstantOfShape(s)", {Sizes({4})}, "y: f32[4]", "y: f32[600]"},
      {"x: f32[4]", "y = NonZero(x)", {x}, "y: i64[1,4]", "y: i64[1,600]"},
      {"x: f32[4], c: bool[4]",
       "y = Compress(x, c)",
       {x, Tensor::Of<bool>({4}, {true, false, true, false})},
       "y: f32[2]",
       "y: f32[600]"},
  };
}

/// `then`: a consumer of y of its own.
std::string DeclaredText(const DeclaredCase& c, const std::string& outputs,
                         const std::string& then) {
  const bool more = !then.empty();
  return Cat("graph g(", c.inputs, ") -> (", outputs, more ? ", r" : "", ") { ", c.call, " ", then,
             " }");
}

Status RunDeclared(const Graph& g, const std::vector<Datum>& inputs, std::vector<Datum>& outputs) {
  INFER_ASSIGN(const auto program, BackendUnderTest().Compile(g, {}));
  INFER_ASSIGN(outputs, RunOnce(*program, inputs));
  return {};
}

TEST(DeclaredShapes, ThoseThatAreRightRun) {
  for (const DeclaredCase& c : DeclaredCases())
    for (const char* then : {"", "r = Identity(y)", "r = Shape(y)"}) {
      if (c.truth[0] != 'y' && *then) continue;
      CheckGraph(DeclaredText(c, c.truth, then), c.values);
    }
}

TEST(DeclaredShapes, ThoseThatLieAreRefused) {
  for (const DeclaredCase& c : DeclaredCases())
    for (const char* then : {"", "r = Identity(y)", "r = Shape(y)"}) {
      if (c.lie[0] != 'y' && *then) continue;
      const std::string text = DeclaredText(c, c.lie, then);
      auto g = ParseGraph(text, SuiteOps());
      ASSERT_TRUE(g.ok()) << g.status().message() << "\n" << text;
      const auto want = Evaluate(*g, c.values);
      ASSERT_EQ(want.status().code(), Code::kInvalidModel) << text;
      std::vector<Datum> outputs;
      const Status got = RunDeclared(*g, c.values, outputs);
      EXPECT_EQ(got.code(), Code::kInvalidModel) << got.message() << "\n" << text;
      EXPECT_NE(got.message().find("the model says"), std::string::npos) << got.message();
    }
}

/// The lie stands in the middle of a model: nobody outside sees the value, and what follows from
/// its shape needs no run.
TEST(DeclaredShapes, OfValuesThatNobodyReadsAreCompared) {
  constexpr std::string_view kText = R"(graph g(x: f32[4], s: i64[2], a: f32[600]) ->
      (z: f32[600], r) { y, z = Split(x, s) n = Shape(z) r = Expand(a, n) })";
  auto g = ParseGraph(kText, SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const std::vector<Datum> inputs = {Counted({4}), Sizes({1, 3}), Counted({600})};
  std::vector<Datum> outputs;
  EXPECT_EQ(Evaluate(*g, inputs).status().code(), Code::kInvalidModel);
  EXPECT_EQ(RunDeclared(*g, inputs, outputs).code(), Code::kInvalidModel);
}

/// Extents that follow from the inputs of a run win over declared ones: exporters declare results
/// of one batch that run with any.
TEST(DeclaredShapes, ExtentsThatFollowFromTheInputsWin) {
  for (const char* text : {"graph g(x: f32[N]) -> (y: f32[5]) { y = Relu(x) }",
                           "graph g(x: f32[N]) -> (a, y: f32[2]) { a, y = Split(x) "
                           "{num_outputs=2} }",
                           "graph g(x: f32[*]) -> (y: f32[3,5]) { y = Transpose(x) }",
                           "graph g(x: f32[*]) -> (y: f32[5]) { y = Add(x, x) }"}) {
    const std::vector<Datum> inputs = {Counted({6})};
    CheckGraph(text, inputs);
  }
}

/// The same behind a result that the model leaves open: extents that follow from those it has win.
/// Where the model says something of it, that holds for what follows, too.
TEST(DeclaredShapes, ExtentsThatFollowFromResultsWin) {
  const std::vector<Datum> inputs = {Counted({4})};
  for (const char* text :
       {"graph g(x: f32[4]) -> (y: f32[1,8]) { n = NonZero(x) y = Cast(n) {to=1} }",
        "graph g(x: f32[4]) -> (y: f32[1,8], z: f32[9]) { n = NonZero(x) y = Cast(n) {to=1} "
        "r = Relu(y) z = Squeeze(r) }",
        "graph g(x: f32[4]) -> (y: f32[8]) { l = ReduceMax(x) {keepdims=0} o = const f32[] {1} "
        "r = Range(o, l, o) m = Mul(r, l) y = Add(m, o) }"})
    CheckGraph(text, inputs);
  for (const char* lie : {"n: i64[1,5], y: f32[1,8]", "n: i64[1,4], y: f32[1,8]"}) {
    const std::string text =
        Cat("graph g(x: f32[4]) -> (", lie, ") { n = NonZero(x) y = Cast(n) {to=1} }");
    auto g = ParseGraph(text, SuiteOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    std::vector<Datum> outputs;
    EXPECT_EQ(Evaluate(*g, inputs).status().code(), Code::kInvalidModel) << text;
    EXPECT_EQ(RunDeclared(*g, inputs, outputs).code(), Code::kInvalidModel) << text;
  }
}

}  // namespace
}  // namespace infer
