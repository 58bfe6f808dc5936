/// Inputs and outputs that stay in a device's memory between runs: what is copied, what is not, and
/// how a program without a device takes the same calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "runtime/mock/backend.h"
#include "tests/runtime/device/toy_device.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

/// Each step appends x, rectified, to the cache, and sums it.
constexpr const char* kStep = R"(graph g(x: f32[1,4], past: f32[N,4]) -> (sum, present) {
  r = Relu(x)  present = Concat(past, r) {axis=0}  e = Relu(present)  sum = ReduceSum(e)
  {keepdims=0} })";

Graph ResidentGraph(std::string_view text) {
  static const OpRegistry ops = AllOps();
  auto g = ParseGraph(text, ops);
  EXPECT_TRUE(g.ok()) << g.status().message();
  return *std::move(g);
}

std::unique_ptr<RunContext> ContextOf(const Backend& backend, const Graph& g,
                                      const CompileOptions& options = {}) {
  const auto program = backend.Compile(g, options);
  EXPECT_TRUE(program.ok()) << program.status().message();
  return program.ok() ? *(*program)->NewContext() : nullptr;
}

Tensor Row(float first) { return Tensor::Of<float>({1, 4}, {first, 1, -2, 3}); }

/// Positive parts of the rows Row(1), Row(2), ... Row(n), in all.
double SumOf(int n) { return n * 4 + n * (n + 1) / 2; }

void ExpectOk(const Status& s) { EXPECT_TRUE(s.ok()) << s.message(); }

/// Steps 1 to n, the cache carried; `each` sees the number of the step behind it.
void Steps(
    RunContext& context, int n, const RunOptions& options,
    const std::function<void(int)>& each = [](int) {}) {
  ExpectOk(context.BindInput(1, Tensor(DType::kF32, {0, 4})));
  for (int i = 1; i <= n; ++i) {
    ExpectOk(context.BindInput(0, Row(static_cast<float>(i))));
    ExpectOk(context.Run(options));
    EXPECT_EQ(context.output(0).tensor().At(0), SumOf(i)) << i;
    ExpectOk(context.Carry(1, 1));
    each(i);
  }
}

TEST(Resident, CachesAreCarriedOnEveryBackend) {
  const Graph g = ResidentGraph(kStep);
  const auto counts = std::make_shared<ToyCounts>();
  const std::unique_ptr<Backend> backends[] = {
      MakeCpuBackend(), MakeMockBackend({.behind = CpuHost()}),
      MakeToyBackend({"Relu", "Concat", "ReduceSum"}, CpuHost(), counts)};
  for (const auto& backend : backends)
    for (const bool leave : {false, true}) {
      SCOPED_TRACE(Cat(backend->name(), leave ? ", left there" : ""));
      const auto context = ContextOf(*backend, g);
      Steps(*context, 40, {.leave_resident = leave});
    }
}

TEST(Resident, ACacheThatStaysIsNeitherUploadedNorDownloaded) {
  const auto counts = std::make_shared<ToyCounts>();
  const auto backend = MakeToyBackend({"Relu", "Concat", "ReduceSum"}, CpuHost(), counts);
  const auto context = ContextOf(*backend, ResidentGraph(kStep));
  ToyCounts before = *counts;
  Steps(*context, 5, {.leave_resident = true}, [&](int i) {
    EXPECT_EQ(counts->uploads - before.uploads, 1) << "x of step " << i;
    EXPECT_EQ(counts->downloads - before.downloads, 1) << "the sum of step " << i;
    EXPECT_FALSE(context->output(1).is_tensor() && context->output(1).tensor().defined());
    before = *counts;
  });
}

TEST(Resident, ByDefaultTheHostHasEverything) {
  const auto counts = std::make_shared<ToyCounts>();
  const auto backend = MakeToyBackend({"Relu", "Concat", "ReduceSum"}, CpuHost(), counts);
  const auto context = ContextOf(*backend, ResidentGraph(kStep));
  Tensor past = Tensor::Of<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  ExpectOk(context->BindInput(0, Row(9)));
  ExpectOk(context->BindInput(1, past));
  for (int run = 0; run < 2; ++run) {
    past.mutable_data<float>()[0] = static_cast<float>(run);  // each run reads what is bound
    const ToyCounts before = *counts;
    ExpectOk(context->Run());
    EXPECT_EQ(context->output(0).tensor().At(0), run + 35 + 13);
    const Tensor& present = context->output(1).tensor();
    EXPECT_EQ(present.dims(), (Dims{3, 4}));
    EXPECT_EQ(present.At(0), run);
    EXPECT_EQ(present.At(8), 9);
    EXPECT_EQ(counts->uploads - before.uploads, 2);
    EXPECT_EQ(counts->downloads - before.downloads, 2);
  }
}

TEST(Resident, AnInputFromTheHostIsCopiedOnceUntilItIsBoundAgain) {
  const auto counts = std::make_shared<ToyCounts>();
  const auto backend = MakeToyBackend({"Relu", "Concat", "ReduceSum"}, CpuHost(), counts);
  const auto context = ContextOf(*backend, ResidentGraph(kStep));
  ExpectOk(context->BindInput(0, Row(9)));
  for (const float fill : {1.0f, 2.0f}) {
    ExpectOk(context->BindInput(1, Tensor::Of<float>({1, 4}, {fill, fill, fill, fill})));
    for (const int uploads : {2, 1, 1}) {
      const ToyCounts before = *counts;
      ExpectOk(context->Run({.leave_resident = true}));
      EXPECT_EQ(context->output(0).tensor().At(0), 4 * fill + 13);
      EXPECT_EQ(counts->uploads - before.uploads, uploads);
    }
  }
}

