/// A kernel that is wrong is found and gets no time; equal steps are one case; what a registry has
/// and no step reached is told.
#include "tools/infer_bench/kernels/kernel_bench.h"

#include <gmock/gmock.h>

#include "lib/ir/text.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "tests/tools/test_models.h"
#include "tools/common/input_values.h"

namespace infer::bench {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

std::string Accepts(const StepCall&) { return ""; }

/// Relu, but for the last element.
std::unique_ptr<Kernel> MakeBrokenRelu(const StepCall&) {
  return KernelOf([](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const int64_t n = NumElements(in[0].dims);
    Prepared p;
    p.launch = LaunchOf([n](std::byte* const* args) {
      const auto* x = As<float>(args[0]);
      auto* y = As<float>(args[1]);
      for (int64_t i = 0; i < n; ++i) y[i] = i + 1 < n ? std::max(x[i], 0.0f) : -1;
    });
    return p;
  });
}

KernelList WithBrokenRelu() {
  KernelList list = {{"Relu", "", "broken", Accepts, MakeBrokenRelu}};
  const KernelList all = CpuKernels();
  list.insert(list.end(), all.begin(), all.end());
  return list;
}

KernelBenchOptions Quick() {
  KernelBenchOptions o;
  o.timer = {.min_time_s = 1e-4, .repetitions = 2};
  o.threads = 1;
  return o;
}

/// The graph's cases.
KernelBench Measured(std::string_view text, const KernelBenchOptions& options = Quick(),
                     KernelList kernels = CpuKernels()) {
  KernelBench bench(std::move(kernels), options);
  auto g = ParseGraph(text, Ops());
  EXPECT_TRUE(g.ok()) << g.status().message();
  const auto inputs = RandomModelInputs(*g, 1);
  EXPECT_TRUE(inputs.ok()) << inputs.status().message();
  const Status added = bench.Add("m", std::move(*g), *inputs);
  EXPECT_TRUE(added.ok()) << added.message();
  return bench;
}

constexpr std::string_view kRelu = "graph g(x: f32[3,50]) -> (y) { y = Relu(x) }";

TEST(KernelBench, AWrongKernelIsFoundAndGetsNoTime) {
  const KernelBench bench = Measured(kRelu, Quick(), WithBrokenRelu());
  ASSERT_EQ(bench.cases().size(), 1);
  const KernelCase& c = bench.cases()[0];
  EXPECT_EQ(c.kernel, "broken");
  EXPECT_THAT(c.check.wrong, HasSubstr("max|d| / max|ref|"));
  EXPECT_THAT(c.wrong_in, HasSubstr("m, "));
  EXPECT_FALSE(c.time);
  EXPECT_THAT(bench.Gbench(), Not(HasSubstr("broken")));

  const KernelBench right = Measured(kRelu);
  ASSERT_EQ(right.cases().size(), 1);
  EXPECT_TRUE(right.cases()[0].check.ok()) << right.cases()[0].check.wrong;
  ASSERT_TRUE(right.cases()[0].time);
  EXPECT_EQ(right.cases()[0].time->real_us.size(), 2);
  EXPECT_GT(right.cases()[0].time->real_us[0], 0);
}

TEST(KernelBench, EqualStepsAreOneCaseWhereverTheyStand) {
  constexpr std::string_view kTwice = R"(graph g(x: f32[8,16], v: f32[16,16]) -> (y) {
    a = MatMul(x, v)  b = MatMul(a, v)  t = Transpose(b) {perm=[1,0]}  y = MatMul(t, x) })";
  KernelBench bench = Measured(kTwice);
  const auto inputs = RandomModelInputs(*ParseGraph(kTwice, Ops()), 2);
  ASSERT_TRUE(bench.Add("n", *ParseGraph(kTwice, Ops()), *inputs).ok());
  std::map<std::string, std::map<std::string, int64_t>> uses;
  for (const KernelCase& c : bench.cases()) uses[c.name.substr(c.name.rfind('/') + 1)] = c.uses;
  EXPECT_THAT(uses, Contains(Pair("8x16,16x16->8x16", ElementsAre(Pair("m", 2), Pair("n", 2)))));
  EXPECT_THAT(uses, Contains(Pair("16x8,8x16->16x16", ElementsAre(Pair("m", 1), Pair("n", 1)))));
  EXPECT_EQ(bench.sources()[1].steps, 4);
}

TEST(KernelBench, AFilterAndAListRunNothingMore) {
  KernelBenchOptions only = Quick();
  only.filter = "Softmax/*";
  constexpr std::string_view kTwo =
      "graph g(x: f32[4,9]) -> (y) { a = Transpose(x) y = Softmax(a) }";
  const KernelBench bench = Measured(kTwo, only);
  ASSERT_EQ(bench.cases().size(), 1);
  EXPECT_EQ(bench.cases()[0].op, "Softmax");
  KernelBenchOptions list = Quick();
  list.list = true;
  const KernelBench listed = Measured(kRelu, list, WithBrokenRelu());
  ASSERT_EQ(listed.cases().size(), 1);
  EXPECT_TRUE(listed.cases()[0].check.ok()) << "it was run";
  for (const KernelCase& c : listed.cases()) EXPECT_FALSE(c.time);
}

