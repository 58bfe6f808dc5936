/// What constant folding does to the size of a file: the same work in several branches is done, and
/// written, once; growth is bounded, and told where it is noticeable.
#include <gmock/gmock.h>

#include "lib/ir/eval.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

OptimizeReport Optimized(Graph& g) {
  const Graph before = g.Clone();
  auto report = Optimize(g);
  EXPECT_TRUE(report.ok()) << report.status().message();
  for (const bool c : {false, true}) {
    const std::vector<Datum> inputs = {Tensor::Scalar<bool>(c)};
    const auto a = Evaluate(before, inputs), b = Evaluate(g, inputs);
    EXPECT_TRUE(a.ok() && b.ok());
    EXPECT_TRUE(BitEqual((*a)[0].tensor(), (*b)[0].tensor()));
  }
  return *std::move(report);
}

/// If(c) whose branches hold `then_body` and `else_body`, which make z from their own copy of w, a
/// weight of 256 KiB.
Graph Branches(const std::string& then_body, const std::string& else_body) {
  const auto branch = [](const std::string& body) {
    return Cat("graph() -> (z) { w = const f32[512,128] ~1\n", body, "}");
  };
  return Parsed(Cat("graph g(c: bool[]) -> (y) { y = If(c) {then_branch=", branch(then_body),
                    ", else_branch=", branch(else_body), "} }"));
}

constexpr int64_t kWeight = 512 * 128 * 4;

TEST(Folding, AWeightThatBranchesReorderAlikeStaysOneWeight) {
  // Two halves of the weight change places: an LSTM's gates as exporters write them.
  const std::string halves = R"(
    zero = const i64[1] {0}  half = const i64[1] {128}  third = const i64[1] {384}
    all = const i64[1] {512}
    a = Slice(w, zero, half, zero)  b = Slice(w, half, third, zero)  d = Slice(w, third, all, zero)
    z = Concat(b, d, a) {axis=0})";
  Graph g = Branches(halves, halves);
  const OptimizeReport r = Optimized(g);
  EXPECT_EQ(g.total_nodes(), 1u) << Print(g, {.max_elements = 4, .types = true});
  EXPECT_EQ(r.before.constant_bytes, kWeight + 4 * 8);
  EXPECT_EQ(r.after.constant_bytes, kWeight);
  EXPECT_THAT(r.notes, IsEmpty());  // nothing that a later round has folded after all
}

TEST(Folding, AWeightThatBranchesReadInTwoWaysIsNotHeldTwice) {
  Graph g = Branches("z = Transpose(w) {perm=[1,0]}", R"(t = const i64[2] {128,512}
                                                        z = Reshape(w, t))");
  const OptimizeReport r = Optimized(g);
  EXPECT_EQ(r.before.constant_bytes, kWeight + 2 * 8);
  EXPECT_LE(r.after.constant_bytes, kWeight + 2 * 8);
  EXPECT_THAT(r.notes, Contains(HasSubstr("its result would be too large")));
}

/// Weights that are standardized when the model runs, as networks without normalizations have them:
/// each step makes as much as it reads while the weight is still read, but together they leave one
/// weight for another.
TEST(Folding, StepsThatLeaveOneWeightForAnotherAreFoldedTogether) {
  const std::string text = R"(graph g(c: bool[]) -> (y) { w = const f32[512,128] ~1
    axes = const i64[1] {0}  small = const f32[] {0.00001}  gain = const f32[128] ~2
    m = ReduceMean(w, axes)  d = Sub(w, m)  q = Mul(d, d)  v = ReduceMean(q, axes)
    e = Add(v, small)  s = Sqrt(e)  n = Div(d, s)  z = Mul(n, gain)
    f = Cast(c) {to=1}  y = Mul(z, f))";
  Graph g = Parsed(text + " }");
  const OptimizeReport r = Optimized(g);
  EXPECT_EQ(g.total_nodes(), 2u) << Print(g, {.max_elements = 4, .types = true});
  EXPECT_EQ(r.after.constant_bytes, kWeight);
  EXPECT_THAT(r.notes, IsEmpty());
  // Where something else reads the weight, there would be two.
  std::string two = text + "  u = Mul(w, f) }";
  two.replace(two.find("(y)"), 3, "(y, u)");
  Graph both = Parsed(two);
  const OptimizeReport more = Optimized(both);
  EXPECT_LT(more.after.constant_bytes, 2 * kWeight);
  EXPECT_THAT(more.notes, Contains(HasSubstr("its result would be too large")));
}

