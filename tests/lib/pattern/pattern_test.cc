#include "lib/pattern/pattern.h"

#include <gmock/gmock.h>

#include "lib/pattern/match.h"
#include "lib/support/strings.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

using testing::HasSubstr;

/// What is in the way of `p` at value y; "" when it fits.
std::string Why(const Pattern& p, const std::string& text) {
  auto g = ParseGraph(text, Ops());
  if (!g.ok()) return g.status().message();
  Mismatch why;
  return FindMatch(p, g->FindValue("y"), &why) ? "" : why.ToString();
}

TEST(Pattern, TheSamePatternIsTheSameValue) {
  Pattern x = Any();
  const Pattern p = Op("Mul", x, Op("Sigmoid", x));
  EXPECT_EQ(Why(p, "graph g(x: f32[2]) -> (y) { s = Sigmoid(x)  y = Mul(x, s) }"), "");
  EXPECT_EQ(Why(p, "graph g(x: f32[2]) -> (y) { s = Sigmoid(x)  y = Mul(s, x) }"), "");
  EXPECT_THAT(Why(p, "graph g(x: f32[2], z: f32[2]) -> (y) { s = Sigmoid(x)  y = Mul(s, z) }"),
              HasSubstr("is not the value bound before"));
}

TEST(Pattern, OnlyCommutativeOperandsAreSwapped) {
  Pattern x = Any();
  const Pattern p = Op("Sub", x, Number(1));
  EXPECT_EQ(Why(p, "graph g(x: f32[2]) -> (y) { c = const f32[] {1}  y = Sub(x, c) }"), "");
  EXPECT_THAT(Why(p, "graph g(x: f32[2]) -> (y) { c = const f32[] {1}  y = Sub(c, x) }"),
              HasSubstr("'x' is not a constant"));
}

TEST(Pattern, InnerValuesHaveNoOtherUse) {
  Pattern x = Any(), inner = Op("Relu", x);
  const char* shared = "graph g(x: f32[2]) -> (y, r) { r = Relu(x)  y = Abs(r) }";
  EXPECT_THAT(Why(Op("Abs", inner), shared), HasSubstr("'r' has other uses"));
  EXPECT_EQ(Why(Op("Abs", inner.Shared()), shared), "");
  // Two uses inside of the pattern are none outside.
  EXPECT_EQ(
      Why(Op("Mul", inner, inner), "graph g(x: f32[2]) -> (y) { r = Relu(x)  y = Mul(r, r) }"), "");
}

TEST(Pattern, AlternativesAreTriedInOrderAndTold) {
  Pattern x = Any(), a = Op("Relu", x), b = Op("Abs", x), either = OneOf({a, b});
  auto g = ParseGraph("graph g(x: f32[2]) -> (y) { t = Abs(x)  y = Neg(t) }", Ops());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto m = FindMatch(Op("Neg", either), g->FindValue("y"));
  ASSERT_TRUE(m);
  EXPECT_EQ(m->choice(either), 1u);
  EXPECT_TRUE(m->Has(b));
  EXPECT_FALSE(m->Has(a));
  EXPECT_EQ((*m)[x]->name(), "x");
  EXPECT_EQ(m->nodes().size(), 2u);
}

TEST(Pattern, OptionalOperatorsAndOmittedOperands) {
  Pattern x = Any();
  const Pattern p = Op("Neg", Optional("Identity", x));
  EXPECT_EQ(Why(p, "graph g(x: f32[2]) -> (y) { t = Identity(x)  y = Neg(t) }"), "");
  EXPECT_EQ(Why(p, "graph g(x: f32[2]) -> (y) { y = Neg(x) }"), "");
  const char* conv =
      "graph g(x: f32[1,2,4,4]) -> (y) { w = const f32[3,2,3,3] ~1  y = Conv(x, w) }";
  EXPECT_THAT(Why(Op("Conv", x, Any(), Any()), conv), HasSubstr("omitted"));
  EXPECT_EQ(Why(Op("Conv", x, Any(), Any().OrOmitted()), conv), "");
  EXPECT_THAT(Why(Op("Conv", x), conv), HasSubstr("made from 2 operands"));
}

TEST(Pattern, FurtherRootsAreSiblingsOverABoundValue) {
  Pattern x = Any(), w1 = Constant(), w2 = Constant();
  const Pattern roots[] = {Op("MatMul", x, w1), Op("MatMul", x, w2)};
  auto g = ParseGraph(R"(graph g(x: f32[2,3], z: f32[2,3]) -> (y, q, r) { a = const f32[3,4] ~1
    b = const f32[3,4] ~2  y = MatMul(x, a)  r = MatMul(z, b)  q = MatMul(x, b) })",
                      Ops());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto m = FindMatch(roots, g->FindValue("y"));
  ASSERT_TRUE(m);
  EXPECT_EQ((*m)[roots[1]]->name(), "q");
  Mismatch why;
  EXPECT_FALSE(FindMatch(roots, g->FindValue("r"), &why));
  EXPECT_THAT(why.text, HasSubstr("no further use of 'z' fits"));
}

