#include "tools/infer_bench/predict/predictor.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "tools/infer_bench/predict/fit.h"
#include "tools/infer_bench/predict/generated.h"

namespace infer::bench {
namespace {

using testing::HasSubstr;

size_t Column(std::string_view name) {
  const auto it = std::find(kColumns.begin(), kColumns.end(), name);
  INFER_CHECK(it != kColumns.end());
  return static_cast<size_t>(it - kColumns.begin());
}

Roofline Machine() {
  return {.lanes = 1,
          .f32_gflops = 100,
          .int8_gops = 400,
          .levels = {{"L2", 1 << 20, 50}, {"memory", 0, 10}}};
}

/// One price for a launch and one for a thousand results, whatever the family.
Profile Simple(double launch_us, double result_us) {
  LaneProfile lanes;
  lanes.roofline = Machine();
  lanes.run_us = 2;
  lanes.step_profile_us = 0.25;
  Family& any = lanes.families["any"];
  any.cases = 1;
  any.price[Column("launches")] = launch_us;
  any.price[Column("results")] = result_us;
  any.most.fill(1e9);
  Profile p;
  p.lanes.push_back(lanes);
  return p;
}

StepFacts Step(const char* op, const char* kernel, const char* in, const char* out) {
  StepFacts s;
  s.info.node = "n";
  s.info.op = op;
  s.info.kernel = kernel;
  s.info.precision = "f32";
  s.operands.push_back(OperandOf(in));
  s.results.push_back(OperandOf(out));
  s.launches = 1;
  return s;
}

TEST(Predict, IsTheSumOfPricesTimesAmounts) {
  PlanFacts plan;
  plan.steps = {Step("Relu", "own:avx2", "f32[10,100]", "f32[10,100]"),
                Step("Reshape", "view", "f32[10,100]", "f32[1000]"),
                Step("Concat", "own", "f32[2000]", "f32[4000]")};
  plan.steps[1].launches = 0;  // a view
  const Profile profile = Simple(3, 7);
  auto p = Predict(plan, profile, 1);
  ASSERT_TRUE(p.ok()) << p.status().message();
  // 2 + (3 + 7 * 1 - 0.25) + (3 + 7 * 4 - 0.25) us
  EXPECT_NEAR(p->ms, (2 + 9.75 + 30.75) / 1e3, 1e-12);
  EXPECT_EQ(p->steps[1].family, "");
  EXPECT_EQ(p->steps[1].ms, 0);
  EXPECT_EQ(p->steps[0].generality, 3);
  EXPECT_NEAR(p->general_share, (9.75 + 30.75) / 42.5, 1e-12);
  EXPECT_EQ(p->extrapolated_share, 0);
}

TEST(Predict, TheMostParticularFamilyIsTaken) {
  PlanFacts plan;
  plan.steps = {Step("Relu", "own:avx2", "f32[1000]", "f32[1000]")};
  Profile profile = Simple(3, 7);
  Family own;
  own.cases = 1;
  own.price[Column("results")] = 1;
  own.most.fill(0.1);
  profile.lanes[0].families["Relu | own:avx2 | f32"] = own;
  auto p = Predict(plan, profile, 1);
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(p->steps[0].generality, 0);
  EXPECT_NEAR(p->steps[0].ms, (1 - 0.25) / 1e3, 1e-12);
  EXPECT_TRUE(p->steps[0].extrapolated);
}

TEST(Predict, SaysWhatItCannot) {
  PlanFacts plan;
  plan.steps = {Step("NonZero", "own", "f32[1]", "f32[1]"),
                Step("Relu", "own", "f32[1]", "f32[1]")};
  plan.steps[0].late = true;
  Profile profile = Simple(1, 1);
  EXPECT_EQ(Predict(plan, profile, 1)->unpredictable, 1);
  EXPECT_THAT(Predict(plan, profile, 2).status().message(), HasSubstr("2 threads"));
  profile.lanes[0].families.clear();
  profile.lanes[0].families["conv | float"];
  EXPECT_EQ(Predict(plan, profile, 1).status().code(), Code::kInvalidArgument);
}

TEST(Predict, BodiesAsOftenAsTheyRun) {
  PlanFacts plan;
  plan.steps = {Step("Loop", "bodies", "f32[1000]", "f32[1000]"),
                Step("If", "bodies", "f32[1000]", "f32[1000]")};
  plan.steps[0].late = plan.steps[1].late = true;
  PlanFacts body;
  body.steps = {Step("Relu", "own", "f32[1000]", "f32[1000]")};  // 3 + 7 - 0.25 us, 2 beside it
  plan.bodies = {{.step = 0, .runs = 10, .at_least = true, .plan = body},
                 {.step = 1, .runs = 0.5, .plan = body},
                 {.step = 1, .known = false}};
  auto p = Predict(plan, Simple(3, 7), 1);
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_NEAR(p->steps[0].ms, 10 * 11.75 / 1e3, 1e-12);
  EXPECT_NEAR(p->steps[1].ms, 0.5 * 11.75 / 1e3, 1e-12);
  EXPECT_NEAR(p->ms, (2 + 10.5 * 11.75) / 1e3, 1e-12);
  EXPECT_EQ(p->steps[0].family, kBodies);
  EXPECT_EQ(p->unpredictable, 1);
  EXPECT_EQ(p->counted_once, 1);
}

TEST(Features, OfAConvolution) {
  StepFacts s = Step("Conv+Relu", "onednn", "f32[1,64,56,56]", "f32[1,128,28,28]");
  OperandFacts w = OperandOf("f32[128,64,3,3]");
  w.constant = true;
  s.operands.push_back(w);
  s.info.cost = {2 * 128 * 28 * 28 * 64 * 9, 64 * 56 * 56 * 4 + 128 * 64 * 9 * 4,
                 128 * 28 * 28 * 4};
  const StepFeatures f = FeaturesOf(s, 1 << 24, Machine());
  EXPECT_EQ(f.families[0], "conv | onednn | f32");
  EXPECT_NEAR(f.x[Column("work")], 2.0 * 128 * 28 * 28 * 64 * 9 / 100e3, 1e-6);
  EXPECT_NEAR(f.x[Column("constant_traffic")], 128 * 64 * 9 * 4 / 10e3, 1e-6);  // from memory
  EXPECT_NEAR(f.x[Column("weights")], 128 * 64 * 9 / 1e3, 1e-9);
  EXPECT_NEAR(f.x[Column("patches")], 28 * 28 * 64 * 9 / 1e3, 1e-9);
  EXPECT_NEAR(f.x[Column("results")], 128 * 28 * 28 / 1e3, 1e-9);
  s.operands[0] = OperandOf("f32[1,128,28,28]");
  s.operands[1].dims = {128, 1, 3, 3};
  EXPECT_THAT(FeaturesOf(s, 1 << 24, Machine()).families[0], testing::StartsWith("depthwise |"));
}

TEST(Features, OfARecurrentStepInAnyOrderOfItsOperands) {
  for (const bool weights_first : {false, true}) {
    StepFacts s = Step("LSTM", "own", "f32[5,1,32]", "f32[5,1,1,64]");
    s.operands.push_back(OperandOf("f32[1,256,32]"));
    s.operands.push_back(OperandOf("f32[1,256,64]"));
    if (weights_first) std::reverse(s.operands.begin(), s.operands.end() - 1);
    const StepFeatures f = FeaturesOf(s, 1 << 24, Machine());
    EXPECT_EQ(f.x[Column("repeats")], 5);
    EXPECT_NEAR(f.x[Column("repeated_traffic")], 5 * 256 * 64 * 4 / 50e3, 1e-9);
    EXPECT_NEAR(f.x[Column("constant_traffic")], 256 * (32 + 64) * 4 / 10e3, 1e-6);
    EXPECT_NEAR(f.x[Column("traffic")], (5 * 32 + 5 * 64) * 4 / 50e3, 1e-9);
  }
}

TEST(Features, OperandTypes) {
  EXPECT_EQ(OperandOf("f32[]").elements(), 1);
  EXPECT_EQ(OperandOf("i4[3, 5]").bytes(), 8);
  EXPECT_FALSE(OperandOf("f32[N,3]").known);
  EXPECT_FALSE(OperandOf("seq(f32[2])").known);
  EXPECT_FALSE(OperandOf("str[2]").known);
}

TEST(Features, ConstantsWithinACacheLineAreTheLaunchs) {
  StepFacts s = Step("Conv", "onednn", "f32[1,8,4,4]", "f32[1,8,4,4]");
  s.operands.push_back(OperandOf("i64[8]"));
  s.operands[1].constant = true;
  EXPECT_EQ(FeaturesOf(s, 1 << 24, Machine()).x[Column("constant_traffic")], 0);
  s.operands[1].dims = {9};
  EXPECT_NEAR(FeaturesOf(s, 1 << 24, Machine()).x[Column("constant_traffic")], 72 / 10e3, 1e-9);
}

TEST(Fit, FindsThePricesOfItsCases) {
  Random random(3);
  std::vector<FitCase> cases;
  for (size_t i = 0; i < 200; ++i) {
    FitCase c;
    c.program = i / 4;
    c.features.families = {"a", "b", "c", "any"};
    const double results = random.Uniform(0.1, 1000);
    c.features.x[Column("launches")] = 1;
    c.features.x[Column("results")] = results;
    c.us = (0.8 + 0.05 * results) * (i % 20 == 7 ? 5 : 1);  // one in twenty is disturbed
    cases.push_back(c);
  }
  const auto families = FitFamilies(cases);
  ASSERT_EQ(families.size(), 4u);
  const Family& a = families.at("a");
  EXPECT_NEAR(a.price[Column("launches")], 0.8, 0.02);
  EXPECT_NEAR(a.price[Column("results")], 0.05, 0.001);
  EXPECT_GT(a.held_out, 10);
  EXPECT_LT(a.regret_median, 0.02);
}

TEST(Features, OfAnOperandThatIsRepeated) {
  StepFacts s = Step("Mul", "own:avx2", "f32[2,500,4]", "f32[2,500,4]");
  s.operands.push_back(OperandOf("f32[2,500,4]"));
  EXPECT_EQ(FeaturesOf(s, 0, Machine()).x[Column("broadcast_rows")], 0);
  s.operands[1] = OperandOf("f32[]");  // a number is in no row's way
  EXPECT_EQ(FeaturesOf(s, 0, Machine()).x[Column("broadcast_rows")], 0);
  for (const char* repeated : {"f32[4]", "f32[2,500,1]"}) {
    s.operands[1] = OperandOf(repeated);
    s.operands[1].constant = true;
    EXPECT_EQ(FeaturesOf(s, 0, Machine()).x[Column("broadcast_rows")], 1) << repeated;
  }
}

TEST(Features, StretchesOfACopyFromAConstant) {
  StepFacts s = Step("Slice", "own:strided", "f32[512,128]", "f32[256,128]");
  const StepFeatures computed = FeaturesOf(s, 0, Machine());
  EXPECT_DOUBLE_EQ(computed.x[Column("runs")], 0.256);
  s.operands[0].constant = true;
  EXPECT_EQ(FeaturesOf(s, 0, Machine()).x, computed.x);
  // A look-up reads few rows.
  s.info.op = "Gather";
  s.info.cost.bytes_read = 256;
  EXPECT_EQ(FeaturesOf(s, 0, Machine()).x[Column("operands")], 0);
  EXPECT_NEAR(FeaturesOf(s, 1 << 24, Machine()).x[Column("constant_traffic")], 256 / 10e3, 1e-9);
}

/// The bodies of the only step that has some.
std::vector<BodyFacts> BodiesOf(const std::string& text) {
  static const OpRegistry ops(AllOps());
  const auto g = ParseGraph("graph g" + text, ops);
  INFER_CHECK(g.ok());
  auto planned = PlanModel(*g, {.threads = 1});
  INFER_CHECK(planned.ok());
  return planned->facts.bodies;
}

TEST(Bodies, OfAnIf) {
  const std::string node =
      " y = If(c) [x] {then_branch=graph(x) -> (y) { y = Exp(x) }, "
      "else_branch=graph(x) -> (y) { e = Exp(x) y = MatMul(e, x) }} }";
  const auto either = BodiesOf("(c: bool[], x: f32[3,3]) -> (y) {" + node);
  ASSERT_EQ(either.size(), 2u);
  for (const BodyFacts& b : either) EXPECT_TRUE(b.known && !b.at_least && b.runs == 0.5);
  EXPECT_EQ(either[0].plan.steps.size(), 1u);
  EXPECT_EQ(either[1].plan.steps.size(), 2u);
  EXPECT_TRUE(either[0].plan.steps[0].operands[0].known);
  const auto taken = BodiesOf("(x: f32[3,3]) -> (y) { c = const bool[] {0}" + node);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].runs, 1);
  EXPECT_EQ(taken[0].plan.steps.size(), 2u);
}

