/// The caller's own metric as a judge of quantized and pruned models; its failures.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/runtime/c_api/images.h"

namespace c_api_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Gives the metrics of a list, the golden model's first, or the code in place of one.
struct Metrics {
  static int Evaluate(void* user, infer_session* session, double* metric) {
    auto& m = *static_cast<Metrics*>(user);
    m.scores.push_back(RunSession(session, Image().tensor()));
    infer_session_free(session);
    const size_t i = m.scores.size() - 1;
    if (static_cast<int>(i) == m.fails_at) return m.code;
    *metric = m.values[std::min(i, m.values.size() - 1)];
    return INFER_OK;
  }
  std::vector<double> values;
  int fails_at = -1, code = INFER_OK;
  std::vector<std::vector<float>> scores = {};  // of the models that were measured
};

infer_quantize_options Options(const char* mode, Metrics& metrics, double max_drop) {
  infer_quantize_options o{};
  o.size = sizeof(o);
  o.mode = mode;
  o.threads = 1;
  o.evaluate = &Metrics::Evaluate;
  o.user = &metrics;
  o.max_drop = max_drop;
  return o;
}

infer_quantize_report Report() {
  infer_quantize_report r{};
  r.size = sizeof(r);
  return r;
}

TEST(CApiJudge, MeasuresTheGoldenModelFirst) {
  const Model golden, model;
  Metrics metrics{{0.9, 0.8}};
  const infer_quantize_options o = Options("weight-only", metrics, 0.1);
  infer_quantize_report r = Report();
  ASSERT_EQ(infer_model_quantize(model.m, &o, &r), INFER_OK) << infer_last_error();
  EXPECT_EQ(r.golden_metric, 0.9);
  EXPECT_EQ(r.candidate_metric, 0.8);
  EXPECT_STREQ(r.recipe, "");
  ASSERT_EQ(metrics.scores.size(), 2U);
  EXPECT_EQ(metrics.scores[0], RunSession(Session(golden, {.threads = 1}).s, Image().tensor()));
  EXPECT_NE(metrics.scores[0], metrics.scores[1]);
}

TEST(CApiJudge, RefusesWhatLosesMoreAndLeavesTheModel) {
  const Model model;
  const std::string before = model.Saved();
  Metrics metrics{{0.9, 0.79}};
  infer_quantize_options o = Options("weight-only", metrics, 0.1);
  infer_quantize_report r = Report();
  EXPECT_EQ(infer_model_quantize(model.m, &o, &r), INFER_GATE);
  EXPECT_THAT(infer_last_error(),
              HasSubstr("weight-only: drop of the metric 0.11, limit 0.1; 0.9 to 0.79"));
  EXPECT_EQ(model.Saved(), before);
  EXPECT_EQ(r.integer_layers, 0);
  metrics.scores.clear();
  o.max_drop = kInfinity;
  ASSERT_EQ(infer_model_quantize(model.m, &o, &r), INFER_OK) << infer_last_error();
  EXPECT_EQ(r.candidate_metric, 0.79);
}

TEST(CApiJudge, NoLossIsZeroAndAGainIsTaken) {
  for (const auto& [candidate, code] :
       {std::pair{0.5, INFER_OK}, {0.6, INFER_OK}, {0.499, INFER_GATE}}) {
    const Model model;
    Metrics metrics{{0.5, candidate}};
    const infer_quantize_options o = Options("dynamic", metrics, 0);
    EXPECT_EQ(infer_model_quantize(model.m, &o, nullptr), code) << candidate;
  }
}

/// Recipe that is taken, or the code of the refusal, with metrics of the golden model and of tries.
std::string RecipeOf(std::vector<double> values, const char* recipe, size_t tries) {
  static Images images(24);
  const infer_samples samples = images.array();
  const Model model(Small());
  Metrics metrics{std::move(values)};
  infer_quantize_options o = Options("static", metrics, 0.01);
  o.calibration = &samples;
  o.recipe = recipe;
  infer_quantize_report r = Report();
  const infer_code code = infer_model_quantize(model.m, &o, &r);
  EXPECT_EQ(metrics.scores.size(), 1 + tries);
  return code == INFER_OK ? r.recipe : std::to_string(code) + ": " + infer_last_error();
}

