#include <cmath>
#include <fstream>
#include <limits>
#include <tuple>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "tools/common/host.h"
#include "tools/common/pinning.h"
#include "tools/engines/wire.h"
#include "tools/infer_bench/peers/agreement.h"
#include "tools/infer_bench/peers/infer_worker.h"
#include "tools/infer_bench/peers/machine.h"
#include "tools/infer_bench/peers/verdict.h"

namespace infer::peers {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;

Tensor F32(std::vector<float> v) {
  return Tensor::Of<float>({static_cast<int64_t>(v.size())}, std::span<const float>(v));
}

TEST(InferWorker, WaitsAreTakenOffWhereTheSchedulersClockIsGoodEnough) {
  EXPECT_EQ(UndisturbedNs(1'000'000, 1'000'400, 0), 1'000'000);
  EXPECT_EQ(UndisturbedNs(1'000'000, 1'000'400, -1), 1'000'000) << "the system does not say";
  EXPECT_EQ(UndisturbedNs(6'000'000, 6'000'400, 5'000'000), 1'000'400);
  EXPECT_EQ(UndisturbedNs(6'000'000, 6'000'400, 100), 6'000'000) << "never more than it took";
  // A run of 300 ns that was interrupted: the two clocks differ by more than it takes.
  EXPECT_EQ(UndisturbedNs(4'000'300, 4'000'700, 4'000'900), 4'000'300);
  EXPECT_EQ(UndisturbedNs(4'000'300, 4'000'700, 4'000'000), 4'000'300);
}

TEST(Agreement, FloatsByTheLargestOfThePeer) {
  const AgreementRule rule;
  const OutputDifference d = CompareOutput("y", F32({2, -4}), F32({2.002f, -4}), rule);
  EXPECT_TRUE(d.agrees);
  EXPECT_THAT(d.max_ratio, DoubleNear(0.0005, 1e-6));
  EXPECT_THAT(d.rms_ratio, DoubleNear(0.002 / std::sqrt(20), 1e-6));
  const OutputDifference far = CompareOutput("y", F32({2, -4}), F32({2.005f, -4}), rule);
  EXPECT_FALSE(far.agrees);
  EXPECT_THAT(far.why, HasSubstr("max|d| / max|peer| is 0.00125"));
}

TEST(Agreement, FarBelowOneTheLastPlacesOfOneCount) {
  // A sigmoid's 1e-5, off by 1.2e-7: one engine rounded 1 + exp(x) otherwise.
  EXPECT_TRUE(CompareOutput("y", F32({1e-5f}), F32({1.012e-5f}), {}).agrees);
  EXPECT_FALSE(CompareOutput("y", F32({1e-5f}), F32({1.05e-5f}), {}).agrees);
}

TEST(Agreement, HalfPrecisionIsWhatNodesCompute) {
  const OpRegistry ops = AllOps();
  const auto ratio = [&](const std::string& body) {
    auto g = ParseGraph(body, ops);
    EXPECT_TRUE(g.ok()) << g.status().message();
    return g.ok() ? RuleFor(*g, {}).max_ratio : 0;
  };
  EXPECT_EQ(ratio("graph g(x: f32[4]) -> (y) {\n  y = Relu(x)\n}"), 1e-3);
  EXPECT_EQ(ratio("graph g(x: f16[4]) -> (y) {\n  y = Relu(x)\n}"), 10 * 0x1p-11);
  EXPECT_EQ(ratio("graph g(x: f16[4]) -> (y) {\n  y = Cast(x) {to=1}\n}"), 1e-3);
}

TEST(Agreement, AgainstZerosTheDifferenceCountsAsItIs) {
  EXPECT_TRUE(CompareOutput("y", F32({0, 0}), F32({0, 0.0009f}), {}).agrees);
  EXPECT_FALSE(CompareOutput("y", F32({0, 0}), F32({0, 0.002f}), {}).agrees);
  EXPECT_TRUE(CompareOutput("y", F32({}), F32({}), {}).agrees);
}

TEST(Agreement, NonFiniteValuesStandAtTheSamePlaces) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  EXPECT_TRUE(CompareOutput("y", F32({1, inf, nan}), F32({1, inf, nan}), {}).agrees);
  for (const auto& wrong : {F32({1, -inf, nan}), F32({1, inf, 0}), F32({nan, inf, nan})}) {
    EXPECT_FALSE(CompareOutput("y", F32({1, inf, nan}), wrong, {}).agrees);
    EXPECT_FALSE(CompareOutput("y", F32({1, inf, nan}), wrong, {.quantized = true}).agrees);
  }
}

