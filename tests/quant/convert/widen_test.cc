#include "quant/convert/widen.h"

#include <gmock/gmock.h>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"

namespace infer {
namespace {

const OpRegistry& Ops() {
  static const OpRegistry ops = AllOps();
  return ops;
}

Graph MustParse(std::string_view text) {
  auto g = ParseGraph(text, Ops());
  EXPECT_TRUE(g.ok()) << g.status().message();
  return *std::move(g);
}

TEST(WidenFloats, ComputesInF32BetweenCasts) {
  Graph g = MustParse(R"(graph g(x: f16[2,4], c: bool[]) -> (y, z) {
    w = const f16[4,3] ~1  b = const f16[3] {1, 2, 3}
    m = MatMul(x, w)  a = Add(m, b)
    y = If(c) [a] {then_branch=graph(a) -> (r) { s = const f16[] {2} r = Mul(a, s) },
                   else_branch=graph(a) -> (r) { f = Cast(a) {to=1} e = Exp(f) r = Cast(e) {to=10} }}
    k = const i64[1] {3}  o = ConstantOfShape(k) {value=const f16[1] {1}}  z = Add(a, o) })");
  EXPECT_TRUE(HasHalfLayers(g));
  const Graph before = g.Clone();
  ASSERT_TRUE(WidenFloats(g).ok()) << WidenFloats(g).message();
  EXPECT_FALSE(HasHalfLayers(g));
  for (const auto& n : g.nodes())
    EXPECT_TRUE(n->Is("Cast") || n->output()->dtype() != DType::kF16) << n->op();
  for (const char* name : {"y", "z"}) {
    ASSERT_NE(g.FindValue(name), nullptr);
    EXPECT_EQ(g.FindValue(name)->dtype(), DType::kF16) << Print(g);
  }
  for (const bool c : {false, true}) {
    Tensor x(DType::kF16, {2, 4});
    for (int64_t i = 0; i < 8; ++i) x.Set(i, 0.1 * static_cast<double>(i) - 0.3);
    const std::vector<Datum> inputs = {x, Tensor::Scalar<bool>(c)};
    const auto want = Evaluate(before, inputs), got = Evaluate(g, inputs);
    ASSERT_TRUE(want.ok() && got.ok()) << got.status().message();
    for (size_t o = 0; o < 2; ++o)
      for (int64_t i = 0; i < (*want)[o].tensor().num_elements(); ++i)
        EXPECT_NEAR((*got)[o].tensor().At(i), (*want)[o].tensor().At(i), 0.1);
  }
}

TEST(WidenFloats, LeavesModelsOfF32Alone) {
  EXPECT_FALSE(
      HasHalfLayers(MustParse("graph g(x: f16[2,4]) -> (y) { w = const f32[4,3] ~1 f = Cast(x) "
                              "{to=1} y = MatMul(f, w) }")));
}

/// An output that is an input keeps its type, and so does one that is a constant.
TEST(WidenFloats, KeepsTheInterface) {
  Graph g = MustParse(R"(graph g(x: f16[2,2], u: f16[1]) -> (x, w, y) {
    w = const f16[2,2] {1, 2, 3, 4}  y = MatMul(x, w) })");
  ASSERT_TRUE(WidenFloats(g).ok()) << WidenFloats(g).message();
  for (const Value* v : g.outputs()) EXPECT_EQ(v->dtype(), DType::kF16) << Print(g);
  for (const Value* v : g.inputs()) EXPECT_EQ(v->dtype(), DType::kF16);
}

}  // namespace
}  // namespace infer