TEST(CApiJudge, TriesRecipesUntilOneIsTaken) {
  EXPECT_EQ(RecipeOf({1, 0.995}, nullptr, 1), "fast");
  EXPECT_EQ(RecipeOf({1, 0.9, 0.995}, nullptr, 2), "balanced");
  EXPECT_EQ(RecipeOf({1, 0.9, 0.91, 1}, nullptr, 3), "best");
  EXPECT_EQ(RecipeOf({1, 1}, "balanced", 1), "balanced");
  EXPECT_EQ(RecipeOf({1, 1}, "none", 1), "none");
  EXPECT_THAT(RecipeOf({1, 0.9}, "fast", 1), HasSubstr("8: "));
  EXPECT_THAT(RecipeOf({1, 0.9, 0.92, 0.91}, nullptr, 3),
              AllOf(HasSubstr("fast: "), HasSubstr("balanced: "), HasSubstr("best: "),
                    HasSubstr("1 to 0.92")));
}

/// Each ends the call with its code and text, and leaves the model as it was.
void ExpectFailure(Metrics metrics, double max_drop, infer_code code, const char* text,
                   size_t measured) {
  SCOPED_TRACE(text);
  const Model model;
  const size_t nodes = infer_model_nodes(model.m);
  const infer_quantize_options o = Options("dynamic", metrics, max_drop);
  EXPECT_EQ(infer_model_quantize(model.m, &o, nullptr), code);
  EXPECT_THAT(infer_last_error(), HasSubstr(text));
  EXPECT_EQ(infer_model_nodes(model.m), nodes);
  EXPECT_EQ(metrics.scores.size(), measured);
}

TEST(CApiJudge, FailuresOfTheMetric) {
  const double nan = std::nan("");
  ExpectFailure({{nan}}, 0, INFER_INVALID_ARGUMENT, "the metric of the golden model is nan", 1);
  ExpectFailure({{1, nan}}, 0, INFER_INVALID_ARGUMENT, "the metric of candidate dynamic is nan", 2);
  ExpectFailure({{1, -kInfinity}}, kInfinity, INFER_INVALID_ARGUMENT, "is -inf", 2);
  ExpectFailure({{1}, 0, INFER_CANCELLED}, 0, INFER_CANCELLED, "golden model: its callback failed",
                1);
  ExpectFailure({{1}, 1, INFER_IO}, 0, INFER_IO, "candidate dynamic: its callback failed", 2);
  ExpectFailure({{1}}, -1, INFER_INVALID_ARGUMENT, "max_drop -1", 0);
  ExpectFailure({{1}}, nan, INFER_INVALID_ARGUMENT, "max_drop nan", 0);
  const Model model;
  Metrics metrics{{1}};
  infer_quantize_options o = Options("dynamic", metrics, 0.1);
  o.evaluate = nullptr;
  EXPECT_EQ(infer_model_quantize(model.m, &o, nullptr), INFER_INVALID_ARGUMENT);
  EXPECT_THAT(infer_last_error(), HasSubstr("max_drop is an option of evaluate"));
}

TEST(CApiJudge, Prune) {
  for (const auto& [max_drop, code] : {std::pair{0.2, INFER_OK}, {0.1, INFER_GATE}}) {
    const Model model;
    const std::string before = model.Saved();
    Metrics metrics{{3, 2.85}};
    infer_prune_options o{};
    o.size = sizeof(o);
    o.threads = 1;
    o.sparsity = 0.5;
    o.evaluate = &Metrics::Evaluate;
    o.user = &metrics;
    o.max_drop = max_drop;
    infer_prune_report r{};
    r.size = sizeof(r);
    EXPECT_EQ(infer_model_prune(model.m, &o, &r), code) << infer_last_error();
    EXPECT_EQ(metrics.scores.size(), 2U);
    EXPECT_EQ(model.Saved() == before, code == INFER_GATE);
    if (code != INFER_OK) continue;
    EXPECT_EQ(r.golden_metric, 3);
    EXPECT_EQ(r.candidate_metric, 2.85);
  }
}

TEST(CApiJudge, WithoutAMetricNothingIsMeasured) {
  const Model model;
  infer_quantize_options o{};
  o.size = offsetof(infer_quantize_options, evaluate);  // of an older program
  o.mode = "dynamic";
  infer_quantize_report r = Report();
  ASSERT_EQ(infer_model_quantize(model.m, &o, &r), INFER_OK) << infer_last_error();
  EXPECT_TRUE(std::isnan(r.golden_metric));
  EXPECT_TRUE(std::isnan(r.candidate_metric));
}

/// An option that an older library would not read is not passed over.
TEST(CApiJudge, RefusesOptionsOfANewerHeader) {
  const Model model;
  struct {
    infer_quantize_options o;
    char more[64];
  } longer{};
  longer.o.size = sizeof(longer);
  longer.o.mode = "dynamic";
  longer.more[60] = 1;
  EXPECT_EQ(infer_model_quantize(model.m, &longer.o, nullptr), INFER_INVALID_ARGUMENT);
  EXPECT_THAT(infer_last_error(), HasSubstr("infer_quantize_options: this library is older"));
}

}  // namespace
}  // namespace c_api_test
