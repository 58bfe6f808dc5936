#include "passes/user/user_rules.h"

#include <gmock/gmock.h>

#include "lib/ir/verify.h"
#include "passes/pass/pipeline.h"
#include "passes/rewrite/rule_fuzz.h"
#include "passes/rewrite/rule_suite.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::vector<UserRule> Rules(const std::string& text) {
  auto rules = ParseUserRules(text, "my.rules", Ops());
  EXPECT_TRUE(rules.ok()) << rules.status().message();
  return rules.ok() ? *std::move(rules) : std::vector<UserRule>();
}
std::string ErrorOf(const std::string& text) {
  const auto rules = ParseUserRules(text, "my.rules", Ops());
  EXPECT_FALSE(rules.ok()) << text;
  return rules.status().message();
}
/// What the only rule of `rules` makes of `graph`, or why it makes nothing.
std::string After(const std::string& rules, const std::string& graph) {
  const auto parsed = Rules(rules);
  auto g = ParseGraph(graph, Ops());
  if (!g.ok() || parsed.empty()) return "ill: " + g.status().message();
  RewriteLog log;
  const auto fired = ApplyRules(*g, std::span(&parsed[0].rule, 1), {.explain = {"*@y"}}, log);
  EXPECT_TRUE(fired.ok()) << fired.status().message();
  EXPECT_TRUE(Verify(*g).ok());
  return *fired ? Print(*g) : log.records.empty() ? "nothing" : log.records.back().reason;
}

constexpr const char* kQuick = R"(
rule quick-gelu "x*sigmoid(1.702x) => Silu" {
  match   graph m(x) -> (y) { k = const f32[] {1.702}  t = Mul(x, k)  s = Sigmoid(t)  y = Mul(x, s) }
  replace graph r(x) -> (y) { k = const f32[] {1.702}  t = Mul(x, k)  u = infer::Silu(t)
                              y = Div(u, k) }
  fires   graph g(x: f32[N,3]) -> (y) { k = const f32[] {1.702}  t = Mul(k, x)  s = Sigmoid(t)
                                        y = Mul(s, x) }
  silent  "graph g(x: f32[2]) -> (y) { k = const f32[] {1.5}  t = Mul(x, k)  s = Sigmoid(t)
           y = Mul(x, s) }" because "'k' is not = 1.702"
  silent  graph g(x: f32[2]) -> (y, t) { k = const f32[] {1.702}  t = Mul(x, k)  s = Sigmoid(t)
                                         y = Mul(x, s) } because "other uses"
})";

TEST(UserRules, AreRulesLikeTheOthers) {
  const auto rules = Rules(kQuick);
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(rules[0].rule.name, "quick-gelu");
  EXPECT_EQ(rules[0].rule.doc, "x*sigmoid(1.702x) => Silu");
  EXPECT_THAT(rules[0].text.source, StartsWith("rule quick-gelu"));
  EXPECT_THAT(CheckRule(rules[0].rule, Ops()), IsEmpty());
  const FuzzResult fuzz = FuzzRule(rules[0].rule, rules[0].rule.fires_on, Ops(), {.graphs = 100});
  EXPECT_TRUE(fuzz.failures.empty()) << fuzz.failures[0].what;
  EXPECT_GT(fuzz.fired, 20);
}

TEST(UserRules, TestsFindAWrongRule) {
  const auto rules = Rules(R"(rule wrong {
    match   graph m(x: f32[N,3], z: f32[N,3]) -> (y) { s = Sub(x, z)  y = Relu(s) }
    replace graph r(x, z) -> (y) { s = Sub(x, z)  y = Abs(s) } })");
  const std::string example = MakeExample(rules[0], Ops());
  ASSERT_NE(example, "");
  Rule rule = rules[0].rule;
  rule.fires_on = {example};
  EXPECT_THAT(CheckRule(rule, Ops()), testing::Contains(HasSubstr("deviates by")));
  const FuzzResult fuzz = FuzzRule(rule, rule.fires_on, Ops(), {.seed = 5, .graphs = 20});
  ASSERT_FALSE(fuzz.failures.empty());
  EXPECT_THAT(fuzz.failures[0].what, HasSubstr("deviates by"));
  EXPECT_EQ(fuzz.failures[0].bends, "") << "no bend is needed: all are left out";
}