TEST(Agreement, IntegersAreEqual) {
  const int64_t big = (int64_t{1} << 60) + 1;  // no double holds it
  const Tensor a = Tensor::Int64s({1, big}), b = Tensor::Int64s({1, big - 1});
  EXPECT_TRUE(CompareOutput("y", a, a, {}).agrees);
  const OutputDifference d = CompareOutput("y", a, b, {});
  EXPECT_FALSE(d.agrees);
  EXPECT_EQ(d.differing_share, 0.5);
}

TEST(Agreement, OfQuantizedModelsAFewStepsMayDiffer) {
  const AgreementRule rule{.quantized = true, .rms_ratio = 0.05, .step_share = 0.01};
  EXPECT_TRUE(CompareOutput("y", F32({1, 1, 1, 1}), F32({1.08f, 1, 1, 1}), rule).agrees);
  EXPECT_FALSE(CompareOutput("y", F32({1, 1, 1, 1}), F32({1.2f, 1, 1, 1}), rule).agrees);
  std::vector<uint8_t> want(200, 7), got(200, 8);
  got[0] = 9;
  got[1] = 5;
  const auto u8 = [](const std::vector<uint8_t>& v) {
    return Tensor::Of<uint8_t>({200}, std::span<const uint8_t>(v));
  };
  const OutputDifference two = CompareOutput("y", u8(want), u8(got), rule);
  EXPECT_TRUE(two.agrees) << two.why;
  EXPECT_EQ(two.beyond_one_share, 0.01);
  EXPECT_EQ(two.differing_share, 1);
  got[2] = 3;
  EXPECT_FALSE(CompareOutput("y", u8(want), u8(got), rule).agrees);
}

TEST(Agreement, TypesAndExtentsAreTheSame) {
  EXPECT_THAT(CompareOutput("y", F32({1}), F32({1, 1}), {}).why, HasSubstr("f32[2]"));
  EXPECT_FALSE(CompareOutput("y", F32({1}), Tensor::Int64s({1}), {}).agrees);
}

TEST(Agreement, QuantizedIsWhatQuantizesAtRunTime) {
  const OpRegistry ops = AllOps();
  const auto quantizes = [&](const std::string& body) {
    auto g = ParseGraph(body, ops);
    EXPECT_TRUE(g.ok()) << g.status().message();
    return g.ok() && QuantizesActivations(*g);
  };
  EXPECT_FALSE(quantizes("graph g(x: f32[4]) -> (y) {\n  y = Relu(x)\n}"));
  EXPECT_TRUE(quantizes("graph g(x: f32[4], s: f32[]) -> (q) {\n  q = QuantizeLinear(x, s)\n}"));
  EXPECT_TRUE(quantizes("graph g(x: f32[4]) -> (q) {\n  q, s, z = DynamicQuantizeLinear(x)\n}"));
  EXPECT_FALSE(quantizes("graph g(q: u8[4], s: f32[]) -> (y) {\n  y = DequantizeLinear(q, s)\n}"));
  EXPECT_FALSE(
      quantizes("graph g(s: f32[]) -> (q) {\n  x = const f32[4] ~7\n"
                "  q = QuantizeLinear(x, s)\n}"));
}

/// As a measurement by default has them: starts that scatter by `sd`, in each some rounds that
/// scatter by 1 %.
StartRatios Measured(Random& random, double ratio, double sd, int starts = 6, int rounds = 3) {
  StartRatios out(static_cast<size_t>(starts));
  for (auto& start : out) {
    const double its = std::log(ratio) + sd * random.Normal();
    for (int i = 0; i < rounds; ++i) start.push_back(std::exp(its + 0.01 * random.Normal()));
  }
  return out;
}

bool Differs(const Ratio& r) { return WordOf(r) == "faster" || WordOf(r) == "slower"; }

TEST(Verdict, SameIsSaidOfNarrowIntervalsOnly) {
  EXPECT_EQ(WordOf({1, 0.98, 1.02}), "same");
  EXPECT_EQ(WordOf({1, 0.98, 1.04}), "inconclusive");
  EXPECT_EQ(WordOf({1, 0.96, 1.02}), "inconclusive");
  EXPECT_EQ(WordOf({1.02, 1.01, 1.03}), "slower");
  EXPECT_EQ(WordOf({0.98, 0.97, 0.99}), "faster");
  EXPECT_EQ(WordOf(RatioOf(StartRatios(3, {1}))), "same");
}

