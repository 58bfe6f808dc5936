#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>

#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "passes/rewrite/driver.h"
#include "passes/rewrite/verify_match.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

using testing::HasSubstr;

/// A match outside its tolerance is not applied: a rule that is wrong on purpose.
TEST(VerifyingReviewer, RefusesAWrongRewrite) {
  Graph g = Parsed("graph g(x: f32[8]) -> (y) { t = Sigmoid(x)  y = Relu(t) }");
  Pattern x = Any();
  const Rule wrong = {.name = "wrong",
                      .doc = "Relu(Sigmoid(x)) => Tanh(x)",
                      .match = Op("Relu", Op("Sigmoid", x)),
                      .build = [=](const Match& m, PatchBuilder& b) { return b("Tanh", {m[x]}); }};
  const std::vector<std::vector<Datum>> samples = {*RandomInputs(g, 1)};
  auto values = CapturedValues::Capture(g, samples);
  ASSERT_TRUE(values.ok());
  VerifyingReviewer reviewer(*std::move(values));
  RewriteOptions options;
  options.reviewers = {&reviewer};
  RewriteLog log;
  EXPECT_EQ(*ApplyRules(g, std::span(&wrong, 1), options, log), 0);
  ASSERT_EQ(log.records.size(), 1u);
  EXPECT_THAT(log.records[0].reason, HasSubstr("deviates by"));
}

/// Two rules, the second of which reads what the first brought in: its values come from the check
/// of the first. Dead values are let go.
TEST(VerifyingReviewer, CapturesWhatAPatchBrings) {
  Graph g = Parsed("graph g(x: f32[8]) -> (z) { t = Sigmoid(x)  y = Relu(t)  z = Abs(y) }");
  Pattern x = Any(), v = Any();
  const Rule first = {.name = "first",
                      .doc = "Relu(Sigmoid(x)) => Neg(Neg(Sigmoid(x)))",
                      .match = Op("Relu", Op("Sigmoid", x)),
                      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
                        INFER_ASSIGN(Value * s, b("Sigmoid", {m[x]}));
                        INFER_ASSIGN(Value * n, b("Neg", {s}));
                        return b("Neg", {n});
                      }};
  const Rule second = {.name = "second",
                       .doc = "Abs(Neg(v)) => Abs(v)",
                       .match = Op("Abs", Op("Neg", v)),
                       .build = [=](const Match& m, PatchBuilder& b) { return b("Abs", {m[v]}); }};
  const std::vector<std::vector<Datum>> samples = {*RandomInputs(g, 1)};
  int runs = 0;
  const RunValues run = [&](const Graph& graph, std::span<const Datum> inputs,
                            const ValueNames* wanted) {
    ++runs;
    return ReferenceValues(graph, inputs, wanted);
  };
  auto values = CapturedValues::Capture(g, samples, nullptr, run);
  ASSERT_TRUE(values.ok());
  VerifyingReviewer reviewer(*std::move(values), run);
  RewriteOptions options;
  options.reviewers = {&reviewer};
  RewriteLog log;
  const std::array rules = {first, second};
  EXPECT_EQ(*ApplyRules(g, rules, options, log), 3);
  EXPECT_EQ(reviewer.verified(), 3);
  // Of the model, of each patch, and of the two matches that read what a patch made.
  EXPECT_EQ(runs, 6);
  EXPECT_EQ(reviewer.values().Find("t", 0), nullptr);
  for (const auto& value : g.values())
    EXPECT_NE(reviewer.values().Find(value->name(), 0), nullptr) << value->name();
}

TEST(VerifyingReviewer, ComparesAsItDoesElementByElement) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const auto error = [](std::initializer_list<float> a, std::initializer_list<float> b) {
    const auto n = static_cast<int64_t>(a.size());
    return *RelativeError(Datum(Tensor::Of<float>({n}, a)), Datum(Tensor::Of<float>({n}, b)));
  };
  EXPECT_EQ(error({1, -4, 2}, {1, -3, 2}), 0.25);
  EXPECT_EQ(error({0, 0}, {0, 0.5f}), 0.5);
  EXPECT_EQ(error({}, {}), 0);
  EXPECT_EQ(error({nan, inf, 2}, {nan, inf, 1}), 0.5);
  EXPECT_EQ(error({nan, 2}, {1, 2}), inf);
  EXPECT_EQ(error({inf, 2}, {-inf, 2}), inf);
  EXPECT_EQ(error({1, 2}, {1, inf}), inf);
}

}  // namespace
}  // namespace infer