TEST(UserRules, HolesHaveConditions) {
  const auto rule = [](const std::string& hole) {
    return "rule r { match graph m(x, w: " + hole +
           ") -> (y) { y = MatMul(x, w) } replace graph r(x, w) -> (y) { y = Gemm(x, w) } }";
  };
  const std::string graph = R"(graph g(x: f32[2,3], v: f32[3,4]) -> (y) { y = MatMul(x, v) })";
  const std::string constant =
      R"(graph g(x: f32[2,3]) -> (y) { w = const f32[3,4] ~1  y = MatMul(x, w) })";
  EXPECT_THAT(After(rule("f32"), graph), HasSubstr("Gemm"));
  EXPECT_THAT(After(rule("f16|f64"), graph), HasSubstr("'v' is not f16 or f64"));
  EXPECT_THAT(After(rule("float[...,4]"), graph), HasSubstr("Gemm"));
  EXPECT_THAT(After(rule("[N,M]"), graph), HasSubstr("Gemm"));
  EXPECT_THAT(After(rule("[N,N]"), graph), HasSubstr("one extent N: it is 3 in 'v' and 4 in 'v'"));
  EXPECT_THAT(After(rule("?[3,5]"), graph), HasSubstr("'v' is not of shape [3,5]"));
  EXPECT_THAT(After(rule("const"), graph), HasSubstr("'v' is not a constant"));
  EXPECT_THAT(After(rule("const f32[3,4]"), constant), HasSubstr("Gemm"));
  EXPECT_THAT(After(rule("scalar"), constant), HasSubstr("'w' is not one number"));
}

TEST(UserRules, OperandsMayBeOmitted) {
  constexpr const char* kClip = R"(rule r {
    match graph m(x, low?, high?) -> (y) { t = Relu(x)  y = Clip(t, low, high) }
    replace graph r(x, low, high) -> (y) { t = Clip(x, low, high)  y = Relu(t) } })";
  EXPECT_THAT(After(kClip, "graph g(x: f32[2]) -> (y) { t = Relu(x)  y = Clip(t) }"),
              HasSubstr("Clip(x)"));
  EXPECT_THAT(After(kClip, R"(graph g(x: f32[2]) -> (y) {
                c = const f32[] {3}  t = Relu(x)  y = Clip(t, _, c) })"),
              HasSubstr("Clip(x, _, c)"));
  constexpr const char* kNoLow = R"(rule r {
    match graph m(x, high) -> (y) { y = Clip(x, _, high) }
    replace graph r(x, high) -> (y) { y = Min(x, high) } })";
  EXPECT_THAT(After(kNoLow, R"(graph g(x: f32[2]) -> (y) {
                c = const f32[] {3}  y = Clip(x, _, c) })"),
              HasSubstr("Min"));
  EXPECT_THAT(After(kNoLow, R"(graph g(x: f32[2]) -> (y) {
                a = const f32[] {1}  c = const f32[] {3}  y = Clip(x, a, c) })"),
              HasSubstr("'a' is not omitted"));
}

TEST(UserRules, AttributesAreComparedAndCarriedOver) {
  const std::string two = R"(graph g(x: f32[2,3]) -> (y) {
    t = Softmax(x) {axis=0}  y = Softmax(t) {axis=1} })";
  EXPECT_THAT(After(R"(rule r {
      match graph m(x) -> (y) { t = Softmax(x) {axis=0}  y = Softmax(t) {axis=$a} }
      replace graph r(x) -> (y) { y = LogSoftmax(x) {axis=$a} } })",
                    two),
              HasSubstr("LogSoftmax(x) {axis=1}"));
  EXPECT_THAT(After(R"(rule r {
      match graph m(x) -> (y) { t = Softmax(x) {axis=1}  y = Softmax(t) }
      replace graph r(x) -> (y) { y = Softmax(x) } })",
                    two),
              HasSubstr("'t' is not made with axis=1"));
  EXPECT_THAT(After(R"(rule r {
      match graph m(x) -> (y) { t = Softmax(x) {axis=$a}  y = Softmax(t) {axis=$a} }
      replace graph r(x) -> (y) { y = Softmax(x) {axis=$a} } })",
                    two),
              HasSubstr("one value of $a"));
  // Only one operator has such an attribute: its name is enough.
  EXPECT_THAT(After(R"(rule r {
      match graph m(x) -> (y) { t = Relu(x)  y = Softmax(t) }
      replace graph r(x) -> (y) { y = LogSoftmax(x) {axis=$axis} } })",
                    "graph g(x: f32[2,3]) -> (y) { t = Relu(x)  y = Softmax(t) {axis=0} }"),
              HasSubstr("LogSoftmax(x) {axis=0}"));
}

