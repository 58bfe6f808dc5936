// A rule beside its pattern: quiet conditions, nodes it covers, several results; names; the work of
// a rewrite.
#include "passes/rewrite/driver.h"

#include <gmock/gmock.h>

#include "lib/ir/editor.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

Rule Never() {
  Pattern x = Any();
  return {.name = "never",
          .doc = "Relu(x) => x",
          .match = Op("Relu", x),
          .when = {{"the impossible", [](const Match&) { return false; }}},
          .quiet = true,
          .build = ReplaceBy(x)};
}

TEST(QuietRule, TellsOfAMatchOnlyWhereAsked) {
  Graph g = Parsed("graph g(x: f32[2]) -> (y) { y = Relu(x) }");
  const Rule rule = Never();
  RewriteLog log;
  ASSERT_TRUE(ApplyRules(g, std::span(&rule, 1), {}, log).ok());
  EXPECT_TRUE(log.records.empty());
  EXPECT_EQ(log.rules.at("never").matched, 0);
  RewriteOptions options;
  options.explain = {"never@y"};
  ASSERT_TRUE(ApplyRules(g, std::span(&rule, 1), options, log).ok());
  ASSERT_EQ(log.records.size(), 1u);
  EXPECT_THAT(log.records[0].reason, HasSubstr("needs the impossible"));
}

class Reject : public MatchReviewer {
 public:
  Status Review(const Candidate&, MatchRecord&) override { return InvalidModel("rejected"); }
};

TEST(QuietRule, TellsWhatAReviewerRefuses) {
  Graph g = Parsed("graph g(x: f32[2]) -> (y) { y = Relu(x) }");
  Rule rule = Never();
  rule.when.clear();
  Reject reject;
  RewriteOptions options;
  options.reviewers = {&reject};
  RewriteLog log;
  ASSERT_TRUE(ApplyRules(g, std::span(&rule, 1), options, log).ok());
  ASSERT_EQ(log.records.size(), 1u);
  EXPECT_EQ(log.records[0].reason, "rejected");
}

/// Operators and refusals behind rules on Max(x, 0) and a layer of `type`.
std::vector<std::string> FusedWithType(std::string_view type) {
  Graph g =
      Parsed(Cat("graph g(x: ", type, "[2,2], w: ", type, "[2,2], b: ", type, "[2]) -> (y) { ",
                 "z = const ", type, "[] {0}  t = MatMul(x, w)  s = Add(t, b)  y = Max(s, z) }"));
  const auto report = Optimize(g);
  EXPECT_TRUE(report.ok()) << report.status().message();
  std::vector<std::string> said;
  for (const auto& n : g.nodes()) said.emplace_back(n->op());
  for (const MatchRecord& r : report->records)
    if (!r.reason.empty()) said.push_back(r.reason);
  return said;
}

TEST(ElementTypes, NodesStayWhereOnnxRuntimeHasNoKernelOfWhatWouldTakeTheirPlace) {
  EXPECT_THAT(FusedWithType("f64"), ElementsAre("Gemm", "Relu"));
  EXPECT_THAT(FusedWithType("i32"), ElementsAre("MatMul", "Add", "Relu",
                                                "ONNX Runtime has no kernel of Gemm for i32[2,2]"));
  EXPECT_THAT(FusedWithType("i64"),
              ElementsAre("MatMul", "Add", "Max", "ONNX Runtime has no kernel of Relu for i64[2,2]",
                          "ONNX Runtime has no kernel of Gemm for i64[2,2]"));
}

TEST(ElementTypes, WhatOnnxRuntimeLacksAnywayIsFused) {
  Graph g = Parsed("graph g(x: i16[2]) -> (y) { z = const i16[] {0}  y = Max(x, z) }");
  ASSERT_TRUE(Optimize(g).ok());
  EXPECT_EQ(g.nodes().front()->op(), "Relu");
}

/// Names of what a chain became are copied some times for each of its nodes, not once for each
/// rewrite: a chain of 20,000 took ten minutes.
TEST(LongChains, AreMergedInHalves) {
  constexpr int64_t kNodes = 3000;
  std::string text = "graph g(x: f32[2]) -> (y) {\n";
  for (int64_t i = 0; i < kNodes; ++i)
    text += Cat("c", i, " = const f32[] {", i, ".5}\n", i + 1 < kNodes ? Cat("v", i) : "y",
                " = Add(", i > 0 ? Cat("v", i - 1) : "x", ", c", i, ")\n");
  Graph g = Parsed(text + "}");
  GraphEditor editor(g);
  for (const auto& n : g.nodes()) editor.SetFusedFrom(*n, {n->output()->name()});
  const auto report = Optimize(g);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(g.num_nodes(), 1u);
  EXPECT_EQ(g.nodes().front()->fused_from().size(), size_t{kNodes});
  size_t names = 0;
  for (const MatchRecord& r : report->records) names += r.nodes.size();
  EXPECT_GE(report->records.size(), size_t{kNodes - 1});
  EXPECT_LT(names, size_t{64 * kNodes});  // one after the other: kNodes * kNodes / 2
}