TEST(Resident, WhatDoesNotFitIsRefused) {
  const auto counts = std::make_shared<ToyCounts>();
  const auto toy = MakeToyBackend({"Relu", "Concat"}, CpuHost(), counts);
  const Graph g = ResidentGraph(kStep);
  const auto context = ContextOf(*toy, g);
  EXPECT_EQ(context->resident_output(1).status().code(), Code::kUnsupported) << "before a run";
  EXPECT_EQ(context->BindResident(0, {}).code(), Code::kUnsupported) << "x is no cache";
  EXPECT_EQ(context->BindResident(1, {}).code(), Code::kInvalidArgument) << "no memory";
  EXPECT_EQ(context->BindResident(7, {}).code(), Code::kInvalidArgument);
  Steps(*context, 2, {.leave_resident = true});
  auto there = context->resident_output(1);
  ASSERT_TRUE(there.ok()) << there.status().message();
  EXPECT_EQ(there->dims, (Dims{2, 4}));
  // Of another device, and of extents that the input cannot have.
  const auto other = MakeToyBackend({"Relu", "Concat"}, CpuHost(), counts);
  EXPECT_EQ(ContextOf(*other, g)->BindResident(1, *there).code(), Code::kInvalidArgument);
  there->dims = {8};
  const Status wrong = context->BindResident(1, *there);
  EXPECT_EQ(wrong.code(), Code::kInvalidArgument);
  EXPECT_THAT(wrong.message(), HasSubstr("past"));
  // One past the model's.
  EXPECT_EQ(toy->Compile(g, {.resident = ResidentValues{{2}, {}}}).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(toy->Compile(g, {.resident = ResidentValues{{}, {2}}}).status().code(),
            Code::kInvalidArgument);
}

TEST(Resident, AValueOutlivesItsContextAndFeedsAnother) {
  const auto counts = std::make_shared<ToyCounts>();
  const auto backend = MakeToyBackend({"Relu", "Concat", "ReduceSum"}, CpuHost(), counts);
  const Graph g = ResidentGraph(kStep);
  DeviceTensor cache;
  {
    const auto context = ContextOf(*backend, g);
    Steps(*context, 3, {.leave_resident = true});
    cache = *context->resident_output(1);
  }
  const auto context = ContextOf(*backend, g);
  ExpectOk(context->BindInput(0, Row(4)));
  for (int again = 0; again < 3; ++again) {  // nobody writes what is shared
    ExpectOk(context->BindResident(1, cache));
    ExpectOk(context->Run({.leave_resident = true}));
    EXPECT_EQ(context->output(0).tensor().At(0), SumOf(4));
  }
}

TEST(Resident, AnyOutputMayBeAnInputOnTheDevice) {
  // Named by the caller; the step between is the host's.
  const auto counts = std::make_shared<ToyCounts>();
  const auto backend = MakeToyBackend({"Relu"}, CpuHost(), counts);
  const auto context = ContextOf(
      *backend, ResidentGraph("graph g(x: f32[4], z: f32[4]) -> (y) { a = Relu(x) y = Add(a, z) }"),
      {.resident = ResidentValues{{0}, {0}}});
  ExpectOk(context->BindInput(0, Tensor::Of<float>({4}, {1, 2, 3, 4})));
  ExpectOk(context->BindInput(1, Tensor::Of<float>({4}, {1, 1, 1, 1})));
  for (int i = 0; i < 3; ++i) {
    ExpectOk(context->Run({.leave_resident = i < 2}));
    ExpectOk(context->Carry(0, 0));
  }
  EXPECT_EQ(context->output(0).tensor().ToFloats(), (std::vector<float>{4, 5, 6, 7}));
}

TEST(Resident, AFailedRunLeavesNothingAndTheNextIsRight) {
  std::atomic<int64_t> commands = 0, bad = -1;
  MockOptions options{.behind = CpuHost()};
  options.device.failure = [&](int64_t) {
    return commands++ == bad ? ResourceExhausted("the device is lost") : Status();
  };
  const auto backend = MakeMockBackend(options);
  const auto context = ContextOf(*backend, ResidentGraph(kStep));
  ExpectOk(context->BindInput(0, Row(2)));
  ExpectOk(context->BindInput(1, Row(1)));
  ExpectOk(context->Run({.leave_resident = true}));
  ExpectOk(context->BindInput(1, Row(1)));
  commands = 0;
  ExpectOk(context->Run({.leave_resident = true}));
  const int64_t all = commands;
  ASSERT_GT(all, 2);
  for (int64_t at = 0; at < all; ++at) {
    SCOPED_TRACE(at);
    ExpectOk(context->BindInput(1, Row(1)));
    commands = 0;
    bad = at;
    EXPECT_EQ(context->Run({.leave_resident = true}).code(), Code::kResource);
    EXPECT_FALSE(context->resident_output(1).ok());
    bad = -1;
    ExpectOk(context->Run({.leave_resident = true}));
    EXPECT_EQ(context->output(0).tensor().At(0), SumOf(2));
  }
}

}  // namespace
}  // namespace infer
