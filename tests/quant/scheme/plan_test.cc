#include "quant/scheme/plan.h"

#include <algorithm>

#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr std::string_view kResidual = R"(
graph residual(x: f32[1,3,8,8]) -> (y: f32[1,5]) {
  w1 = const f32[4,3,3,3] ~1
  w2 = const f32[4,4,3,3] ~2
  w3 = const f32[5,4] ~3
  a = Conv(x, w1) {pads=[1, 1, 1, 1]}
  b = Relu(a)
  c = Conv(b, w2) {pads=[1, 1, 1, 1]}
  d = Add(c, b)
  e = Relu(d)
  f = GlobalAveragePool(e)
  g = Flatten(f)
  y = Gemm(g, w3) {transB=1}
}
)";

QuantPlan MustPlan(const Graph& g, const QuantScheme& scheme = {}) {
  auto plan = PlanQuantization(g, g, scheme);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? *std::move(plan) : QuantPlan();
}

std::vector<std::string> Integer(const QuantPlan& plan) {
  std::vector<std::string> names;
  for (const PlannedNode& p : plan.nodes)
    if (p.integer) names.push_back(p.result->name());
  return names;
}
std::vector<std::string> Values(const QuantPlan& plan) {
  std::vector<std::string> names;
  for (const Value* v : plan.values) names.push_back(v->name());
  return names;
}
int GroupOf(const Graph& g, const QuantPlan& plan, std::string_view name) {
  const int i = plan.FindValue(g.FindValue(name));
  return i < 0 ? -1 : plan.group[static_cast<size_t>(i)];
}
std::string ReasonOf(const QuantPlan& plan, std::string_view output) {
  for (const PlannedNode& p : plan.nodes)
    if (p.node->output(0)->name() == output) return p.reason;
  return "no such node";
}

TEST(PlanQuantization, ResidualNetwork) {
  const Graph g = MustParse(kResidual);
  const QuantPlan plan = MustPlan(g);
  EXPECT_THAT(Integer(plan), ElementsAre("b", "c", "e", "f", "g", "y"));
  EXPECT_THAT(Values(plan), ElementsAre("x", "b", "c", "e", "f", "g"));  // y: a graph output
  EXPECT_EQ(GroupOf(g, plan, "f"), GroupOf(g, plan, "g"));               // Flatten moves
  EXPECT_NE(GroupOf(g, plan, "e"), GroupOf(g, plan, "f"));               // a pool does not
  std::vector<std::string> observed;
  for (const size_t i : plan.observed) observed.push_back(plan.values[i]->name());
  EXPECT_THAT(observed, ElementsAre("x", "b", "c", "e", "f"));
}

TEST(PlanQuantization, TransformerResidualStaysFloat) {
  const Graph g = MustParse(R"(
graph attention(x: f32[1,6,8]) -> (y: f32[1,6,8]) {
  wq = const f32[8,8] ~1
  bq = const f32[8] ~2
  wk = const f32[8,8] ~3
  wo = const f32[8,8] ~4
  q0 = MatMul(x, wq)
  q = Add(q0, bq)
  k = MatMul(x, wk)
  kt = Transpose(k) {perm=[0, 2, 1]}
  s = MatMul(q, kt)
  p = Sigmoid(s)
  v = MatMul(p, x)
  o = MatMul(v, wo)
  r = Add(x, o)
  y = Relu(r)
}
)");
  const QuantPlan plan = MustPlan(g);
  EXPECT_THAT(Integer(plan), ElementsAre("q", "k", "kt", "s", "v", "o"));
  EXPECT_THAT(Values(plan), ElementsAre("x", "q", "k", "kt", "p", "v"));
  EXPECT_EQ(GroupOf(g, plan, "k"), GroupOf(g, plan, "kt"));
  EXPECT_EQ(ReasonOf(plan, "p"), "INT8 does not cover the operator");
  EXPECT_THAT(ReasonOf(plan, "r"), HasSubstr("no consumer"));
}

TEST(PlanQuantization, ConcatSharesAndConstantsFollow) {
  const Graph g = MustParse(R"(
graph fire(x: f32[1,4,4,4]) -> (y: f32[1,2,4,4]) {
  w1 = const f32[3,4,1,1] ~1
  w2 = const f32[3,4,1,1] ~2
  k = const f32[1,1,4,4] ~3
  w3 = const f32[2,7,1,1] ~4
  a0 = Conv(x, w1)
  a = Relu(a0)
  b = Conv(x, w2)
  c = Concat(a, b, k) {axis=1}
  m = MaxPool(c) {kernel_shape=[3, 3], pads=[1, 1, 1, 1]}
  y = Conv(m, w3)
}
)");
  const QuantPlan plan = MustPlan(g);
  EXPECT_THAT(Integer(plan), ElementsAre("a", "b", "c", "m", "y"));
  const int group = GroupOf(g, plan, "c");
  for (const char* name : {"a", "b", "m"}) EXPECT_EQ(GroupOf(g, plan, name), group);
  EXPECT_NE(GroupOf(g, plan, "x"), group);
  EXPECT_EQ(plan.constants.at(g.FindValue("k")), group);
  EXPECT_EQ(plan.observed.size(), 3u);  // x, a, b
}

