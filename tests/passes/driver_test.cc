// What a rule may say beside its pattern: quiet conditions, nodes it covers, several results.
#include "passes/rewrite/driver.h"

#include <gmock/gmock.h>

#include "lib/ir/verify.h"
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

}  // namespace
}  // namespace infer
