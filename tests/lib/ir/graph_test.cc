#include "lib/ir/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/ir/editor.h"
#include "lib/ir/eval.h"
#include "lib/ir/inference.h"
#include "lib/ir/text.h"
#include "lib/ir/verify.h"
#include "lib/ops/registry.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

class GraphTest : public ::testing::Test {
 protected:
  Graph Parse(std::string_view text) {
    auto g = ParseGraph(text, ops_);
    EXPECT_TRUE(g.ok()) << g.status().message();
    return *std::move(g);
  }
  const OpRegistry ops_ = AllOps();
};

constexpr std::string_view kChain =
    "graph g(x: f32[2,N]) -> (y) { a = Identity(x)  b = Identity(a)  y = Identity(b) }";
constexpr std::string_view kBranch = R"(graph g(c: bool[], x: f32[2]) -> (y) {
  y = If(c) [x] {then_branch=graph(x) -> (x) {}, else_branch=graph(v) -> (z) {
    k = const f32[2] {1, 2}
    z = Identity(k) }} })";

TEST_F(GraphTest, InfersSymbolicTypes) {
  Graph g = Parse(kChain);
  EXPECT_EQ(ToString(g.outputs()[0]->type()), "f32[2,N]");
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).message();
}

TEST_F(GraphTest, TextRoundTripKeepsTheFingerprint) {
  for (std::string_view text : {kChain, kBranch}) {
    Graph g = Parse(text);
    Graph again = Parse(Print(g));
    EXPECT_EQ(Fingerprint(g), Fingerprint(again)) << Print(g);
    EXPECT_EQ(Print(g), Print(again));
  }
}

TEST_F(GraphTest, FingerprintIgnoresInnerNamesOnly) {
  const auto of = [&](std::string_view text) { return Fingerprint(Parse(text)); };
  EXPECT_EQ(of(kChain),
            of("graph h(x: f32[2,N]) -> (y) { p = Identity(x) q = Identity(p) y = Identity(q) }"));
  EXPECT_NE(of(kChain),
            of("graph g(z: f32[2,N]) -> (y) { a = Identity(z) b = Identity(a) y = Identity(b) }"));
  EXPECT_NE(of(kChain), of("graph g(x: f32[2,N]) -> (y) { a = Identity(x) y = Identity(a) }"));
  EXPECT_NE(of(kChain),
            of("graph g(x: f32[3,N]) -> (y) { a = Identity(x) b = Identity(a) y = Identity(b) }"));
}

TEST_F(GraphTest, CloneIsIndependentAndEqual) {
  Graph g = Parse(kBranch);
  Graph copy = g.Clone();
  EXPECT_TRUE(Verify(copy).ok()) << Verify(copy).message();
  EXPECT_EQ(Fingerprint(g), Fingerprint(copy));
  GraphEditor(copy).SetName(*copy.nodes().front(), "renamed");
  EXPECT_NE(g.nodes().front()->name(), "renamed");
}

TEST_F(GraphTest, ReplaceAllUsesKeepsOutputNames) {
  Graph g = Parse(kChain);
  GraphEditor editor(g);
  ASSERT_TRUE(editor.ReplaceAllUses(g.FindValue("y"), g.FindValue("a")).ok());
  EXPECT_EQ(editor.Sweep(), 2);
  EXPECT_EQ(g.outputs()[0]->name(), "y");
  EXPECT_EQ(g.num_nodes(), 1u);
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).message();
}

TEST_F(GraphTest, AnInputThatBecomesAnOutputGetsAnIdentity) {
  Graph g = Parse(kChain);
  GraphEditor editor(g);
  ASSERT_TRUE(editor.ReplaceAllUses(g.FindValue("y"), g.FindValue("x")).ok());
  editor.Sweep();
  EXPECT_EQ(Print(g), "graph g(x: f32[2,N]) -> (y: f32[2,N]) {\n  y = Identity(x)\n}\n");
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).message();
}

TEST_F(GraphTest, RefusesAReplacementThatDoesNotRefine) {
  Graph g = Parse("graph g(x: f32[2], z: f32[3]) -> (y, w) { y = Identity(x)  w = Identity(z) }");
  const Status s = GraphEditor(g).ReplaceAllUses(g.FindValue("y"), g.FindValue("w"));
  EXPECT_THAT(s.message(), HasSubstr("f32[2] by f32[3]"));
}