TEST(PlanQuantization, OutputsAreNotRounded) {
  const Graph g = MustParse(R"(
graph heads(x: f32[1,3,4,4]) -> (a: f32[1,3,4,4], s) {
  w1 = const f32[3,3,1,1] ~1
  w2 = const f32[3,3,1,1] ~2
  a = Conv(x, w1)
  b = Conv(a, w2)
  s = Sigmoid(b)
}
)");
  const QuantPlan plan = MustPlan(g);
  EXPECT_THAT(Values(plan), ElementsAre("x", "a", "b"));
  EXPECT_FALSE(plan.integer_result[static_cast<size_t>(plan.FindValue(g.FindValue("a")))]);
  EXPECT_TRUE(plan.integer_result[static_cast<size_t>(plan.FindValue(g.FindValue("b")))]);
}

TEST(PlanQuantization, KeepsFirstAndLast) {
  const Graph g = MustParse(kResidual);
  QuantScheme scheme;
  scheme.keep_first = 1;
  scheme.keep_last = 1;
  const QuantPlan plan = MustPlan(g, scheme);
  EXPECT_THAT(Integer(plan), ElementsAre("c"));
  EXPECT_THAT(Values(plan), ElementsAre("b", "c"));
  EXPECT_THAT(ReasonOf(plan, "y"), HasSubstr("last"));
  EXPECT_THAT(ReasonOf(plan, "a"), HasSubstr("first"));
}

TEST(PlanQuantization, IncludeAndExclude) {
  const Graph g = MustParse(kResidual);
  QuantScheme scheme;
  scheme.include = {{NodePattern::Kind::kOp, "Conv"}};
  EXPECT_THAT(Integer(MustPlan(g, scheme)), ElementsAre("b", "c"));
  scheme.exclude = {{NodePattern::Kind::kGlob, "c*"}};
  EXPECT_THAT(Integer(MustPlan(g, scheme)), ElementsAre("b"));
  scheme.exclude = {{NodePattern::Kind::kRegex, "^[ab]$"}};
  const QuantPlan plan = MustPlan(g, scheme);
  EXPECT_THAT(Integer(plan), ElementsAre("c"));
  EXPECT_EQ(ReasonOf(plan, "a"), "excluded by regex '^[ab]$'");
}

TEST(PlanQuantization, PatternsThatMatchNothingAreErrors) {
  const Graph g = MustParse(kResidual);
  QuantScheme scheme;
  scheme.exclude = {{NodePattern::Kind::kGlob, "conv1"},
                    {NodePattern::Kind::kOp, "Conv"},
                    {NodePattern::Kind::kOp, "LSTM"}};
  const Status s = PlanQuantization(g, g, scheme).status();
  EXPECT_EQ(s.code(), Code::kInvalidArgument);
  EXPECT_THAT(s.message(), testing::AllOf(HasSubstr("glob 'conv1'"), HasSubstr("operator 'LSTM'")));
  EXPECT_THAT(s.message(), testing::Not(HasSubstr("'Conv'")));
  scheme.exclude = {{NodePattern::Kind::kRegex, "a("}};
  EXPECT_EQ(PlanQuantization(g, g, scheme).status().code(), Code::kInvalidArgument);
}

/// A table of embeddings in front of a sum that stays f32: where most of the file's bytes are.
TEST(PlanQuantization, LargeTablesSayWhoStoresThemSmaller) {
  const Graph g = MustParse(R"(
graph text(i: i64[1,6], j: i64[1,6]) -> (y: f32[1,6,64]) {
  large = const f32[512,64] ~1
  small = const f32[2,64] ~2
  a = Gather(large, i)
  b = Gather(small, j)
  s = Add(a, b)
  n = Softmax(s)
  w = const f32[64,64] ~3
  y = MatMul(n, w)
}
)");
  const QuantPlan plan = MustPlan(g);
  EXPECT_EQ(ReasonOf(plan, "a"),
            "its table of 128.0 KiB is looked up in f32; the recipes balanced and best store it in "
            "8 bits "
            "where the outputs allow it, --mode weight-only in fewer");
  EXPECT_THAT(ReasonOf(plan, "b"), HasSubstr("no consumer"));
}

TEST(PlanQuantization, RefusalsNameTheReason) {
  const Graph g = MustParse(R"(
graph odd(x: f32[4,6], m: f32[6,5], n: i32[6,5]) -> (a, b, c, d) {
  w = const f32[6,5] ~1
  rows = const f32[4,5] ~2
  v = const f32[6] ~3
  a = Gemm(x, m)
  b = Gemm(x, w, rows)
  c = MatMul(x, v)
  n2 = const i32[5,2] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
  d = MatMul(n, n2)
}
)");
  const QuantPlan plan = MustPlan(g);
  EXPECT_EQ(ReasonOf(plan, "a"), "its weights are computed");
  EXPECT_EQ(ReasonOf(plan, "b"), "its bias differs by row");
  EXPECT_EQ(ReasonOf(plan, "c"), "an operand is a vector");
  EXPECT_THAT(ReasonOf(plan, "d"), HasSubstr("not on f32"));
  EXPECT_TRUE(plan.values.empty());
}

}  // namespace
}  // namespace infer