TEST(Verdict, StartsMakeTheIntervalAndNotTheirRounds) {
  const StartRatios equal(3, std::vector<double>(3, 0.8));
  EXPECT_EQ(RatioOf(equal).low, 0.8);
  EXPECT_EQ(RatioOf(equal).high, 0.8);
  EXPECT_EQ(WordOf(RatioOf(equal)), "faster");
  EXPECT_EQ(WordOf(RatioOf(StartRatios(2, {1.01}))), "slower");
  const Ratio r = RatioOf({{0.8}, {0.9, 1, 1.2}, {1.25}});
  EXPECT_THAT(r.median, DoubleNear(1, 1e-12));
  EXPECT_EQ(WordOf(r), "inconclusive");
  // However many rounds two starts have, they are two values.
  const Ratio two = RatioOf({std::vector<double>(100, 1.04), std::vector<double>(100, 1.02)});
  EXPECT_THAT(two.high, DoubleNear(1.03 * std::exp(0.0097087 * 12.706), 1e-3));
  EXPECT_EQ(WordOf(two), "inconclusive");
}

TEST(Verdict, EqualEnginesAreSeldomCalledDifferent) {
  Random random(1);
  constexpr int kTrials = 4000;
  for (const auto& [starts, rounds] : {std::pair(6, 3), {3, 7}}) {
    int decided = 0, failed = 0;
    for (int i = 0; i < kTrials; ++i) {
      const Ratio r = RatioOf(Measured(random, 1, 0.02, starts, rounds));
      decided += Differs(r);
      failed += GateOf(r, 1) == Gate::kFailed;
    }
    // 5 %, half of them slower, and three standard deviations of so many draws.
    EXPECT_LE(decided, kTrials * 60 / 1000) << starts;
    EXPECT_LE(failed, kTrials * 33 / 1000) << starts;
    EXPECT_GE(decided, kTrials * 40 / 1000) << starts;  // nor is the interval too wide
  }
}

TEST(Verdict, DifferencesAreFound) {
  Random random(2);
  constexpr int kTrials = 1000;
  for (const auto& [ratio, sd, least] :
       {std::tuple(1.05, 0.02, 970), {1 / 1.05, 0.02, 970}, {1.1, 0.048, 940}, {1.2, 0.048, 990}}) {
    int found = 0;
    for (int i = 0; i < kTrials; ++i)
      found += WordOf(RatioOf(Measured(random, ratio, sd))) == (ratio < 1 ? "faster" : "slower");
    EXPECT_GE(found, least) << ratio << " " << sd;
  }
}

TEST(Verdict, GeometricMeanOfMedians) {
  const Ratio r = GeometricMean({{{0.5, 0.5, 9}, {0.5}}, {{2, 2, 2}, {2}}, {{8}, {4, 8, 9}}});
  EXPECT_THAT(r.median, DoubleNear(2, 1e-12));
  EXPECT_THAT(r.low, DoubleNear(2, 1e-12));
  EXPECT_THAT(r.high, DoubleNear(2, 1e-12));
  Random random(3);
  constexpr int kTrials = 2000;
  int decided = 0, found = 0;
  for (int i = 0; i < kTrials; ++i) {
    std::vector<StartRatios> equal, slower;
    for (const double sd : {0.005, 0.01, 0.02, 0.048}) {
      equal.push_back(Measured(random, 1, sd));
      slower.push_back(Measured(random, 1.05, sd));
    }
    decided += Differs(GeometricMean(equal));
    found += WordOf(GeometricMean(slower)) == "slower";
  }
  EXPECT_LE(decided, kTrials * 65 / 1000);
  EXPECT_GE(found, kTrials * 98 / 100);
}

TEST(Verdict, GateNeedsTheWholeInterval) {
  EXPECT_EQ(GateOf({1.0, 0.9, 1.05}, 1.05), Gate::kPassed);
  EXPECT_EQ(GateOf({1.2, 1.06, 1.3}, 1.05), Gate::kFailed);
  EXPECT_EQ(GateOf({1.2, 1.0, 1.3}, 1.05), Gate::kInconclusive);
}

TEST(Wire, TensorsComeBackAndLiesAreSeen) {
  auto folder = ScratchFolder::Make();
  ASSERT_TRUE(folder.ok());
  const std::string file = (*folder)->path() + "/t.raw";
  for (const Tensor& t : {F32({1, 2, 3}), Tensor::Int64s({}), Tensor::Scalar<uint8_t>(7),
                          F32({}).Cast(DType::kF16)}) {
    auto described = WriteTensor(t, "t", file);
    ASSERT_TRUE(described.ok());
    auto back = ReadTensor(*described);
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(back->type(), t.type());
    EXPECT_TRUE(CompareOutput("t", t, *back, {.max_ratio = 0}).agrees);
  }
  auto described = WriteTensor(F32({1, 2, 3}), "t", file);
  for (const char* wrong :
       {R"({"dims": [4]})", R"({"dims": [-3]})", R"({"dtype": "f99"})", R"({"dtype": "str"})",
        R"({"file": "/no/such"})", R"({"dims": ["x"]})", R"({"dims": [4611686018427387904, 9]})"}) {
    Json lie = *described;
    lie.update(Json::parse(wrong));
    EXPECT_FALSE(ReadTensor(lie).ok()) << wrong;
  }
  EXPECT_FALSE(ReadTensor("text").ok());
  EXPECT_FALSE(WriteTensor(Tensor::OfStrings({1}, {"a"}), "t", file).ok());
}