TEST(KernelBench, AlternativesAreTheKernelsThatWereNotChosen) {
  constexpr std::string_view kConv = R"(graph g(x: f32[1,32,12,12]) -> (y) {
    w = const f32[32,32,3,3] ~1  y = Conv(x, w) {pads=[1,1,1,1]} })";
  const KernelBench chosen = Measured(kConv);
  ASSERT_EQ(chosen.cases().size(), 1);
  KernelBenchOptions all = Quick();
  all.alternatives = true;
  const KernelBench bench = Measured(kConv, all);
  ASSERT_GT(bench.cases().size(), 1);
  for (const KernelCase& c : bench.cases()) {
    EXPECT_EQ(c.chosen, c.kernel == chosen.cases()[0].kernel) << c.kernel;
    EXPECT_TRUE(c.check.ok()) << c.name << ": " << c.check.wrong;
    EXPECT_TRUE(c.time) << c.name;
  }
}

TEST(KernelBench, WhatIsNotReachedIsNotCovered) {
  const KernelBench bench = Measured(kRelu, Quick(), WithBrokenRelu());
  EXPECT_THAT(bench.covered(), ElementsAre(KernelEntry{"Relu", "broken"}));
  const std::vector<KernelEntry> entries = bench.Entries();
  EXPECT_EQ(std::count(entries.begin(), entries.end(), KernelEntry{"Relu", "broken"}), 1);
  EXPECT_GT(entries.size(), 100);
}

TEST(KernelBench, StepsWhoseShapesHangOnDataAreTakenWhenTheyAreKnown) {
  const KernelBench bench = Measured(R"(graph g(x: f32[40]) -> (y) {
    n = NonZero(x)  t = Transpose(n) {perm=[1,0]}  g = GatherND(x, t)  y = Exp(g) })");
  std::vector<std::string> ops;
  for (const KernelCase& c : bench.cases()) {
    ops.push_back(c.op);
    EXPECT_TRUE(c.check.ok()) << c.name << ": " << c.check.wrong;
  }
  EXPECT_THAT(ops, Contains("Exp"));
  EXPECT_THAT(bench.sources()[0].reference, ElementsAre(Pair("NonZero", 1)));
}

TEST(KernelTimer, AFailureEndsItWhereverItComes) {
  // Three repetitions make at least so many calls, however long one takes.
  for (const int at : {1, 2, 3}) {
    KernelTimer timer({.min_time_s = 1e-4, .repetitions = 3});
    int calls = 0;
    const auto time = timer.Time(
        "k", {}, [&]() -> Status { return ++calls < at ? Status() : Internal("it broke"); });
    EXPECT_EQ(time.status().message(), "it broke");
    EXPECT_EQ(calls, at);
    EXPECT_THAT(timer.Json({{"k", {}}}), Not(HasSubstr("\"k\"")));
  }
}

/// The last step of `text`, as if a kernel had made `got` where `want` is right.
StepCheck Checked(std::string_view text, const Tensor& want, const Tensor& got) {
  const Plan plan = PartitionByNode(*ParseGraph(text, Ops()));
  auto check = CheckStep(plan.steps.back(), StepKernel{.name = "k"}, {&want, 1}, {&got, 1});
  EXPECT_TRUE(check.ok()) << check.status().message();
  return *check;
}

TEST(StepCheck, Floats) {
  const auto checked = [](float got) {
    return Checked(kRelu, Tensor::Of<float>({2}, {1000, 1}), Tensor::Of<float>({2}, {1000, got}));
  };
  EXPECT_TRUE(checked(1.009f).ok());
  EXPECT_NEAR(checked(1.009f).error, 9e-6, 1e-7);
  EXPECT_FALSE(checked(1.011f).ok());
  EXPECT_THAT(checked(std::nanf("")).wrong, HasSubstr("NaN"));
  EXPECT_THAT(
      Checked(kRelu, Tensor::Of<float>({1}, {1.0f}), Tensor::Of<float>({1, 1}, {1.0f})).wrong,
      HasSubstr("instead of"));
}

TEST(StepCheck, CodesMayBeOffByOneWhereTheyAreIsolated) {
  constexpr std::string_view kQuantize = R"(graph g(x: f32[3000]) -> (y) {
    s = const f32[] {0.5} z = const u8[] {0} y = QuantizeLinear(x, s, z) })";
  const auto checked = [&](std::string_view text, int64_t count, int64_t by) {
    Tensor want(DType::kU8, {3000}), got(DType::kU8, {3000});
    for (int64_t i = 0; i < 3000; ++i) {
      want.SetInt(i, 0);
      got.SetInt(i, i < count ? by : 0);
    }
    return Checked(text, want, got);
  };
  EXPECT_TRUE(checked(kQuantize, 3, 1).ok());
  EXPECT_EQ(checked(kQuantize, 3, 1).unequal, 3);
  EXPECT_FALSE(checked(kQuantize, 4, 1).ok());
  EXPECT_FALSE(checked(kQuantize, 1, 2).ok());
  // What only moves them has no rounding to excuse it.
  EXPECT_FALSE(checked("graph g(x: u8[3000]) -> (y) { y = Identity(x) }", 1, 1).ok());
}

}  // namespace
}  // namespace infer::bench
