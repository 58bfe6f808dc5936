/// Caches are found by what happens to their elements, not by their names.
#include "lib/ir/carried.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"

namespace infer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Graph GraphWithCaches(std::string_view text) {
  static const OpRegistry ops = AllOps();
  auto g = ParseGraph(text, ops);
  EXPECT_TRUE(g.ok()) << g.status().message();
  return *std::move(g);
}

std::vector<CarriedValue> CarriedIn(std::string_view text) {
  return FindCarried(GraphWithCaches(text));
}

TEST(Carried, CachesThatConcatExtends) {
  EXPECT_THAT(CarriedIn(R"(graph g(x: f32[1,2,1,4], a: f32[1,2,N,4], b: f32[1,2,N,4]) -> (y, v, k) {
                e = Relu(x)  k = Concat(a, e) {axis=2}  h = Exp(x)  v = Concat(b, h) {axis=2}
                t = Transpose(k) {perm=[0,1,3,2]}  y = MatMul(h, t) })"),
              ElementsAre(CarriedValue{2, 1}, CarriedValue{1, 2}));
}

TEST(Carried, CachesOfKeysAndValuesInOneTensor) {
  EXPECT_THAT(CarriedIn(R"(graph g(x: f32[1,2,1,4], past: f32[2,1,2,N,4]) -> (y, present) {
                i = const i64[] {0}  j = const i64[] {1}  e = Relu(x)
                a = Gather(past, i) {axis=0}  b = Gather(past, j) {axis=0}
                k = Concat(a, e) {axis=2}  v = Concat(b, e) {axis=2}  z = const i64[1] {0}
                m = Unsqueeze(k, z)  n = Unsqueeze(v, z)  present = Concat(m, n) {axis=0}
                t = Transpose(k) {perm=[0,1,3,2]}  y = MatMul(x, t) })"),
              ElementsAre(CarriedValue{1, 1}));
}

TEST(Carried, CachesThatAnOperatorExtends) {
  EXPECT_THAT(CarriedIn(R"(graph g(q: f32[1,2,1,16], k: f32[1,2,1,16], v: f32[1,2,1,16],
                                   pk: f32[1,2,N,16], pv: f32[1,2,N,16]) -> (y, nk, nv) {
                y, nk, nv = Attention(q, k, v, _, pk, pv) })"),
              ElementsAre(CarriedValue{3, 1}, CarriedValue{4, 2}));
}

TEST(Carried, WhatIsComputedOrAmbiguousIsNoCache) {
  EXPECT_THAT(CarriedIn("graph g(x: f32[4]) -> (y) { y = Relu(x) }"), IsEmpty());
  EXPECT_THAT(CarriedIn("graph g(x: f32[4], z: f32[4]) -> (y) { y = Concat(x, z) {axis=0} }"),
              IsEmpty())
      << "of two inputs, either could be the past";
  EXPECT_THAT(CarriedIn("graph g(x: f32[4,4]) -> (y) { s = const i64[1] {16}  y = Reshape(x, s) }"),
              IsEmpty())
      << "another rank";
}

std::vector<size_t> JudgedIn(std::string_view text) { return JudgedOutputs(GraphWithCaches(text)); }

TEST(JudgedOutputs, AreNoCachesThatOthersAreComputedFrom) {
  EXPECT_THAT(JudgedIn(R"(graph g(x: f32[1,2,1,4], a: f32[1,2,N,4], b: f32[1,2,N,4]) -> (k, v, y) {
                e = Relu(x)  k = Concat(a, e) {axis=2}  h = Exp(x)  v = Concat(b, h) {axis=2}
                t = Transpose(k) {perm=[0,1,3,2]}  s = MatMul(h, t)  y = MatMul(s, v) })"),
              ElementsAre(2));
  EXPECT_THAT(JudgedIn(R"(graph g(q: f32[1,2,1,16], k: f32[1,2,1,16], v: f32[1,2,1,16],
                                  pk: f32[1,2,N,16], pv: f32[1,2,N,16]) -> (y, nk, nv) {
                y, nk, nv = Attention(q, k, v, _, pk, pv) })"),
              ElementsAre(0))
      << "by an operator";
  EXPECT_THAT(JudgedIn(R"(graph g(x: f32[1,2,3,4]) -> (y, present) {
                e = Relu(x)  h = Exp(x)  z = const i64[1] {0}  m = Unsqueeze(e, z)
                n = Unsqueeze(h, z)  present = Concat(m, n) {axis=0}
                t = Transpose(e) {perm=[0,1,3,2]}  s = MatMul(x, t)  y = MatMul(s, h) })"),
              ElementsAre(0))
      << "of the first step, which has no past: by its name, of values on the way";
}

TEST(JudgedOutputs, AreAllWhereNothingElseShowsAnError) {
  EXPECT_THAT(JudgedIn("graph g(x: f32[1,4]) -> (y, z) { y = Relu(x)  z = Exp(y) }"),
              ElementsAre(0, 1))
      << "features are no cache";
  EXPECT_THAT(JudgedIn(R"(graph g(x: f32[1,2,1,4], a: f32[1,2,N,4]) -> (y, k) {
                e = Relu(x)  k = Concat(a, e) {axis=2}  y = Exp(x) })"),
              ElementsAre(0, 1))
      << "nobody reads the cache";
  EXPECT_THAT(JudgedIn(R"(graph g(x: f32[1,2,1,4], a: f32[1,2,N,4]) -> (y, k) {
                e = Relu(x)  k = Concat(a, e) {axis=2}  y = Transpose(k) })"),
              ElementsAre(0, 1))
      << "the same elements in another order";
  EXPECT_THAT(JudgedIn(R"(graph g(x: f32[1,2,1,4], a: f32[1,2,N,4]) -> (k) {
                e = Relu(x)  k = Concat(a, e) {axis=2} })"),
              ElementsAre(0))
      << "nothing but caches";
}

}  // namespace
}  // namespace infer