/// Three texts, two numbers and their number of bytes as files, as a worker describes them.
struct Described {
  explicit Described(const std::string& folder) {
    auto text = WriteNumbersOrText(Tensor::OfStrings({3}, {"no", "", "yes"}), "t", folder + "/t");
    auto numbers = WriteTensor(F32({1, 2, 3}), "n", folder + "/n");
    auto lengths = WriteTensor(Tensor::Int64s({2, 1}), "l", folder + "/l");
    EXPECT_TRUE(text.ok() && numbers.ok() && lengths.ok());
    texts = *text;
    maps = {{"maps", {{"lengths", *lengths}, {"keys", *text}, {"values", *numbers}}}};
  }
  Json texts, maps;
};

TEST(Wire, ValuesOfAComparison) {
  auto folder = ScratchFolder::Make();
  ASSERT_TRUE(folder.ok());
  const Described d((*folder)->path());
  const auto text = ReadValue(d.texts);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(text->tensor().strings()[2], "yes");
  const auto maps = ReadValue(d.maps);
  ASSERT_TRUE(maps.ok()) << maps.status().message();
  ASSERT_EQ(maps->sequence().size(), 2u);
  EXPECT_EQ(maps->sequence()[0].map().keys.num_elements(), 2);
  EXPECT_EQ(maps->sequence()[1].map().values->sequence()[0].tensor().At(0), 3);
  const auto nothing = ReadValue({{"optional", nullptr}});
  ASSERT_TRUE(nothing.ok());
  EXPECT_FALSE(nothing->optional().value);
  const auto left_out = ReadValue({{"left_out", "why"}});
  ASSERT_TRUE(left_out.ok());
  EXPECT_FALSE(left_out->tensor().defined());
}

TEST(Wire, LiesAboutValuesAreSeen) {
  auto folder = ScratchFolder::Make();
  ASSERT_TRUE(folder.ok());
  const Described d((*folder)->path());
  Json more = d.texts;
  more["dims"] = {4};
  Json longer = d.maps;
  longer["maps"]["lengths"] = *WriteTensor(Tensor::Int64s({2, 2}), "l", (*folder)->path() + "/l2");
  Json negative = d.maps;
  negative["maps"]["lengths"] = *WriteTensor(Tensor::Int64s({-1}), "l", (*folder)->path() + "/l3");
  ASSERT_TRUE(WriteFileAtomically((*folder)->path() + "/cut", std::string(8, '\xff')).ok());
  Json cut = d.texts;
  cut["file"] = (*folder)->path() + "/cut";
  for (const Json& lie : {more, longer, negative, cut, Json("text"), Json{{"maps", 1}},
                          Json{{"map", d.maps["maps"]}}, Json{{"sequence", {1}}}})
    EXPECT_FALSE(ReadValue(lie).ok()) << lie.dump();
}

TEST(Machine, OneProcessorForEveryThread) {
  auto one = FirstCpus(1);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->size(), 1u);
  EXPECT_EQ(FirstCpus(4000).status().code(), Code::kInvalidArgument);
}

TEST(Machine, BusySecondsHoldOurOwn) {
  const double busy = GetMachineSeconds().busy, own = OwnCpuSeconds();
  if (busy < 0) GTEST_SKIP() << "no /proc/stat";
  while (OwnCpuSeconds() - own < 0.5) {
  }
  EXPECT_GE(GetMachineSeconds().busy - busy, 0.4);  // counted in ticks of 10 ms
}

TEST(Machine, ALockIsHeldByOneAtATime) {
  auto folder = ScratchFolder::Make();
  ASSERT_TRUE(folder.ok());
  const std::string path = (*folder)->path() + "/lock";
  int waited = 0;
  auto first = MeasuringLock::Take(path, {}, [&] { ++waited; });
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(waited, 0);
  std::stop_source stopped;
  stopped.request_stop();
  auto second = MeasuringLock::Take(path, stopped.get_token(), [&] { ++waited; });
  EXPECT_EQ(second.status().code(), Code::kCancelled);
  EXPECT_EQ(waited, 1);
  first->reset();
  EXPECT_TRUE(MeasuringLock::Take(path, {}, [&] { ++waited; }).ok());
  EXPECT_EQ(waited, 1);
}

}  // namespace
}  // namespace infer::peers
