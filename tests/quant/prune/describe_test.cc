#include "quant/prune/describe.h"

#include <gtest/gtest.h>

#include "lib/support/strings.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

/// "op weights zeros/count, ..." of the layers that are seen.
std::string Seen(std::string_view text) {
  std::string all;
  for (const LayerSparsity& l : DescribeSparsity(MustParse(text)))
    all += Cat(all.empty() ? "" : ", ", l.op, l.quantized ? " q " : " ", l.weights, " ", l.zeros,
               "/", l.count);
  return all;
}

TEST(DescribeSparsity, SeesCodesThatTheOperatorMultipliesBy) {
  EXPECT_EQ(Seen(R"(graph g(x: u8[2,3]) -> (y) {
  w = const u8[3,2] {5, 7, 6, 8, 5, 9}
  xz = const u8[] {3}
  wz = const u8[2] {5, 8}
  y = MatMulInteger(x, w, xz, wz) })"),
            "MatMulInteger q w 3/6");
}

TEST(DescribeSparsity, SeesZeroPointsOfBlocks) {
  EXPECT_EQ(Seen(R"(graph g(x: f32[2,4]) -> (y) {
  c = const i8[4,2] {1, 2, 3, 4, 7, 7, 8, 7}
  s = const f32[2,2] {0.1, 0.2, 0.3, 0.4}
  z = const i8[2,2] {1, 2, 7, 8}
  w = DequantizeLinear(c, s, z) {axis=0, block_size=2}
  y = MatMul(x, w) })"),
            "MatMul q c 3/8");
}

TEST(DescribeSparsity, SeesThroughWhatMovesWeights) {
  EXPECT_EQ(Seen(R"(graph g(x: f32[2,4]) -> (y) {
  c = const i8[2,4] {1, 2, 0, 0, 7, 7, 8, 0}
  s = const f32[2] {0.1, 0.2}
  w = DequantizeLinear(c, s) {axis=0}
  t = Transpose(w) {perm=[1, 0]}
  y = MatMul(x, t) })"),
            "MatMul q c 3/8");
  EXPECT_EQ(Seen(R"(graph g(x: f32[2,2]) -> (y) {
  c = const f16[2,2] {1, 0, 0, 0}
  w = Cast(c) {to=1}
  y = MatMul(x, w) })"),
            "MatMul c 3/4");
}

TEST(DescribeSparsity, TellsPatternsOfPackedWeights) {
  const auto layers = DescribeSparsity(MustParse(R"(graph g(x: u8[2,8]) -> (y) {
  w = const i8[8,1] {0, 7, 6, 0, 5, 9, 0, 0}
  y = MatMulInteger(x, w) })"));
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_EQ(layers[0].n, 2);
  EXPECT_EQ(layers[0].m, 4);
  EXPECT_EQ(layers[0].plane.channels, 8);
}

}  // namespace
}  // namespace infer