TEST_F(GraphTest, OrderSurvivesManyInsertionsAtOnePlace) {
  Graph g = Parse("graph g(x: f32[2]) -> (y) { y = Identity(x) }");
  GraphEditor editor(g);
  Value* last = g.FindValue("x");
  for (int i = 0; i < 200; ++i) {
    editor.InsertBefore(*g.outputs()[0]->producer());
    last = *editor.Add("Identity", {last});
  }
  editor.SetOperand(*g.outputs()[0]->producer(), 0, last);
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).message();
  const Node* before = nullptr;
  for (const auto& n : g.nodes()) {
    if (before) {
      EXPECT_TRUE(Graph::Before(*before, *n));
    }
    before = n.get();
  }
}

TEST_F(GraphTest, VerifyNamesTheBrokenLaw) {
  Graph g = Parse(kChain);
  GraphEditor editor(g);
  ASSERT_TRUE(editor.Add("Identity", {g.FindValue("x")}).ok());
  EXPECT_THAT(Verify(g).message(), HasSubstr("live: Identity"));
  editor.Sweep();
  editor.SetType(g.FindValue("a"), TensorType{DType::kF32, Shape(Dims{7})});
  EXPECT_THAT(Verify(g).message(),
              HasSubstr("types: Identity -> 'a': stored f32[7], inferred f32[2,N]"));
}

TEST_F(GraphTest, TakesOneZeroPointInEitherShape) {
  constexpr std::string_view kText = R"(graph g(x: i8[2,4]) -> (y) {
    s = const f32[SIZE] {0.5}
    z = const i8[] {1}
    y = DequantizeLinear(x, s, z) })";
  std::string text(kText);
  text.replace(text.find("SIZE"), 4, "1");
  EXPECT_TRUE(Verify(Parse(text)).ok()) << Verify(Parse(text)).message();
  text.replace(text.find("f32[1] {0.5}"), 12, "f32[2] {0.5, 1}");
  EXPECT_THAT(Verify(Parse(text)).message(), HasSubstr("zero point [], scale [2]"));
}

TEST_F(GraphTest, EvaluatesBranches) {
  Graph g = Parse(kBranch);
  const Tensor x = Tensor::Of<float>({2}, {5, 6});
  for (bool c : {true, false}) {
    const Datum in[] = {Tensor::Scalar(c), x};
    auto out = Evaluate(g, in);
    ASSERT_TRUE(out.ok()) << out.status().message();
    EXPECT_EQ((*out)[0].tensor().ToFloats(),
              c ? std::vector<float>({5, 6}) : std::vector<float>({1, 2}));
  }
}

TEST_F(GraphTest, EvaluatesLoopsWithCaptureAndScanOutput) {
  Graph g = Parse(R"(graph g(n: i64[], x: f32[2]) -> (last, all) {
    last, all = Loop(n, _, x) [x] {body=graph(i, c, s, cap) -> (c2, s2, o) {
      c2 = Identity(c)  s2 = Identity(s)  o = Identity(cap) }} })");
  EXPECT_EQ(ToString(g.outputs()[1]->type()), "f32[?,2]");
  const Datum in[] = {Tensor::Scalar<int64_t>(3), Tensor::Of<float>({2}, {5, 6})};
  auto out = Evaluate(g, in);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ((*out)[1].tensor().ToFloats(), std::vector<float>({5, 6, 5, 6, 5, 6}));
}

TEST_F(GraphTest, ALoopGivesItsNumberAsTheBodyDeclaresIt) {
  Graph g = Parse(R"(graph g(n: i64[], x: f32[5]) -> (last, all) {
    z = const f32[1] {0}
    last, all = Loop(n, _, z) [x] {body=graph(i: i64[1], c: bool[1], s: f32[1], v: f32[5]) -> (d, t, o) {
      o = Gather(v, i)  t = Add(s, o)  d = Identity(c) }} })");
  EXPECT_EQ(ToString(g.outputs()[0]->type()), "f32[1]");
  EXPECT_TRUE(Verify(g).ok()) << Verify(g).message();
  const Tensor x = Tensor::Of<float>({5}, {1, 2, 4, 8, 16});
  for (const int64_t n : {0, 3, 5}) {
    const Datum in[] = {Tensor::Scalar<int64_t>(n), x};
    const auto out = Evaluate(g, in);
    ASSERT_TRUE(out.ok()) << out.status().message();
    EXPECT_EQ((*out)[0].tensor().At(0), (1 << n) - 1);
    EXPECT_EQ((*out)[1].tensor().dims(), (Dims{n, 1}));
  }
}