TEST(Bodies, OfALoop) {
  const auto bodies = [](const char* operands, const char* condition, const char* trips) {
    return BodiesOf(std::string("(c: bool[], m: i64[], x: f32[4]) -> (y) { n = const i64[] {") +
                    trips + "} y = Loop(" + operands +
                    ") {body=graph(i, go, a) -> (more, b) { b = Exp(a) more = " + condition +
                    " }} }");
  };
  const auto seven = bodies("n, _, x", "Identity(go)", "7");
  ASSERT_EQ(seven.size(), 1u);
  EXPECT_EQ(seven[0].runs, 7);
  EXPECT_FALSE(seven[0].at_least);
  EXPECT_TRUE(bodies("n, _, x", "Identity(go)", "0").empty());
  // A trip count or a condition that only the run knows.
  for (const auto& unknown :
       {bodies("m, _, x", "Identity(go)", "7"), bodies("n, c, x", "Identity(go)", "7"),
        bodies("n, _, x", "Not(go)", "7")}) {
    ASSERT_EQ(unknown.size(), 1u);
    EXPECT_EQ(unknown[0].runs, 1);
    EXPECT_TRUE(unknown[0].at_least);
  }
}

TEST(Bodies, OfAScanOnceForEachSlice) {
  const auto scan = BodiesOf(
      "(s: f32[2], x: f32[5,2]) -> (e, y) { e, y = Scan(s, x) {num_scan_inputs=1, "
      "body=graph(a, b) -> (c, d) { c = Add(a, b) d = Exp(c) }} }");
  ASSERT_EQ(scan.size(), 1u);
  EXPECT_EQ(scan[0].runs, 5);
}

