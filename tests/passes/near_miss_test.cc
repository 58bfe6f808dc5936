/// Regions that almost matched, and the rewrite that breaks a model.
#include "passes/rewrite/near_miss.h"

#include <gmock/gmock.h>

#include <set>

#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "passes/rewrite/bisect.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<NearMiss> MissesOf(Graph g, size_t max = 10) {
  const std::vector<ListedRule> listed = AllRules();
  std::vector<const Rule*> rules;
  for (const ListedRule& r : listed) rules.push_back(&r.rule);
  const auto report = Optimize(g);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return FindNearMisses(g, rules, report->records, max);
}

/// Gelu but for one constant.
constexpr char kAlmostGelu[] = R"(
    r = const f32[] {1.3}  o = const f32[] {1}  h = const f32[] {0.5}
    d = Div(x, r)  e = Erf(d)  a = Add(e, o)  m = Mul(x, a)  y = Mul(m, h))";

TEST(NearMiss, SaysWhatIsInTheWay) {
  const auto misses = MissesOf(Parsed(Cat("graph g(x: f32[2]) -> (y) {", kAlmostGelu, "}")));
  ASSERT_THAT(misses, SizeIs(1));
  EXPECT_EQ(misses[0].rule, "fuse-gelu");
  EXPECT_EQ(misses[0].at, "y");
  EXPECT_THAT(misses[0].reason, HasSubstr("'r' is not = 1.41421"));
  EXPECT_THAT(misses[0].reason, HasSubstr("it is 1.3"));
  EXPECT_EQ(misses[0].matched, 5);
}

TEST(NearMiss, DoesNotDependOnTheOrderOfOperands) {
  std::set<std::string> reasons;
  for (int order = 0; order < 16; ++order) {
    const auto pair = [&](int bit, std::string_view a, std::string_view b) {
      return (order >> bit & 1) != 0 ? Cat("(", b, ", ", a, ")") : Cat("(", a, ", ", b, ")");
    };
    // Two constants that are nearly right, of which one is told; and a value that is none.
    const auto misses = MissesOf(Parsed(
        Cat("graph g(x: f32[2], z: f32[2]) -> (y) { r = const f32[] {0.7}  o = const f32[] {1}  "
            "h = const f32[] {0.4}  d = Mul",
            pair(0, "x", "r"), "  e = Erf(d)  a = Add", pair(1, "e", "o"), "  m = Mul",
            pair(2, "x", "a"), "  y = Mul", pair(3, "m", "h"), " }")));
    for (const NearMiss& m : misses) reasons.insert(m.reason);
    EXPECT_THAT(misses, SizeIs(1)) << order;
  }
  EXPECT_THAT(reasons, SizeIs(1)) << testing::PrintToString(reasons);
}

TEST(NearMiss, NamesWhoElseReads) {
  const auto misses = MissesOf(Parsed(R"(graph g(x: f32[2]) -> (y, w) {
    r = const f32[] {1.4142135}  o = const f32[] {1}  h = const f32[] {0.5}
    d = Div(x, r)  e = Erf(d)  a = Add(e, o)  m = Mul(x, a)  y = Mul(m, h)  w = Exp(e) })"));
  ASSERT_THAT(misses, SizeIs(1));
  EXPECT_THAT(misses[0].reason, HasSubstr("'e' has other uses: Exp 'w'"));
}

TEST(NearMiss, WhatMatchedIsNone) {
  EXPECT_THAT(MissesOf(Parsed(R"(graph g(x: f32[2]) -> (y) {
    r = const f32[] {1.4142135}  o = const f32[] {1}  h = const f32[] {0.5}
    d = Div(x, r)  e = Erf(d)  a = Add(e, o)  m = Mul(x, a)  y = Mul(m, h) })")),
              IsEmpty());
}

