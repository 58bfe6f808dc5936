/// One answer to each question about the role of a node, on graphs in text form.
#include "lib/ir/roles.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"

namespace infer {
namespace {

Graph RoleGraph(std::string_view text) {
  static const OpRegistry ops = AllOps();
  auto g = ParseGraph(text, ops);
  EXPECT_TRUE(g.ok()) << g.status().message();
  return *std::move(g);
}

const Node& MakerOf(const Graph& g, std::string_view value) {
  return *g.FindValue(value)->producer();
}

TEST(Roles, LayersByTheirWeights) {
  const Graph g = RoleGraph(R"(graph g(x: f32[1,4,6,6], w: f32[4,4,3,3], a: f32[4,4],
                                       q: u8[1,4,6,6], v: u8[4,4,3,3]) -> (c, t, m, p, s, i) {
    c = Conv(x, w)
    t = ConvTranspose(x, w)
    m = MatMul(a, a)
    p = Gemm(a, a)
    s = Gemm(a, a) {transB=1, alpha=2.0}
    i = ConvInteger(q, v) })");
  EXPECT_TRUE(IsConvolution(MakerOf(g, "c")) && !IsTransposedConvolution(MakerOf(g, "c")));
  EXPECT_TRUE(IsTransposedConvolution(MakerOf(g, "t")) && !IsConvolution(MakerOf(g, "t")));
  for (const char* product : {"m", "p", "s"}) EXPECT_TRUE(IsMatrixProduct(MakerOf(g, product)));
  for (const char* other : {"c", "t", "i"}) EXPECT_FALSE(IsMatrixProduct(MakerOf(g, other)));
  EXPECT_FALSE(IsConvolution(MakerOf(g, "i"))) << "its weights are codes";
  EXPECT_FALSE(TakesBias(MakerOf(g, "m")));
  EXPECT_TRUE(TakesBias(MakerOf(g, "p")) && TakesBias(MakerOf(g, "c")));
  EXPECT_TRUE(IsPlainProduct(MakerOf(g, "m")) && IsPlainProduct(MakerOf(g, "p")));
  EXPECT_FALSE(IsPlainProduct(MakerOf(g, "s")) || IsPlainProduct(MakerOf(g, "c")));
}

TEST(Roles, BoundsThatAreConstant) {
  const Graph g = RoleGraph(R"(graph g(x: f32[3], limit: f32[]) -> (r, c, o, n, z, l) {
    low = const f32[] {0}  high = const f32[] {6}
    r = Relu(x)
    c = Clip(x, low, high)
    o = Clip(x, low, limit)
    n = Clip(x)
    z = Clip(x, low)
    l = LeakyRelu(x) })");
  EXPECT_TRUE(IsRelu(MakerOf(g, "r")) && IsRelu(MakerOf(g, "z")));
  const auto c = ClampOf(MakerOf(g, "c")), n = ClampOf(MakerOf(g, "n"));
  ASSERT_TRUE(c && n);
  EXPECT_EQ(c->low, 0);
  EXPECT_EQ(c->high, 6);
  EXPECT_TRUE(std::isinf(n->low) && std::isinf(n->high));
  EXPECT_FALSE(IsRelu(MakerOf(g, "c")) || IsRelu(MakerOf(g, "n")));
  EXPECT_FALSE(ClampOf(MakerOf(g, "o"))) << "a bound comes with the run";
  EXPECT_FALSE(ClampOf(MakerOf(g, "l")));
}

TEST(Roles, TheOtherOperand) {
  const Graph g = RoleGraph(R"(graph g(x: f32[3], y: f32[3]) -> (s, t, m, d, u) {
    s = Add(x, y)
    t = Sub(x, y)
    m = Mul(y, x)
    d = Add(x, x)
    u = Sum(x, y) })");
  const Value *x = g.FindValue("x"), *y = g.FindValue("y");
  EXPECT_EQ(AddedTo(x, MakerOf(g, "s")), y);
  EXPECT_EQ(AddedTo(y, MakerOf(g, "s")), x);
  EXPECT_EQ(MultipliedBy(x, MakerOf(g, "m")), y);
  EXPECT_EQ(MultipliedBy(x, MakerOf(g, "s")), nullptr);
  EXPECT_EQ(AddedTo(x, MakerOf(g, "d")), nullptr) << "both operands are x";
  EXPECT_EQ(AddedTo(x, MakerOf(g, "t")), nullptr);
  EXPECT_EQ(AddedTo(g.FindValue("s"), MakerOf(g, "s")), nullptr) << "no operand";
}