TEST(Generated, EveryProgramCompilesAndIsTheSameAgain) {
  const OpRegistry ops(AllOps());
  // One of each kind; sanitizers take seconds for the large ones.
  const uint64_t step = std::getenv("INFER_SANITIZED") ? 4 : 1;
  for (uint64_t i = 0; i < 15; i += step) {
    auto first = MakeGenerated(i, ops), again = MakeGenerated(i, ops);
    ASSERT_TRUE(first.ok()) << first.status().message();
    EXPECT_EQ(Print(first->graph, {.max_elements = 4}), Print(again->graph, {.max_elements = 4}));
  }
}

class Hostile : public testing::Test {
 protected:
  void SetUp() override {
    Json lanes = ToJson(Simple(1, 1).lanes[0]);
    lanes["programs"] = 1, lanes["steps"] = 1;
    good_ = {{"schema", "infer-bench/machine@1"},
             {"host", {{"isa", "avx2"}, {"cpu", "x"}}},
             {"environment", {{"git_revision", ""}, {"date", ""}}},
             {"watch", {{"spin_before_ms", 1.5}, {"spin_after_ms", 1.25}}},
             {"profiles", Json::array({lanes})}};
  }
  Status Read(const Json& json) { return ReadText(json.dump()); }
  Status ReadText(const std::string& text) {
    const std::string path = testing::TempDir() + "/profile.json";
    std::ofstream(path) << text;
    const Status s = ReadProfile(path).status();
    std::remove(path.c_str());
    return s;
  }
  Json good_;
};