TEST(UserRules, ConstantsAreValuesWhateverHoldsThem) {
  constexpr const char* kTwice = R"(rule r {
    match graph m(x) -> (y) { two = const f32[] {2}  a = Mul(x, two)  y = Mul(a, two) }
    replace graph r(x) -> (y) { four = const f32[] {4}  y = Mul(x, four) } })";
  EXPECT_THAT(After(kTwice, R"(graph g(x: f32[2]) -> (y) {
                a = const f32[1] {2}  b = const f32[] {2}  t = Mul(a, x)  y = Mul(t, b) })"),
              HasSubstr("{4}"));
  EXPECT_THAT(
      After(R"(rule r {
      match graph m(x) -> (y) { s = const i64[2] {0, -1}  y = Reshape(x, s) }
      replace graph r(x) -> (y) { y = Flatten(x) } })",
            R"(graph g(x: f32[2,3,4]) -> (y) { s = const i64[2] {0, 12}  y = Reshape(x, s) })"),
      HasSubstr("'s' is not = "));
}

TEST(UserRules, AlternativesShareAReplacement) {
  constexpr const char* kSilu = R"(rule silu {
    match graph m(x) -> (y) { s = Sigmoid(x)  y = Mul(x, s) }
    match graph m(x) -> (y) { one = const f32[] {1}  n = Neg(x)  e = Exp(n)  d = Add(e, one)
                              y = Div(x, d) }
    replace graph r(x) -> (y) { y = infer::Silu(x) } })";
  EXPECT_THAT(After(kSilu, "graph g(x: f32[2]) -> (y) { s = Sigmoid(x)  y = Mul(s, x) }"),
              HasSubstr("infer::Silu(x)"));
  EXPECT_THAT(After(kSilu, R"(graph g(x: f32[2]) -> (y) { one = const f32[] {1}  n = Neg(x)
                e = Exp(n)  d = Add(one, e)  y = Div(x, d) })"),
              HasSubstr("infer::Silu(x)"));
}

TEST(UserRules, SeveralOutputs) {
  // An inner value that stays, and two branches over one value.
  EXPECT_THAT(
      After(R"(rule r {
      match graph m(a, b) -> (s, y) { s = Add(a, b)  y = Relu(s) }
      replace graph r(a, b) -> (s, y) { s = Sum(a, b)  y = Relu(s) } })",
            "graph g(a: f32[2], b: f32[2]) -> (y, z) { s = Add(a, b) y = Relu(s) z = Neg(s) }"),
      HasSubstr("Sum(a, b)"));
  EXPECT_THAT(After(R"(rule r {
      match graph m(x) -> (p, q) { p = Relu(x)  q = Neg(x) }
      replace graph r(x) -> (p, q) { q = Abs(x)  p = Identity(q) } })",
                    "graph g(x: f32[2]) -> (y, z) { y = Relu(x)  z = Neg(x) }"),
              HasSubstr("Identity"));
  // Results of one node are of one node.
  constexpr const char* kSplit = R"(rule r {
    match graph m(x) -> (y) { a, b = Split(x) {num_outputs=2}  y = Sub(a, b) }
    replace graph r(x) -> (y) { a, b = Split(x) {num_outputs=2, axis=$axis}  n = Neg(b)
                                y = Add(a, n) } })";
  EXPECT_THAT(After(kSplit, R"(graph g(x: f32[4,2]) -> (y) {
                a, b = Split(x) {num_outputs=2, axis=1}  y = Sub(a, b) })"),
              HasSubstr("axis=1"));
  EXPECT_THAT(After(kSplit, R"(graph g(x: f32[4,2]) -> (y, u) { a, _ = Split(x) {num_outputs=2}
                u, b = Split(x) {num_outputs=2}  y = Sub(a, b) })"),
              HasSubstr("is a result of another node"));
}