/// The bias of places in a window by layers of a table of distances (Swin V2): the hidden layer is
/// larger than the weights, the bias smaller.
TEST(Folding, LayersOfATableAreFoldedTogether) {
  Graph g = Parsed(R"(graph g(c: bool[]) -> (y) { t = const f32[225,2] ~1  w = const f32[2,512] ~2
    b = const f32[512] ~3  v = const f32[512,4] ~4  s = const i64[3] {15,15,4}
    m = MatMul(t, w)  a = Add(m, b)  r = Relu(a)  o = MatMul(r, v)  q = Reshape(o, s)
    p = Transpose(q) {perm=[2,0,1]}  f = Cast(c) {to=1}  y = Mul(p, f) })");
  const OptimizeReport r = Optimized(g);
  EXPECT_EQ(g.total_nodes(), 2u) << Print(g, {.max_elements = 4, .types = true});
  EXPECT_EQ(r.after.constant_bytes, 4 * 225 * 4);
}

/// The sum is one number, but on the way to it stand five million.
TEST(Folding, AFewBytesDoNotBecomeManyOnTheWay) {
  Graph g = Parsed(R"(graph g(c: bool[]) -> (y) { k = const f32[1] {0.5}  s = const i64[1] {5000000}
    e = Expand(k, s)  r = ReduceSum(e)  f = Cast(c) {to=1}  y = Mul(r, f) })");
  const OptimizeReport r = Optimized(g);
  EXPECT_THAT(r.notes, Contains(HasSubstr("its result would be too large")));
}

TEST(Folding, ManySmallResultsDoNotGrowWithoutEnd) {
  // 60 KiB each, every one another: nothing becomes unnecessary.
  std::string text = "graph g(c: bool[]) -> (y) { s = const i64[1] {15360}\n";
  std::string sum = "y = Concat(";
  for (int i = 0; i < 60; ++i) {
    text += Cat("k", i, " = const f32[1] {", i, "}\n e", i, " = Expand(k", i, ", s)\n");
    sum += Cat(i ? ", e" : "e", i);
  }
  Graph g = Parsed(text + sum + ") {axis=0} }");
  const OptimizeReport r = Optimized(g);
  EXPECT_LE(r.after.constant_bytes, int64_t{1} << 20);
  EXPECT_GT(r.after.constant_bytes, int64_t{9} << 16);
  EXPECT_THAT(r.notes, Contains(HasSubstr("constants have grown as far as they may")));
  EXPECT_THAT(r.notes, Contains(HasSubstr("constants grew by ")));
}

/// Both names are graph outputs, so both nodes stay; what is computed from the second is computed
/// once.
/// Declared outputs that lie: the rewrite ends well and folds nothing that contradicts them, a run
/// says that the model is wrong. The header is that of no image, which decodes to an empty one.
TEST(Folding, OutputsThatLieStayForTheRunToRefuse) {
  for (const std::string text :
       {R"(graph g() -> (y: str[2,3], n: i64[2]) { x = const str[2] {"abc.com", "def.net"}
             y, n = StringSplit(x) {delimiter="."} })",
        R"(graph g() -> (y: str[2,2], n: i64[2]) { x = const str[2] {"abc.com", "def.net"}
             y, n = StringSplit(x) {delimiter="reflection"} })",
        R"(graph g() -> (y: i64[1,3]) {
             b = const f32[1,3,4] {0,0,1,1, 0,2,1,3, 0,4,1,5}  s = const f32[1,1,3] {0.9, 0.8, 0.7}
             m = const i64[1] {3}  t = const f32[1] {0.5}  u = const f32[1] {0}
             y = NonMaxSuppression(b, s, m, t, u) })",
        R"(graph g() -> (y: u8[32,32,3]) { x = const u8[4] {1, 2, 3, 4}
             y = ImageDecoder(x) {pixel_format="RGB"} })"}) {
    Graph g = Parsed(text);
    const auto report = Optimize(g);
    ASSERT_TRUE(report.ok()) << report.status().message() << text;
    EXPECT_EQ(g.total_nodes(), 1u) << Print(g, {.max_elements = 4, .types = true});
    EXPECT_EQ(Evaluate(g, {}).status().code(), Code::kInvalidModel) << text;
  }
  // The same calls with outputs that are true become constants.
  Graph g = Parsed(R"(graph g() -> (y: str[2,2], n: i64[2]) {
    x = const str[2] {"abc.com", "def.net"}  y, n = StringSplit(x) {delimiter="."} })");
  ASSERT_TRUE(Optimize(g).ok());
  EXPECT_EQ(g.total_nodes(), 0u);
}