TEST(Roles, MovesOfAMatrix) {
  const Graph g = RoleGraph(R"(graph g(x: f32[2,3]) -> (t, p, k, i, s, e) {
    t = Transpose(x)
    p = Transpose(x) {perm=[1, 0]}
    k = Transpose(x) {perm=[0, 1]}
    i = Identity(x)
    s = Shape(x) {start=0}
    e = Shape(x) {end=1} })");
  EXPECT_TRUE(TurnsMatrix(MakerOf(g, "t")) && TurnsMatrix(MakerOf(g, "p")));
  EXPECT_FALSE(TurnsMatrix(MakerOf(g, "k")) || TurnsMatrix(MakerOf(g, "i")));
  EXPECT_EQ(PermOf(MakerOf(g, "t")), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(PermOf(MakerOf(g, "t"), 3), (std::vector<int64_t>{2, 1, 0}));
  EXPECT_TRUE(IsIdentity(MakerOf(g, "i")) && !IsIdentity(MakerOf(g, "k")));
  EXPECT_TRUE(IsWholeShape(MakerOf(g, "s")) && !IsWholeShape(MakerOf(g, "e")));
}

TEST(Roles, SamplingThatComputes) {
  const Graph g = RoleGraph(R"(graph g(x: f32[1,1,4,4]) -> (n, l, c) {
    sizes = const i64[4] {1, 1, 8, 8}  roi = const f32[8] {0, 0, 0, 0, 1, 1, 1, 1}
    n = Resize(x, _, _, sizes) {mode="nearest"}
    l = Resize(x, _, _, sizes) {mode="linear"}
    c = Resize(x, roi, _, sizes) {coordinate_transformation_mode="tf_crop_and_resize"} })");
  EXPECT_FALSE(Interpolates(MakerOf(g, "n")));
  EXPECT_TRUE(Interpolates(MakerOf(g, "l")) && Interpolates(MakerOf(g, "c")));
}

TEST(Roles, CodesAndNumbers) {
  const Graph g = RoleGraph(R"(graph g(x: f32[3], scale: f32[]) -> (d, e, c) {
    s = const f32[] {0.5}
    q = QuantizeLinear(x, s)
    d = DequantizeLinear(q, s)
    r = QuantizeLinear(x, scale)
    e = DequantizeLinear(r, scale)
    c = Cast(x) {to=10} })");
  const Node &q = MakerOf(g, "q"), &d = MakerOf(g, "d");
  EXPECT_TRUE(IsQuantizeOrDequantize(q) && IsQuantizeOrDequantize(d));
  EXPECT_TRUE(IsCast(MakerOf(g, "c")) && !IsCast(q));
  EXPECT_EQ(CodesSide(q), g.FindValue("q"));
  EXPECT_EQ(CodesSide(d), g.FindValue("q"));
  EXPECT_EQ(NumbersSide(q), g.FindValue("x"));
  EXPECT_EQ(NumbersSide(d), g.FindValue("d"));
  EXPECT_EQ(DequantizeBefore(g.FindValue("d")), &d);
  EXPECT_EQ(DequantizeBefore(g.FindValue("q")), nullptr);
  EXPECT_EQ(DequantizeBefore(nullptr), nullptr);
  EXPECT_EQ(QuantizeBefore(g.FindValue("q")), &q);
  EXPECT_EQ(QuantizeBehind(g.FindValue("x")), nullptr) << "several readers";
  EXPECT_TRUE(HasConstantParams(q) && !HasConstantParams(MakerOf(g, "e")));
}

TEST(Roles, AttributesThatOthersLack) {
  const Graph g = RoleGraph(R"(graph g(x: f32[3]) -> (a, r) {
    a = LeakyRelu(x)
    r = Relu(x) })");
  EXPECT_FLOAT_EQ(MakerOf(g, "a").AttrOr("alpha", 7.0f), 0.01f) << "the default";
  EXPECT_FLOAT_EQ(MakerOf(g, "r").AttrOr("alpha", 7.0f), 7.0f);
}

}  // namespace
}  // namespace infer