TEST_F(Hostile, WhatNoMachineHasIsRefused) {
  EXPECT_TRUE(Read(good_).ok()) << Read(good_).message();
  const std::pair<const char*, Json> changes[] = {
      {"/schema", "infer-bench/run@2"},
      {"/profiles", Json::array()},
      {"/profiles/0/families", Json::array()},
      {"/profiles/0/families/0/price_us/launches", -1},
      {"/profiles/0/families/0/price_us/launches", nullptr},
      {"/profiles/0/families/0/price_us/launches", "nan"},
      {"/profiles/0/families/0/price_us/launches", 1e300},
      {"/profiles/0/roofline/levels/0/bytes", 1e300},
      {"/profiles/0/families/0/price_us/nonsense", 1},
      {"/profiles/0/roofline/levels", Json::array()},
      {"/profiles/0/roofline/levels/0/gb_per_s", 0},
      {"/profiles/0/roofline/f32_gflops", 0},
      {"/profiles/0/threads", 0.5},
      {"/host", 3},
      {"/watch/spin_after_ms", 0},
  };
  for (const auto& [where, value] : changes) {
    Json bad = good_;
    bad[Json::json_pointer(where)] = value;
    EXPECT_EQ(Read(bad).code(), Code::kInvalidModel) << where << " = " << value;
  }
  for (const char* gone : {"/host", "/environment", "/watch", "/profiles"}) {
    Json bad = good_;
    bad.erase(gone + 1);
    EXPECT_EQ(Read(bad).code(), Code::kInvalidModel) << gone;
  }
  EXPECT_EQ(ReadText("{").code(), Code::kInvalidModel);
  EXPECT_EQ(ReadText("").code(), Code::kInvalidModel);
}

}  // namespace
}  // namespace infer::bench