TEST_F(GraphTest, LoopsWithoutIterationsOpenOptionals) {
  Graph g = Parse(R"(graph g(n: i64[], x: optional(f32[2])) -> (y: f32[2]) {
    y = Loop(n, _, x) {body=graph(i, c, s) -> (c2, t) {
      c2 = Identity(c)  e = OptionalGetElement(s)  t = Neg(e) }} })");
  EXPECT_EQ(ToString(g.outputs()[0]->type()), "f32[2]");
  const Datum x(OptionalDatum{std::make_shared<const Datum>(Tensor::Of<float>({2}, {5, 6}))});
  for (int64_t n : {0, 1, 2}) {
    const Datum in[] = {Tensor::Scalar<int64_t>(n), x};
    auto out = Evaluate(g, in);
    ASSERT_TRUE(out.ok()) << out.status().message();
    ASSERT_TRUE((*out)[0].is_tensor());
    EXPECT_EQ((*out)[0].tensor().ToFloats(),
              n == 1 ? std::vector<float>({-5, -6}) : std::vector<float>({5, 6}));
  }
  const Datum nothing[] = {Tensor::Scalar<int64_t>(0), OptionalDatum()};
  EXPECT_THAT(Evaluate(g, nothing).status().message(), HasSubstr("is an empty optional"));
}

TEST_F(GraphTest, MapsSequencesWithCapturesAndTensors) {
  Graph g = Parse(R"(graph g(x: f32[3,2], y: f32[2], z: f32[2]) -> (n, m) {
    s = SplitToSequence(x) {keepdims=0}
    m = SequenceMap(s, y) [z] {body=graph(e, t, cap) -> (r) { d = Sub(e, t) r = Mul(d, cap) }}
    n = ConcatFromSequence(m) {axis=0, new_axis=1} })");
  EXPECT_EQ(ToString(g.outputs()[1]->type()), "seq(f32[2])");
  const Datum in[] = {Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6}), Tensor::Of<float>({2}, {1, 1}),
                      Tensor::Of<float>({2}, {1, 10})};
  auto out = Evaluate(g, in);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ((*out)[0].tensor().ToFloats(), std::vector<float>({0, 10, 2, 30, 4, 50}));
}

TEST_F(GraphTest, FlexAttentionModifiesScoresAndProbabilities) {
  // Equal scores share the values' mean; prob_mod doubles it.
  Graph g = Parse(R"(graph g(q: f32[1,2,1,2], k: f32[1,1,2,2], v: f32[1,1,2,1]) -> (y) {
    y = ai.onnx.preview::FlexAttention(q, k, v) {
      score_mod=graph(s) -> (t) { t = Sub(s, s) }, prob_mod=graph(p) -> (r) { r = Add(p, p) }} })");
  const Datum in[] = {Tensor::Of<float>({1, 2, 1, 2}, {1, 2, 3, 4}),
                      Tensor::Of<float>({1, 1, 2, 2}, {5, 6, 7, 8}),
                      Tensor::Of<float>({1, 1, 2, 1}, {1, 2})};
  auto out = Evaluate(g, in);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ((*out)[0].tensor().ToFloats(), std::vector<float>({3, 3}));
}

TEST_F(GraphTest, SpecializesInputs) {
  Graph g = Parse(kChain);
  EXPECT_THAT(SpecializeInputs(g, {{"q", {1}}}).message(), HasSubstr("inputs are: x"));
  EXPECT_THAT(SpecializeInputs(g, {{"x", {3, 3}}}).message(), HasSubstr("not [3,3]"));
  ASSERT_TRUE(BindSymbols(g, {{"N", 4}}).ok());
  EXPECT_EQ(ToString(g.outputs()[0]->type()), "f32[2,4]");
}

TEST_F(GraphTest, ParserNamesTheLine) {
  const auto error = [&](std::string_view text) {
    return ParseGraph(text, ops_).status().message();
  };
  EXPECT_THAT(error("graph g(x: f32[2]) -> (y) {\n y = Nope(x) }"),
              HasSubstr("line 2: no operator Nope"));
  EXPECT_THAT(error("graph g(x: f32[2]) -> (y) { y = Identity(z) }"),
              HasSubstr("'z' is not defined"));
  EXPECT_THAT(error("graph g(x: q32[2]) -> (y) {}"), HasSubstr("no element type 'q32'"));
  EXPECT_THAT(error("graph g(x: f32[2]) -> (y) { y = Identity(x) "), HasSubstr("expected"));
  EXPECT_THAT(error("graph g(x: f32[2]) -> (y) { y = Identity(x, x) }"), HasSubstr("has 2 inputs"));
}

}  // namespace
}  // namespace infer
