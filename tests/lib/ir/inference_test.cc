/// What inference knows beyond the rules of single operators: values and branches.
#include "lib/ir/inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/ir/body.h"
#include "lib/ir/text.h"
#include "lib/ir/verify.h"
#include "lib/ops/registry.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

class InferenceTest : public ::testing::Test {
 protected:
  /// The type of output 0 of the graph, which must verify.
  std::string TypeOf(std::string_view text) {
    auto g = ParseGraph(text, ops_);
    EXPECT_TRUE(g.ok()) << g.status().message();
    if (!g.ok()) return "";
    const Status verified = Verify(*g);
    EXPECT_TRUE(verified.ok()) << verified.message();
    return ToString(g->outputs()[0]->type());
  }
  const OpRegistry ops_ = AllOps();
};

TEST_F(InferenceTest, ValuesPassThroughFloats) {
  EXPECT_EQ(TypeOf(R"(graph g(x: f32[7,2]) -> (y) {
    s = Shape(x) f = Cast(s) {to=1} h = const f32[] {0.5} m = Mul(f, h) c = Ceil(m)
    i = Cast(c) {to=7} y = Expand(h, i) })"),
            "f32[4,1]");
}

TEST_F(InferenceTest, ValuesOfAnyRankAreKnown) {
  EXPECT_EQ(TypeOf(R"(graph g(x: f32[3]) -> (y) {
    p = const i64[2] {1, 2} r = const i64[2] {-1, 2} a = Reshape(p, r)
    b = const i64[1,2] {3, 4} c = Concat(a, b) {axis=0} d = Transpose(c)
    f = const i64[1] {-1} e = Reshape(d, f) y = ConstantOfShape(e) })"),
            "f32[1,3,2,4]");
}

TEST_F(InferenceTest, NumbersOfNonZeroElementsAreKnown) {
  EXPECT_EQ(TypeOf("graph g(x: f32[2]) -> (y) { c = const f32[4] {1, 0, 2, 3} y = NonZero(c) }"),
            "i64[1,3]");
}

TEST_F(InferenceTest, LargeResultsAreNotMade) {
  EXPECT_EQ(TypeOf(R"(graph g(x: f32[2]) -> (y) {
    s = const i64[1] {1099511627776} y = ConstantOfShape(s) })"),
            "f32[1099511627776]");
}

TEST_F(InferenceTest, WhatFailsIsLeftToTheRun) {
  EXPECT_EQ(TypeOf(R"(graph g(x: f32[2]) -> (y) {
    a = const i64[1] {1} b = const i64[1] {0} q = Div(a, b) y = Reshape(x, q) })"),
            "f32[2]");
}

TEST_F(InferenceTest, AKnownConditionTakesItsBranch) {
  const auto graph = [](const char* extents) {
    return Cat("graph g(x: f32[", extents, R"(]) -> (y) {
      s = Shape(x) n = Size(s) two = const i64[] {2} c = Equal(n, two)
      y = If(c) [x] {then_branch=graph(a) -> (b) { k = const i64[1] {0} b = Unsqueeze(a, k) },
                     else_branch=graph(d) -> (e) { e = Identity(d) }} })");
  };
  EXPECT_EQ(TypeOf(graph("5,6")), "f32[1,5,6]");
  EXPECT_EQ(TypeOf(graph("4,5,6")), "f32[4,5,6]");
}

TEST_F(InferenceTest, ABranchThatIsNeverTakenMayBeIllTyped) {
  EXPECT_EQ(TypeOf(R"(graph g(x: f32[5,6]) -> (y) {
    s = Shape(x) n = Size(s) three = const i64[] {3} c = Equal(n, three)
    y = If(c) [x] {then_branch=graph(a) -> (b) { b = Transpose(a) {perm=[0, 2, 1]} },
                   else_branch=graph(d) -> (e) { e = Identity(d) }} })"),
            "f32[5,6]");
}

TEST_F(InferenceTest, CopiedExtentsStandOnBothSidesOfAReshape) {
  EXPECT_EQ(TypeOf(R"(graph g(x: f32[?,?,2,8]) -> (y) {
    s = const i64[3] {0, 0, -1} y = Reshape(x, s) })"),
            "f32[?,?,16]");
}

TEST_F(InferenceTest, ExpandKeepsExtentsThatItCannotRepeat) {
  EXPECT_EQ(TypeOf("graph g(x: f32[3,1,N], s: i64[2]) -> (y) { y = Expand(x, s) }"), "f32[3,?,?]");
}

