/// Which values a Loop carries no more (runtime/cpu/compile/loop_states.h); that results stay the
/// same is tests/suites/bodies_suite.cc.
#include "runtime/cpu/compile/loop_states.h"

#include <gtest/gtest.h>

#include "lib/ir/text.h"
#include "lib/ir/verify.h"
#include "lib/ops/registry.h"

namespace infer {
namespace {

/// The Loop of `text` after the rewrite: how many operands before its captures, and captures.
std::pair<size_t, size_t> CarriedAndCaptured(std::string_view text) {
  static const OpRegistry ops = AllOps();
  auto g = ParseGraph(text, ops);
  EXPECT_TRUE(g.ok()) << g.status().message();
  const auto captured = CaptureUnchangedStates(*g);
  EXPECT_TRUE(captured.ok()) << captured.status().message();
  EXPECT_TRUE(Verify(*g).ok());
  for (const auto& n : g->nodes())
    if (n->Is("Loop")) {
      EXPECT_EQ(n->subgraph("body")->inputs().size(), n->inputs().size());
      return {n->inputs().size() - n->num_captures(), n->num_captures()};
    }
  return {0, 0};
}

TEST(LoopStates, WhatIsPassedOnIsCaptured) {
  EXPECT_EQ(CarriedAndCaptured(R"(graph g(n: i64[], x: f32[4], w: f32[4]) -> (a, b) {
              a, b = Loop(n, _, x, w) {body=graph(i, c, s, w) -> (k, t, w2) {
                k = Identity(c) t = Mul(s, w) w2 = Identity(w) }} })"),
            std::pair(size_t{3}, size_t{1}));
  EXPECT_EQ(CarriedAndCaptured(R"(graph g(n: i64[], x: f32[4], w: f32[4]) -> (a) {
              v = const f32[4] {1, 2, 3, 4}
              a, b, d = Loop(n, _, x, w, v) [x] {body=graph(i, c, s, w, v, x) -> (k, t, w, v) {
                k = Identity(c) p = Mul(s, w) q = Add(p, v) t = Sub(q, x) }} })"),
            std::pair(size_t{3}, size_t{3}));
}

TEST(LoopStates, WhatChangesStays) {
  // The two change places.
  EXPECT_EQ(CarriedAndCaptured(R"(graph g(n: i64[], x: f32[4], y: f32[4]) -> (a, b) {
              a, b = Loop(n, _, x, y) {body=graph(i, c, s, t) -> (k, u, v) {
                k = Identity(c) u = Identity(t) v = Identity(s) }} })"),
            std::pair(size_t{4}, size_t{0}));
  // A loop must give something.
  EXPECT_EQ(CarriedAndCaptured(R"(graph g(n: i64[], x: f32[4]) -> (a) {
              a = Loop(n, _, x) {body=graph(i, c, s) -> (k, s) { k = Identity(c) }} })"),
            std::pair(size_t{3}, size_t{0}));
}

}  // namespace
}  // namespace infer
