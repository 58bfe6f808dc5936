/// Which values a loop carries no more (lib/ir/loop_states.h); that backends give the same results
/// is tests/suites/bodies_suite.cc.
#include "lib/ir/loop_states.h"

#include <gtest/gtest.h>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ir/verify.h"
#include "lib/ops/registry.h"

namespace infer {
namespace {

Graph Parsed(std::string_view text) {
  static const OpRegistry ops = AllOps();
  auto g = ParseGraph(text, ops);
  EXPECT_TRUE(g.ok()) << g.status().message();
  return *std::move(g);
}

const Node* LoopOf(const Graph& g) {
  for (const auto& n : g.nodes())
    if (!n->subgraphs().empty()) return n.get();
  return nullptr;
}

/// The loop of `text` after the rewrite: how many operands before its captures, and captures.
std::pair<size_t, size_t> CarriedAndCaptured(std::string_view text) {
  Graph g = Parsed(text);
  const auto captured = CaptureUnchangedStates(g);
  EXPECT_TRUE(captured.ok()) << captured.status().message();
  EXPECT_TRUE(Verify(g).ok());
  const Node* const n = LoopOf(g);
  if (!n) return {0, 0};
  EXPECT_EQ(n->subgraph("body")->inputs().size(), n->inputs().size());
  return {n->inputs().size() - n->num_captures(), n->num_captures()};
}

/// `changed` of the values are carried no more, and the reference gives the same bits.
void CheckSameBits(std::string_view text, const std::vector<Datum>& inputs, int changed) {
  Graph g = Parsed(text);
  const auto want = Evaluate(g, inputs);
  ASSERT_TRUE(want.ok()) << want.status().message();
  std::vector<std::string> names;
  for (const Value* v : g.outputs()) names.push_back(v->name());
  const auto captured = CaptureUnchangedStates(g);
  ASSERT_TRUE(captured.ok()) << captured.status().message();
  EXPECT_EQ(*captured, changed);
  EXPECT_TRUE(Verify(g).ok());
  const auto got = Evaluate(g, inputs);
  ASSERT_TRUE(got.ok()) << got.status().message();
  for (size_t i = 0; i < want->size(); ++i) {
    EXPECT_EQ(g.outputs()[i]->name(), names[i]);
    EXPECT_TRUE(BitEqual((*want)[i].tensor(), (*got)[i].tensor())) << names[i];
  }
}

TEST(LoopStates, WhatIsPassedOnIsReadFromOutside) {
  EXPECT_EQ(CarriedAndCaptured(R"(graph g(n: i64[], x: f32[4], w: f32[4]) -> (a, b) {
              a, b = Loop(n, _, x, w) {body=graph(i, c, s, w) -> (k, t, w2) {
                k = Identity(c) t = Mul(s, w) w2 = Identity(w) }} })"),
            std::pair(size_t{3}, size_t{1}));
  // The constant is one of the body.
  EXPECT_EQ(CarriedAndCaptured(R"(graph g(n: i64[], x: f32[4], w: f32[4]) -> (a) {
              v = const f32[4] {1, 2, 3, 4}
              a, b, d = Loop(n, _, x, w, v) [x] {body=graph(i, c, s, w, v, x) -> (k, t, w, v) {
                k = Identity(c) p = Mul(s, w) q = Add(p, v) t = Sub(q, x) }} })"),
            std::pair(size_t{3}, size_t{2}));
  EXPECT_EQ(CarriedAndCaptured(R"(graph g(x: f32[4], w: f32[4], z: f32[5,4]) -> (a, b, all) {
              v = const f32[4] {1, 2, 3, 4}
              a, b, d, all = Scan(x, w, v, z) {num_scan_inputs=1,
                body=graph(s, w, v, r) -> (t, w, v, o) {
                  p = Mul(s, w) q = Add(p, v) t = Sub(q, r) o = Identity(t) }} })"),
            std::pair(size_t{2}, size_t{1}));
}

TEST(LoopStates, WhatChangesStays) {
  // The two change places.
  EXPECT_EQ(CarriedAndCaptured(R"(graph g(n: i64[], x: f32[4], y: f32[4]) -> (a, b) {
              a, b = Loop(n, _, x, y) {body=graph(i, c, s, t) -> (k, u, v) {
                k = Identity(c) u = Identity(t) v = Identity(s) }} })"),
            std::pair(size_t{4}, size_t{0}));
  // The final value is told to have other extents than the first one.
  EXPECT_EQ(CarriedAndCaptured(R"(graph g(n: i64[], x: f32[?], y: f32[4]) -> (a: f32[4], b) {
              a, b = Loop(n, _, x, y) {body=graph(i, c, s, t) -> (k, s, v) {
                k = Identity(c) v = Neg(t) }} })"),
            std::pair(size_t{4}, size_t{0}));
  EXPECT_EQ(CarriedAndCaptured(R"(graph g(n: i64[], x: seq(f32[4]), y: f32[4]) -> (a, b) {
              a, b = Loop(n, _, x, y) {body=graph(i, c, s: seq(f32[4]), t) -> (k, s, v) {
                k = Identity(c) e = SequenceAt(s, i) v = Add(t, e) }} })"),
            std::pair(size_t{4}, size_t{0}));
  // A loop must give something.
  EXPECT_EQ(CarriedAndCaptured(R"(graph g(n: i64[], x: f32[4]) -> (a) {
              a = Loop(n, _, x) {body=graph(i, c, s) -> (k, s) { k = Identity(c) }} })"),
            std::pair(size_t{3}, size_t{0}));
}

/// Any number of iterations; a state is also stacked, is read behind the loop, is an
/// output of the graph, is passed in twice, and is the condition of the loop.
TEST(LoopStates, ResultsStayTheSame) {
  for (const int64_t n : {0, 1, 5})
    CheckSameBits(R"(graph g(n: i64[], go: bool[], x: f32[2], w: f32[2]) -> (a, w1, v1, b, s1, s2) {
          v = const f32[2] {3, 5}
          a, w1, v1, w2, g1, s1, s2 = Loop(n, go, x, w, v, w, go) {
            body=graph(i, c, s, w, v, u, g) -> (g, t, w, v3, u, g, w, v2) {
              v2 = Identity(v) v3 = Identity(v2) p = Mul(s, w) q = Add(p, u) t = Add(q, v) }}
          b = Add(w2, a) })",
                  {Tensor::Scalar<int64_t>(n), Tensor::Scalar<bool>(true),
                   Tensor::Of<float>({2}, {1, 2}), Tensor::Of<float>({2}, {0.5, -1})},
                  4);
  for (const int64_t n : {0, 4}) {
    Tensor z(DType::kF32, {n, 2});
    for (int64_t i = 0; i < z.num_elements(); ++i) z.Set(i, static_cast<double>(i));
    CheckSameBits(R"(graph g(x: f32[2], w: f32[2], z: f32[N,2]) -> (a, w1, all, ws) {
          a, w1, all, ws = Scan(x, w, z) {num_scan_inputs=1, scan_input_directions=[1],
            scan_output_axes=[1, 0], body=graph(s, w, r) -> (t, w, t, w) {
              p = Mul(s, w) t = Add(p, r) }} })",
                  {Tensor::Of<float>({2}, {1, 2}), Tensor::Of<float>({2}, {0.5, -1}), z}, 1);
  }
}

}  // namespace
}  // namespace infer