TEST(UserRules, ErrorsSayWhere) {
  const std::string begin = "rule r {\n  match graph m(x, z) -> (y) { y = Add(x, z) }\n";
  const std::string good = "  replace graph r(x) -> (y) { y = Relu(x) }\n}";
  EXPECT_EQ(ErrorOf("rule r {\n  match graph m(x) -> (y) { y = Foo(x) }\n}"),
            "my.rules:2:33: no operator Foo");
  EXPECT_EQ(ErrorOf(begin + "  replace graph r(x, w) -> (y) { y = Add(x, w) }\n}"),
            "my.rules:3:22: 'w' is no hole of the pattern");
  EXPECT_EQ(ErrorOf(begin + "  replace graph r(x) -> (y) { y = Relu(q) }\n}"),
            "my.rules:3:40: 'q' is not defined");
  EXPECT_EQ(ErrorOf(begin + "  replace graph r(x) -> (y) { y = Elu(x) {a=1} }\n}"),
            "my.rules:3:43: Elu has no attribute 'a'");
  EXPECT_THAT(ErrorOf(begin + "  replace graph r(x) -> (y) { y = Elu(x) {alpha=$a} }\n}"),
              StartsWith("my.rules:3:43: $a is not bound"));
  EXPECT_EQ(ErrorOf(begin + "  replace graph r(x) -> (y, z) { y = Relu(x) z = Neg(x) }\n}"),
            "my.rules:3:11: the replacement has 2 outputs, the pattern has 1");
  EXPECT_EQ(ErrorOf("rule r {\n  match graph m(x) -> (y) { a = Abs(x) y = Relu(x) }\n" + good),
            "my.rules:2:29: no output needs 'a'");
  EXPECT_EQ(ErrorOf("rule r {\n  match graph m(x, z) -> (y) { y = Relu(x) }\n" + good),
            "my.rules:2:20: no output needs 'z': it could be bound to nothing");
  EXPECT_EQ(ErrorOf("rule r {\n" + good), "my.rules:1:1: the rule has no 'match'");
  EXPECT_EQ(ErrorOf(begin + "}"), "my.rules:1:1: the rule has no 'replace'");
  EXPECT_THAT(ErrorOf("rule r {\n  match graph m(x) -> (y) { y = If(x) {then_branch=3} }\n" + good),
              HasSubstr("no subgraphs"));
  EXPECT_THAT(ErrorOf("rule r {\n match graph m(x, z) -> (p, q) { p = Abs(x) q = Abs(z) }\n"
                      "  replace graph r(x, z) -> (p, q) { p = Abs(x) q = Abs(z) }\n}"),
              HasSubstr("shares no value"));
  EXPECT_THAT(ErrorOf(begin + good.substr(0, good.size() - 1) +
                      "  fires graph g(x: f32[2]) -> (y) {\n    y = Foo(x)\n  }\n}"),
              StartsWith("my.rules:5:12: no operator Foo"));
  EXPECT_THAT(ErrorOf(begin + good + "\n" + begin + good), HasSubstr("two rules 'r'"));
  EXPECT_EQ(ErrorOf("rule r"), "my.rules:1:7: expected '{', found the end");
}

TEST(UserRules, NothingThatIsReadCrashes) {
  const std::string text = kQuick;
  int refused = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(ParseUserRules(std::string_view(text).substr(0, i), "cut", Ops()).ok() && i > 1);
    std::string bent = text;
    bent[i] = static_cast<char>("{}()$\"=,:|?x0 "[i % 14]);
    if (const auto rules = ParseUserRules(bent, "bent", Ops()); !rules.ok()) ++refused;
  }
  EXPECT_GT(refused, 100);
}

TEST(UserRules, RunBeforeTheFusions) {
  const auto rules = Rules(R"(rule keep-sigmoid {
    match graph m(x) -> (y) { s = Sigmoid(x)  y = Mul(x, s) }
    replace graph r(x) -> (y) { y = Mish(x) } })");
  auto g = ParseGraph("graph g(x: f32[2]) -> (y) { s = Sigmoid(x)  y = Mul(x, s) }", Ops());
  Graph again = g->Clone();
  OptimizeOptions options;
  options.extra_rules = {rules[0].rule};
  const auto report = Optimize(*g, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->rules.at("keep-sigmoid").applied, 1);
  EXPECT_EQ(report->rules.at("fuse-silu").matched, 0);
  // Proved like the others: Mish is not SiLU.
  const std::vector<std::vector<Datum>> samples = {*RandomInputs(again, 7)};
  options.captured = *CapturedValues::Capture(again, samples);
  const auto proved = Optimize(again, options);
  ASSERT_TRUE(proved.ok());
  EXPECT_EQ(proved->rules.at("keep-sigmoid").applied, 0);
  EXPECT_EQ(proved->rules.at("keep-sigmoid").refused, 1);
  EXPECT_EQ(proved->rules.at("fuse-silu").applied, 1);
  // A rule that makes what it matches is the user's mistake, not ours.
  options = {};
  options.extra_rules = {Rules(R"(rule forever {
    match graph m(x, z) -> (y) { y = Add(x, z) }
    replace graph r(x, z) -> (y) { y = Add(z, x) } })")[0]
                             .rule};
  Graph sum = *ParseGraph("graph g(x: f32[2], z: f32[2]) -> (y) { y = Add(x, z) }", Ops());
  const Status forever = Optimize(sum, options).status();
  EXPECT_EQ(forever.code(), Code::kInvalidModel);
  EXPECT_THAT(forever.message(), HasSubstr("do not converge"));
  options = {};
  options.extra_rules = {rules[0].rule};
  options.extra_rules[0].name = "fuse-silu";
  EXPECT_EQ(Optimize(again, options).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace infer