TEST(NearMiss, SmallPatternsAndEarlyFailuresAreNone) {
  EXPECT_THAT(MissesOf(Parsed("graph g(x: f32[2], z: f32[2]) -> (y) { s = Sigmoid(x)  "
                              "y = Mul(z, s) }")),
              IsEmpty());
  EXPECT_THAT(MissesOf(Parsed("graph g(x: f32[2], z: f32[2]) -> (y) { h = const f32[] {0.5}  "
                              "m = Mul(x, z)  y = Mul(m, h) }")),
              IsEmpty());
}

TEST(NearMiss, AtMostSoMany) {
  Graph g = Parsed(Cat("graph g(x: f32[2]) -> (y, z) {", kAlmostGelu, R"(
    q = const f32[] {1.5}
    d2 = Div(y, q)  e2 = Erf(d2)  a2 = Add(e2, o)  m2 = Mul(y, a2)  z = Mul(m2, h) })"));
  EXPECT_THAT(MissesOf(g.Clone()), SizeIs(2));
  EXPECT_THAT(MissesOf(g.Clone(), 1), SizeIs(1));
}

TEST(Bisect, FindsTheFirstBadRewrite) {
  for (int64_t bad = 1; bad <= 13; ++bad) {
    int calls = 0;
    const auto found = FindFirstBad(13, [&](int64_t n) -> Result<BisectStep> {
      ++calls;
      return BisectStep{n, n < bad, n < bad ? 1e-7 : 0.5};
    });
    ASSERT_TRUE(found.ok() && *found);
    EXPECT_EQ((*found)->after.rewrites, bad);
    EXPECT_EQ((*found)->before.rewrites, bad - 1);
    EXPECT_EQ((*found)->before.error, 1e-7);
    EXPECT_EQ((*found)->tried, calls);
    EXPECT_LE(calls, 6);
  }
}

TEST(Bisect, NothingBadAndEverythingBad) {
  const auto good = [](int64_t n) -> Result<BisectStep> { return BisectStep{n, true, 0}; };
  EXPECT_FALSE(*FindFirstBad(5, good));
  const auto bad = [](int64_t n) -> Result<BisectStep> { return BisectStep{n, false, 1}; };
  EXPECT_EQ(FindFirstBad(5, bad).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(FindFirstBad(0, bad).status().code(), Code::kInvalidArgument);
}

/// On a graph: a wrong rule among right ones is found by how many rewrites the driver may do.
TEST(Bisect, FindsAWrongRule) {
  const Graph golden = Parsed(R"(graph g(x: f32[8]) -> (y) {
    a = Identity(x)  b = Abs(a)  c = Neg(b)  d = Identity(c)  e = Relu(d)  y = Tanh(e) })");
  Pattern x = Any(), z = Any();
  const std::vector<Rule> rules = {
      {.name = "right", .doc = "", .match = Op("Identity", x), .build = ReplaceBy(x)},
      {.name = "wrong",
       .doc = "",
       .match = Op("Neg", z),
       .build = [=](const Match& m, PatchBuilder& b) { return b("Sigmoid", {m[z]}); }}};
  const auto inputs = *RandomInputs(golden, 1);
  const Datum want = (*Evaluate(golden, inputs))[0];
  const auto found = FindFirstBad(3, [&](int64_t n) -> Result<BisectStep> {
    Graph g = golden.Clone();
    RewriteLog log;
    RewriteOptions options;
    options.max_rewrites = n;
    INFER_TRY(ApplyRules(g, rules, options, log).status());
    INFER_ASSIGN(const auto got, Evaluate(g, inputs));
    INFER_ASSIGN(const double error, RelativeError(want, got[0]));
    return BisectStep{n, error < 1e-5, error};
  });
  ASSERT_TRUE(found.ok() && *found) << found.status().message();
  // The wrong one is the second that is applied.
  EXPECT_EQ((*found)->after.rewrites, 2);
  EXPECT_GT((*found)->after.error, 0.1);
  EXPECT_LT((*found)->before.error, 1e-6);
}

}  // namespace
}  // namespace infer
