/// Groups of nodes that backends compute as one step (runtime/plan_ir/groups): each rule by its own
/// examples and near misses, what steps become of them, and the work that looking for them takes.
#include <gmock/gmock.h>

#include "lib/support/strings.h"
#include "passes/rewrite/rule_suite.h"
#include "runtime/plan_ir/groups/attention_group.h"
#include "runtime/plan_ir/groups/chains.h"
#include "runtime/plan_ir/groups/epilogues.h"
#include "runtime/plan_ir/groups/gate.h"
#include "runtime/plan_ir/groups/gathered_updates.h"
#include "runtime/plan_ir/groups/group_rules.h"
#include "runtime/plan_ir/groups/quant_group.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kAny = [](const auto&) { return true; };
constexpr auto kNone = [](const auto&) { return false; };

constexpr auto kMatMul = [](const Node& n) { return n.Is("MatMul"); };
constexpr auto kUnary = [](const Node& n) { return n.Is(Trait::kUnary); };

/// All groups, in the order in which the cpu backend forms them, as far as `accepts` goes.
void FormGroups(Plan& plan, AcceptsStep accepts) {
  GroupAttention(plan, {}, accepts);
  GroupQuantized(plan, kMatMul, kUnary, accepts);
  FoldGates(plan, accepts);
  FoldGatheredUpdates(plan, accepts);
}

/// Operators of the steps of several nodes.
std::vector<std::string> Groups(const std::string& graph, AcceptsStep accepts = kAny) {
  Plan plan = PartitionByNode(Parsed(graph));
  FormGroups(plan, accepts);
  std::vector<std::string> groups;
  for (const PlanStep& step : plan.steps)
    if (step.nodes.size() > 1) groups.push_back(OperatorOf(step));
  return groups;
}

TEST(Groups, HoldOnTheirExamplesAndNearMisses) {
  for (const Rule* rule : GroupRules()) {
    EXPECT_THAT(CheckRule(*rule, Ops()), IsEmpty()) << rule->name;
    EXPECT_FALSE(rule->silent_on.empty()) << rule->name;
  }
}

TEST(Groups, ExamplesBecomeOneStep) {
  for (const Rule* rule : GroupRules())
    for (const std::string& example : rule->fires_on) {
      EXPECT_EQ(Groups(example).size(), 1u) << rule->name << ": " << example;
      EXPECT_THAT(Groups(example, kNone), IsEmpty()) << rule->name << ": " << example;
    }
}

TEST(Groups, NearMissesOfAttentionGatesAndGathersStaySteps) {
  for (const Rule* rule : {&AttentionRule(), &GateRule(), &GatheredUpdatesRule()})
    for (const Rule::NearMiss& miss : rule->silent_on)
      EXPECT_THAT(Groups(miss.graph), IsEmpty()) << rule->name << ": " << miss.graph;
}

/// Of two products that are added the first takes the addition, and where kernels refuse that, each
/// keeps its own quantization.
TEST(Groups, KernelsDecideHowFarAGroupGoes) {
  const std::string graph =
      "graph g(a: u8[2,2]) -> (y) { s = const f32[] {0.1} w = const f32[2,2] ~1 "
      "x = DequantizeLinear(a, s) p = MatMul(x, w) r = Relu(p) b = QuantizeLinear(r, s) "
      "c = DequantizeLinear(b, s) q = MatMul(x, w) d = QuantizeLinear(q, s) "
      "e = DequantizeLinear(d, s) t = Add(e, c) y = QuantizeLinear(t, s) }";
  const std::string product = "DequantizeLinear+MatMul+", q = "QuantizeLinear";
  EXPECT_THAT(Groups(graph), ElementsAre(product + q, "DequantizeLinear+" + product + "Relu+" + q +
                                                          "+DequantizeLinear+Add+" + q));
  const auto without_sum = [](const PlanStep& step) {
    return OperatorOf(step).find("Add") == std::string::npos;
  };
  EXPECT_THAT(Groups(graph, without_sum), ElementsAre(product + "Relu+" + q, product + q));
  const auto two = [](const PlanStep& step) { return step.nodes.size() <= 3; };
  EXPECT_THAT(Groups(graph, two), ElementsAre(product + "Relu", product + q));
}

TEST(Groups, AMissedAttentionIsToldLikeAMissedFusion) {
  const Plan plan =
      PartitionByNode(Parsed("graph g(q: f32[2,3,4], k: f32[2,4,5], v: f32[2,5,6], m: f32[3,5]) -> "
                             "(y, z) { s = MatMul(q, k) "
                             "a = Add(s, m) p = Softmax(a) y = MatMul(p, v) z = Relu(s) }"));
  const CompileOptions options;
  for (const PlanStep& step : plan.steps) {
    if (!step.main->Is("Softmax")) continue;
    EXPECT_THAT(DecodeAttention({plan, step, options}).status().message(),
                HasSubstr("'s' has other uses: Relu 'z'"));
  }
}

/// Chains of products with what may follow them, quantized sums, gates and attention.
std::string Network(int blocks) {
  std::string text =
      "graph g(x0: f32[4,4], c0: f32[1,4,2,2], g: f32[1,4,1,1]) -> (y, z) { s = const f32[] {0.1} "
      "w = const f32[4,4] ~1 cw = const f32[4,4,1,1] ~2 ";
  for (int i = 0; i < blocks; ++i)
    text += Cat("h", i, " = QuantizeLinear(x", i, ", s) d", i, " = DequantizeLinear(h", i, ", s) p",
                i, " = MatMul(d", i, ", w) r", i, " = Relu(p", i, ") b", i, " = QuantizeLinear(r",
                i, ", s) e", i, " = DequantizeLinear(b", i, ", s) t", i, " = Add(e", i, ", d", i,
                ") u", i, " = QuantizeLinear(t", i, ", s) v", i, " = DequantizeLinear(u", i,
                ", s) a", i, " = MatMul(v", i, ", v", i, ") n", i, " = Mul(a", i, ", s) o", i,
                " = Softmax(n", i, ") x", i + 1, " = MatMul(o", i, ", v", i, ") m", i, " = Mul(c",
                i, ", g) k", i, " = Conv(m", i, ", cw) c", i + 1, " = Relu(k", i, ") ");
  return text + Cat("y = Abs(x", blocks, ") z = Abs(c", blocks, ") }");
}

/// How often kernels are asked while groups form in a graph of so many blocks of 16 nodes.
int64_t Questions(int blocks) {
  int64_t asked = 0;
  const auto accepts = [&asked](const PlanStep& step) {
    ++asked;
    return step.nodes.size() < 12;
  };
  Plan plan = PartitionByNode(Parsed(Network(blocks)));
  FormGroups(plan, accepts);
  FoldEpilogues(plan, accepts);
  FoldChains(plan, accepts);
  return asked;
}

/// 4,000 nodes ask four times what 1,000 ask, and no more than 12 times a node.
TEST(Groups, QuestionsAreLinearInNodes) {
  const int64_t small = Questions(64), large = Questions(256);
  EXPECT_LE(large, 4 * small + 64);
  EXPECT_LE(large, 12 * 16 * 256);
}

}  // namespace
}  // namespace infer
