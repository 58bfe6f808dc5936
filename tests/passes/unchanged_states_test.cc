/// Weights that loops hand from turn to turn: after simplifying they are constants of the body.
#include <gtest/gtest.h>

#include "lib/ir/eval.h"
#include "passes/pass/pipeline.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

const Graph* BodyIn(const Graph& g) {
  for (const auto& n : g.nodes())
    if (!n->subgraphs().empty()) return n->subgraphs()[0].second.get();
  return nullptr;
}

void CheckSameBits(const Graph& before, const Graph& after) {
  for (const int64_t n : {0, 1, 3}) {
    const std::vector<Datum> inputs = {Tensor::Scalar<int64_t>(n), Tensor::Scalar<int64_t>(2),
                                       Tensor::Of<float>({1, 4}, {1, -1, 0.5, 2})};
    const auto a = Evaluate(before, inputs), b = Evaluate(after, inputs);
    ASSERT_TRUE(a.ok() && b.ok());
    for (size_t i = 0; i < a->size(); ++i)
      EXPECT_TRUE(BitEqual((*a)[i].tensor(), (*b)[i].tensor()));
  }
}

/// A GRU's weights as Keras hands them on, one of them cut within the body.
TEST(UnchangedStates, WeightsAreConstantsOfTheBody) {
  Graph g = Parsed(R"(graph g(n: i64[], m: i64[], x: f32[1,4]) -> (y, w2, m2) {
    w = const f32[4,8] ~1
    m2 = Identity(m)
    y, w2 = Loop(n, _, x, w) {body=graph(i, c, s, w) -> (k, t, v) {
      k = Identity(c)
      v = Identity(w)
      zero = const i64[1] {0}  half = const i64[1] {4}  one = const i64[1] {1}
      cut = Slice(w, zero, half, one)
      p = MatMul(s, cut) {name="product"}
      t = Tanh(p) }} })");
  const Graph before = g.Clone();
  ASSERT_TRUE(Optimize(g).ok());
  const Graph* const body = BodyIn(g);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->inputs().size(), 3u);
  int products = 0;
  for (const auto& n : body->nodes())
    if (n->Is("MatMul")) {
      EXPECT_EQ(n->name(), "product");
      EXPECT_TRUE(n->input(1)->is_constant());
      ++products;
    }
  EXPECT_EQ(products, 1);
  EXPECT_EQ(g.outputs()[1]->name(), "w2");
  CheckSameBits(before, g);
}

/// The outer loop changes its state only once the inner one is known not to.
TEST(UnchangedStates, ThroughALoopWithinALoop) {
  Graph g = Parsed(R"(graph g(n: i64[], m: i64[], x: f32[1,4]) -> (y, w2) {
    w = Exp(x)
    y, w2 = Loop(n, _, x, w) [m] {body=graph(i, c, s, w, m) -> (k, t, v) {
      k = Identity(c)
      t, v = Loop(m, _, s, w) {body=graph(i, c, s, w) -> (k, t, v) {
        k = Identity(c)
        v = Identity(w)
        p = Mul(s, w)
        t = Tanh(p) }} }} })");
  const Graph before = g.Clone();
  ASSERT_TRUE(Optimize(g).ok());
  for (const auto& n : g.nodes())
    if (n->Is("Loop")) {
      EXPECT_EQ(n->inputs().size() - n->num_captures(), 3u);
    }
  const Graph* const outer = BodyIn(g);
  ASSERT_TRUE(outer);
  for (const auto& n : outer->nodes())
    if (n->Is("Loop")) {
      EXPECT_EQ(n->inputs().size() - n->num_captures(), 3u);
    }
  CheckSameBits(before, g);
}

}  // namespace
}  // namespace infer