TEST(MergeDuplicates, TwinsThatAreBothOutputsShareTheirReaders) {
  Graph g = Parsed(R"(graph g(x: f32[4,4]) -> (b, d, y) {
    a, b = Split(x) {num_outputs=2}
    c, d = Split(x) {num_outputs=2}
    p = Relu(b)
    q = Relu(d)
    y = Mul(p, q)
  })");
  ASSERT_TRUE(Optimize(g).ok());
  EXPECT_EQ(g.num_nodes(), 4u) << Print(g);
  EXPECT_EQ(g.FindValue("y")->producer()->input(0), g.FindValue("y")->producer()->input(1));
  EXPECT_EQ(g.FindValue("d")->producer()->op(), "Split");
}

/// Each twin makes an output that the other one lacks: the name moves, and nobody reads it.
TEST(MergeDuplicates, AnOutputThatMovesIsAChange) {
  Graph g = Parsed(R"(graph g(x: f32[4,4]) -> (a, c, d) {
    a, b = Split(x) {num_outputs=2}
    c, d = Split(x) {num_outputs=2}
  })");
  const auto report = Optimize(g);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(g.FindValue("d")->producer(), g.FindValue("a")->producer()) << Print(g);
}

/// Two equal results, one declared as what the reader of the other contradicts: both stay.
TEST(MergeDuplicates, WhatDeclarationsContradictIsNotMerged) {
  const auto nodes = [](const std::string& extents) {
    Graph g = Parsed(Cat("graph g(x: f32[*]) -> (a: f32[1,2], y: ", extents,
                         ") { a = Relu(x)  b = Relu(x)  y = Neg(b) }"));
    const auto report = Optimize(g);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return g.num_nodes();
  };
  EXPECT_EQ(nodes("f32[4]"), 3u);
  EXPECT_EQ(nodes("f32[1,2]"), 2u);
}

/// The scores are asked for their last extent, which the cache's inputs tell.
TEST(ShareExtents, WhatIsKnownIsComputedOnceWhereItIsFirst) {
  Graph g = Parsed(R"(graph g(x: f32[B,1,8], past: f32[B,S,8]) -> (y, z) {
    k = Concat(past, x) {axis=1}
    a = const i64[] {1}
    one = const i64[1] {1}
    two = const i64[1] {2}
    zero = const i64[1] {0}
    many = const i64[1] {100}
    p = Shape(past)
    s = Gather(p, a)
    n = Add(s, a)
    u = Cast(n) {to=1}
    z = Neg(u)
    t = Transpose(k) {perm=[0,2,1]}
    scores = MatMul(x, t)
    shape = Shape(scores)
    last = Slice(shape, two, many, zero, one)
    w = const f32[1,1,64] ~1
    mask = Slice(w, zero, last, two, one)
    y = Add(scores, mask)
  })");
  ASSERT_TRUE(Optimize(g).ok());
  ASSERT_EQ(Verify(g).message(), "");
  const Value* scores = g.FindValue("scores");
  ASSERT_NE(scores, nullptr) << Print(g);
  ASSERT_EQ(scores->uses().size(), 1u) << Print(g);
  EXPECT_EQ(scores->uses()[0].user->op(), "Add");
  int shapes = 0;
  for (const auto& n : g.nodes()) shapes += n->Is("Shape");
  EXPECT_EQ(shapes, 1) << Print(g);
}

}  // namespace
}  // namespace infer