/// Constants of no elements, of any rank: found by import_fuzz as a read from address 0.
TEST_F(InferenceTest, BoundsOfASliceAreAsManyAsItsAxes) {
  for (const std::string_view bounds : {"s, e", "s, e, s", "e, s, s", "e, e, s"}) {
    const auto g = ParseGraph(Cat("graph g(x: f32[4,6]) -> (y) { s = const i64[2] {0,1}  "
                                  "e = const i64[2,0] {}  y = Slice(x, ",
                                  bounds, ") }"),
                              ops_);
    EXPECT_EQ(g.status().code(), Code::kInvalidModel) << bounds;
  }
}

TEST_F(InferenceTest, ADeclaredRankIsComparedBeforeAShapeIsMade) {
  // 2^32 + 2 is 2 where somebody narrows it; nobody may make 2^31 extents to see that they are
  // many.
  for (const int64_t n : {int64_t{33}, int64_t{1} << 24, (int64_t{1} << 31) - 1, int64_t{1} << 31,
                          (int64_t{1} << 32) + 2, (int64_t{1} << 40) + 2, int64_t{1} << 55})
    for (const std::string_view op :
         {"Reshape(x, s)", "Expand(x, s)", "Tile(u, s)", "Slice(x, s, s)", "Unsqueeze(x, s)",
          "ConstantOfShape(s)", "Col2Im(x, s, s)", "AffineGrid(x, s)"}) {
      const auto g = ParseGraph(
          Cat("graph g(x: f32[2,3,4], u: f32[*], s: i64[", n, "]) -> (y) { y = ", op, " }"), ops_);
      EXPECT_EQ(g.status().code(), Code::kInvalidModel) << op << " " << n;
    }
  EXPECT_EQ(TypeOf("graph g(x: f32[2], s: i64[32]) -> (y) { y = ConstantOfShape(s) }").size(),
            std::string_view("f32[]").size() + 2 * 32 - 1);
}

TEST_F(InferenceTest, AFusedOperatorCostsWhatItsBodyDoes) {
  const auto flops = [&](std::string_view nodes) {
    int64_t sum = 0;
    const auto g = ParseGraph(Cat("graph g(x: f32[2,3,4], z: f32[2,3,4]) -> (y) { w1 = const "
                                  "f32[4,8] ~1 b1 = const f32[8] ~2"
                                  " w2 = const f32[8,4] ~3 b2 = const f32[4] ~4 ",
                                  nodes, " }"),
                              ops_);
    EXPECT_TRUE(g.ok()) << g.status().message();
    for (const auto& n : g->nodes()) sum += CostOfNode(*n, ops_).flops;
    return sum;
  };
  EXPECT_EQ(flops("y = infer::Mlp(x, w1, b1, w2, b2)"),
            flops("p = MatMul(x, w1) h = Add(p, b1) a = Relu(h) q = MatMul(a, w2) y = Add(q, b2)"));
  EXPECT_EQ(flops("y = infer::SwiGLU(x, z)"), flops("s = Sigmoid(x) m = Mul(x, s) y = Mul(m, z)"));
}

TEST_F(InferenceTest, ACostOfDeclaredExtentsMakesNothing) {
  for (const int64_t n : {int64_t{1} << 31, int64_t{1} << 40, int64_t{1} << 52}) {
    const auto g = ParseGraph(
        Cat("graph g(x: f32[", n, ",2,2], w: f32[", n, ",2,2]) -> (y) { y = MatMul(x, w) }"), ops_);
    ASSERT_TRUE(g.ok()) << g.status().message();
    EXPECT_EQ(CostOfNode(*g->nodes().front(), ops_).flops, std::min(16 * n, int64_t{1} << 56));
  }
}

TEST_F(InferenceTest, MoreAxesThanTheRankAreRefusedBeforeTheyAreCompared) {
  std::vector<int64_t> axes(1 << 20);
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  const auto* unsqueeze = ops_.Find("Unsqueeze");
  const ValueType x = TensorType{DType::kF32, Shape(Dims{2, 3})};
  const Tensor list = Tensor::Int64s(axes);
  const ValueType list_type = list.type();
  const AttrMap none;
  OpCall call(*unsqueeze, none, 2, 1);
  call.BindInput(0, &x);
  call.BindInput(1, &list_type, &list);
  EXPECT_EQ(InferCall(call, {}, {}, ops_).code(), Code::kInvalidModel);
}

}  // namespace
}  // namespace infer