/// Tanh(x) with all its readers becomes Sigmoid(x): the readers are found by following uses, each
/// result is replaced where its own operands allow.
Rule FollowsUses() {
  Pattern x = Any(), root = Op("Tanh", x);
  return {.name = "follows-uses",
          .doc = "Tanh(x), Add(Tanh(x), a), ... => Sigmoid(x), Add(Sigmoid(x), a), ...",
          .match = root,
          .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
            INFER_ASSIGN(Value * s, b("Sigmoid", {m[x]}));
            for (const Use& u : m[root]->uses()) {
              Node* reader = u.user;
              INFER_ASSIGN(Value * made, b(reader->op(), {s, reader->input(1)}));
              b.Cover(reader);
              b.Replace(reader->output(), made);
            }
            return nullptr;
          }};
}

TEST(Cover, ReplacesWhatTheRuleFoundItself) {
  Graph g = Parsed(R"(graph g(x: f32[2], z: f32[2]) -> (u, w) { t = Tanh(x)  a = Add(t, x)
                        u = Relu(a)  late = Abs(z)  c = Mul(t, late)  w = Neg(c) })");
  GraphEditor e(g);
  for (const char* name : {"t", "a", "c"}) {
    e.SetName(*g.FindValue(name)->producer(), name);
    e.SetFusedFrom(*g.FindValue(name)->producer(), {name});
  }
  const Rule rule = FollowsUses();
  RewriteLog log;
  const auto fired = ApplyRules(g, std::span(&rule, 1), {}, log);
  ASSERT_TRUE(fired.ok()) << fired.status().message();
  EXPECT_EQ(*fired, 1) << log.records[0].reason;
  ASSERT_TRUE(Verify(g).ok()) << Print(g);
  EXPECT_EQ(g.FindValue("t"), nullptr) << Print(g);
  ASSERT_EQ(log.records.size(), 1u);
  EXPECT_THAT(log.records[0].nodes, UnorderedElementsAre("t", "c", "a"));
  EXPECT_EQ(log.records[0].matched, 3);
  EXPECT_EQ(log.records[0].price.nodes_removed, 3);
  EXPECT_THAT(g.FindValue("c")->producer()->fused_from(), ElementsAre("t", "a", "c"));
}

TEST(Driver, NamesAreKeptAndUnited) {
  Graph g = Parsed("graph g(x: f32[2]) -> (z) { s = Sigmoid(x)  y = Mul(x, s)  z = Abs(y) }");
  GraphEditor e(g);
  e.SetName(*g.FindValue("s")->producer(), "sig");
  e.SetFusedFrom(*g.FindValue("s")->producer(), {"sig"});
  e.SetFusedFrom(*g.FindValue("y")->producer(), {"mul"});
  ASSERT_TRUE(Optimize(g).ok());
  ASSERT_NE(g.FindValue("y"), nullptr) << Print(g);
  EXPECT_THAT(g.FindValue("y")->producer()->fused_from(), ElementsAre("sig", "mul"));
}

/// The work of rewriting `n` nodes: links of x -> x * Sigmoid(x), each with a Relu behind.
RewriteLog LogFor(int n) {
  Graph g(Ops());
  GraphEditor e(g);
  Value* v = e.AddInput("x", TensorType{DType::kF32, Shape(Dims{4})});
  for (int i = 0; i < n / 3; ++i) {
    Value* s = *e.Add("Sigmoid", {v});
    v = *e.Add("Mul", {v, s});
    v = *e.Add("Relu", {v});
  }
  e.MarkOutput(v);
  std::vector<Rule> rules;
  for (ListedRule& r : AllRules()) rules.push_back(std::move(r.rule));
  RewriteLog log;
  const auto fired = ApplyRules(g, rules, {}, log);
  EXPECT_TRUE(fired.ok()) << fired.status().message();
  EXPECT_EQ(*fired, n / 3);
  EXPECT_TRUE(Verify(g).ok());
  return log;
}

/// Counted, not timed: tests/tools/scaling_test.py times whole commands.
TEST(Driver, IsLinear) {
  const RewriteLog small = LogFor(3'000), large = LogFor(30'000);
  std::printf("visits %lld, %lld; attempts %lld, %lld\n", static_cast<long long>(small.visited),
              static_cast<long long>(large.visited), static_cast<long long>(small.attempts),
              static_cast<long long>(large.attempts));
  // A chain is looked at twice, and once more around each rewrite.
  EXPECT_GE(small.visited, 2'000);
  EXPECT_LE(small.visited, 4 * 3'000);
  EXPECT_LE(small.attempts, 40 * small.visited);
  EXPECT_NEAR(static_cast<double>(large.visited), 10.0 * static_cast<double>(small.visited), 1e3);
  EXPECT_NEAR(static_cast<double>(large.attempts), 10.0 * static_cast<double>(small.attempts), 1e4);
}

/// A Transpose says how many axes its operand has, which alone does not: found by the property test
/// of the night, as a crash.
TEST(Driver, AttentionOfQueriesOfUnknownRank) {
  Graph g = Parsed(R"(graph g(q: f32[*], k: f32[N,T,4], v: f32[N,T,3]) -> (y) {
    qt = Transpose(q) {perm=[0,2,1]}  s = MatMul(k, qt)  p = Softmax(s) {axis=-2}
    vt = Transpose(v) {perm=[0,2,1]}  y = MatMul(vt, p) })");
  const auto report = Optimize(g, {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  for (const auto& n : g.nodes()) {
    if (!n->Is("Softmax")) continue;
    EXPECT_EQ(n->Attr<int64_t>("axis"), -1) << "the keys come last";
  }
}

}  // namespace
}  // namespace infer