TEST(Pattern, MatchingMayBeginInside) {
  Pattern main = Op("MatMul", Any(), Any());
  const Pattern roots[] = {
      main, Op("Relu", UpTo(3, main, [](const Pattern& p) { return Op("Neg|Abs", p); }))};
  const auto why = [&](const std::string& body) {
    const auto g =
        ParseGraph(Cat("graph g(x: f32[2,2]) -> (y) { p = MatMul(x, x) ", body, " }"), Ops());
    Mismatch miss;
    return FindMatch(roots, g->FindValue("p"), &miss) ? "" : miss.text;
  };
  EXPECT_EQ(why("y = Relu(p)"), "");
  EXPECT_EQ(why("a = Neg(p) b = Abs(a) c = Neg(b) y = Relu(c)"), "");
  EXPECT_EQ(why("a = Neg(p) b = Abs(a) c = Neg(b) d = Neg(c) y = Relu(d)"),
            "no further use of 'p' fits");
  EXPECT_EQ(why("y = Neg(p)"), "no further use of 'p' fits");
  EXPECT_EQ(why("a = Relu(p) y = Add(a, p)"), "'p' has other uses: Add 'y'");
  EXPECT_EQ(why("a = Neg(p) b = Relu(a) y = Add(b, a)"), "'a' has other uses: Add 'y'");

  const auto both = ParseGraph(
      "graph g(x: f32[2,2]) -> (y) { p = MatMul(x, x) q = MatMul(x, p) "
      "s = Add(p, q) y = Relu(s) }",
      Ops());
  const Pattern sum[] = {main, Op("Relu", Op("Add", main, Any()))};
  const auto m = FindMatch(sum, both->FindValue("q"));
  ASSERT_TRUE(m);
  EXPECT_EQ(m->root()->name(), "q");
  EXPECT_EQ((*m)[sum[1]]->name(), "y");
}

TEST(Pattern, AnyOperator) {
  const Pattern p = Op("Neg", Op("*", {}).MoreInputs());
  EXPECT_EQ(Why(p, "graph g(x: f32[2]) -> (y) { a = Add(x, x) y = Neg(a) }"), "");
  EXPECT_EQ(Why(p, "graph g(x: f32[2]) -> (y) { y = Neg(x) }"),
            "matched 1 of 2 nodes (Neg 'y'): 'x' is a graph input, not an operator");
  EXPECT_EQ(Describe(p), "Neg(*(...))");
}

TEST(Pattern, TheDeepestMismatchIsTold) {
  Pattern x = Any();
  const Pattern p = Op("Mul", Op("Add", Op("Erf", Op("Div", x, Number(2))), Number(1)), x);
  EXPECT_EQ(Why(p, R"(graph g(x: f32[2]) -> (y) { c = const f32[] {3}  o = const f32[] {1}
                     d = Div(x, c)  e = Erf(d)  a = Add(e, o)  y = Mul(x, a) })"),
            "matched 4 of 4 nodes (Mul 'y', Add 'a', Erf 'e', Div 'd'): 'c' is not = 2, it is 3");
}

TEST(Pattern, WhatMayStandThereIsNoMismatch) {
  const Pattern p = Op("Abs", Optional("Cast", Op("Neg", Number(2))));
  EXPECT_EQ(Why(p, "graph g(x: f32[2]) -> (y) { c = const f32[] {3}  n = Neg(c)  y = Abs(n) }"),
            "matched 2 of 2 nodes (Abs 'y', Neg 'n'): 'c' is not = 2, it is 3");
  EXPECT_EQ(Why(p, "graph g(x: f32[2]) -> (y) { y = Abs(x) }"),
            "matched 1 of 2 nodes (Abs 'y'): 'x' is a graph input, not a Cast or Neg");
}

TEST(Pattern, DescribesItself) {
  Pattern x = Any();
  EXPECT_EQ(Describe(Op("Mul", x, Op("Sigmoid|Tanh", x))), "Mul(a, Sigmoid|Tanh(a))");
  const Pattern r = Op("Relu", x);
  EXPECT_EQ(Describe(Op("Mul", r, Op("Add", r, Constant()))), "Mul(a:Relu(_), Add(a, const))");
  EXPECT_EQ(Describe(OneOf({Op("Add", Any(), Number(0)), Any()})), "(Add(_, = 0) | _)");
}

TEST(Pattern, ShortNumbersAreExact) {
  EXPECT_TRUE(IsNumber(Tensor::Scalar(1.0f), 1));
  EXPECT_FALSE(IsNumber(Tensor::Scalar(1.00005f), 1));
  EXPECT_TRUE(IsNumber(Tensor::Scalar(1.4142f), 1.41421356));
  EXPECT_FALSE(IsNumber(Tensor::Scalar(1.41f), 1.41421356));
  EXPECT_FALSE(IsNumber(Tensor::Zeros(DType::kF32, {0}), 0));
}

}  // namespace
}  // namespace infer
