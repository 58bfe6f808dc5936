/// Commands that are recorded once and handed over again, run after run.
#include <cstring>
#include <thread>

#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

/// Runs after which nothing is recorded any more: the first hands its commands over once, the
/// second records them for good.
constexpr int kWarmUp = 2;

/// What a driver for a processor takes longest to compile.
const std::vector<std::string> kSlowest = {"subgroup"};

/// A context whose inputs differ from run to run, and whose results are compared with the
/// reference's.
class Runs {
 public:
  Runs(const Backend& backend, std::string_view text) : graph_(ParsedGraph(text)) {
    auto program = backend.Compile(graph_, {});
    EXPECT_TRUE(program.ok()) << program.status().message();
    program_ = *program;
    context_ = *program_->NewContext();
  }

  /// Inputs of these extents; empty: as declared.
  void Run(int number, const Dims& dims = {}) {
    SCOPED_TRACE(number);
    std::vector<Datum> inputs;
    Random random(static_cast<uint64_t>(number) + 3);
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Value* v = graph_.inputs()[i];
      Tensor t(v->dtype(), dims.empty() ? v->shape().static_dims() : dims);
      for (int64_t e = 0; e < t.num_elements(); ++e)
        t.Set(e, IsFloat(v->dtype()) ? random.Normal() : random.Below(3));
      inputs.emplace_back(t);
      ASSERT_TRUE(context_->BindInput(i, t).ok());
    }
    const Status ran = context_->Run();
    ASSERT_TRUE(ran.ok()) << ran.message();
    const auto want = Evaluate(graph_, inputs);
    ASSERT_TRUE(want.ok());
    for (size_t o = 0; o < want->size(); ++o)
      ExpectCloseTo(context_->output(o).tensor(), (*want)[o].tensor(), "");
  }

  RunContext& context() { return *context_; }
  int64_t recorded() const { return context_->commands().recorded; }

 private:
  Graph graph_;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<RunContext> context_;
};

constexpr const char* kTwoProducts = R"(graph g(x: f32[2,3,16,16], r: f32[2,20,16,16]) -> (y, z) {
  w = const f32[20,3,3,3] ~1 v = const f32[20,20,1,1] ~3
  c = Conv(x, w) {pads=[1,1,1,1]} z = Conv(c, v) s = Add(z, r) y = Sigmoid(s) })";

TEST(VulkanReplay, NothingIsRecordedAfterTheFirstRuns) {
  for (const bool staged : {false, true}) {
    const auto backend = VulkanOver({.disable = kSlowest, .stage_all = staged});
    Runs runs(*backend, kTwoProducts);
    for (int run = 0; run < kWarmUp; ++run) runs.Run(run);
    const CommandInfo warm = runs.context().commands();
    EXPECT_GT(warm.recorded, 0);
    constexpr int kMore = 5;
    for (int run = 0; run < kMore; ++run) runs.Run(run);
    const CommandInfo info = runs.context().commands();
    EXPECT_EQ(info.recorded, warm.recorded) << "commands were recorded again";
    EXPECT_EQ(info.submissions - warm.submissions, kMore);
    EXPECT_EQ(info.replayed - warm.replayed, kMore);
  }
}

/// Results go where they were last asked for.
TEST(VulkanReplay, BuffersThatAreBoundAnewAreFilled) {
  const auto backend = VulkanOver({.disable = kSlowest});
  Runs runs(*backend, kTwoProducts);
  for (int run = 0; run < kWarmUp; ++run) runs.Run(run);
  const int64_t warm = runs.recorded();
  Tensor last;
  for (int run = 0; run < 3; ++run) {
    const Tensor mine(DType::kF32, {2, 20, 16, 16});
    ASSERT_TRUE(runs.context().BindOutput(0, mine).ok());
    runs.Run(run);
    EXPECT_EQ(runs.context().output(0).tensor().raw(), mine.raw());
    if (last.defined()) {
      EXPECT_NE(std::memcmp(last.raw(), mine.raw(), static_cast<size_t>(mine.byte_size())), 0);
    }
    last = mine;
  }
  EXPECT_EQ(runs.recorded(), warm);
}

TEST(VulkanReplay, EachShapeHasItsCommands) {
  const auto backend = VulkanOver();
  Runs runs(*backend, R"(graph g(x: f32[N,40]) -> (y) {
      w = const f32[40,30] ~1 p = MatMul(x, w) y = Softmax(p) })");
  const Dims shapes[] = {{3, 40}, {50, 40}, {1, 40}};
  // The arena grows with the second shape, which ends what was recorded of the first.
  for (int run = 0; run < kWarmUp + 1; ++run)
    for (const Dims& dims : shapes) runs.Run(run, dims);
  const int64_t warm = runs.recorded();
  for (int run = 0; run < 4; ++run)
    for (const Dims& dims : shapes) runs.Run(run, dims);
  EXPECT_EQ(runs.recorded(), warm);
}

/// The device waits for the host in the middle, and reads numbers of the run there.
TEST(VulkanReplay, StepsOfTheHostStandBetween) {
  const auto backend = VulkanOver();
  Runs runs(*backend, R"(graph g(x: f32[4,32], i: i64[5]) -> (y, z) {
      t = const f32[3,8] ~1 k = const i64[1] {8} a = Neg(x) v, n = TopK(a, k)
      r = Sigmoid(v) e = Gather(t, i) s = ReduceSum(e) y = Mul(r, s) z = Relu(a) })");
  for (int run = 0; run < kWarmUp; ++run) runs.Run(run);
  const CommandInfo warm = runs.context().commands();
  for (int run = 0; run < 4; ++run) runs.Run(run);
  EXPECT_EQ(runs.context().commands().recorded, warm.recorded);
  EXPECT_GE(runs.context().commands().replayed, 2 * 4);
}

/// A profile records for itself, and what was kept stays.
TEST(VulkanReplay, AProfileInBetween) {
  const auto backend = VulkanOver({.disable = kSlowest});
  Runs runs(*backend, kTwoProducts);
  for (int run = 0; run < kWarmUp; ++run) runs.Run(run);
  ASSERT_TRUE(runs.context().Run({.profile = true}).ok());
  const int64_t before = runs.recorded();
  runs.Run(7);
  EXPECT_EQ(runs.recorded(), before);
}

TEST(VulkanReplay, NumbersThatTheHostRefusesEndTheRunOnly) {
  const auto backend = VulkanOver();
  Runs runs(*backend, R"(graph g(x: f32[8,4], i: i64[5]) -> (y) {
      t = const f32[3,8] ~1 e = Gather(t, i) y = MatMul(e, x) })");
  for (int run = 0; run < kWarmUp + 1; ++run) runs.Run(run);
  const Tensor wrong = Tensor::Of<int64_t>({5}, {0, 1, 2, 9, 0});
  ASSERT_TRUE(runs.context().BindInput(1, wrong).ok());
  const Status refused = runs.context().Run();
  EXPECT_EQ(refused.code(), Code::kInvalidModel);
  EXPECT_THAT(refused.message(), HasSubstr("index 9 is out of range"));
  for (int run = 0; run < kWarmUp; ++run) runs.Run(run);
  const int64_t warm = runs.recorded();
  runs.Run(5);
  EXPECT_EQ(runs.recorded(), warm);
}

/// More bytes between host and device than are kept for it.
TEST(VulkanReplay, WhatIsTooLargeToKeepIsRecordedForEachRun) {
  const auto backend = VulkanOver({.stage_all = true});
  Runs runs(*backend, "graph g(x: f32[6000000]) -> (y) { y = Neg(x) }");
  for (int run = 0; run < kWarmUp + 2; ++run) runs.Run(run);
  EXPECT_EQ(runs.context().commands().replayed, 0);
}

TEST(VulkanReplay, ContextsInThreads) {
  const auto backend = VulkanOver({.disable = kSlowest});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      Runs runs(*backend, kTwoProducts);
      for (int run = 0; run < 6; ++run) runs.Run(run + 10 * t);
    });
}

/// Work that is counted, not the number of dispatches, ends a submission of what is kept.
TEST(VulkanReplay, LongWorkIsCut) {
  constexpr int kSteps = 100;
  std::string text = "graph g(x: f32[8,8]) -> (y) { a0 = Neg(x) ";
  for (int i = 1; i < kSteps; ++i) text += Cat("a", i, " = MatMul(a", i - 1, ", x) ");
  text += Cat("y = Neg(a", kSteps - 1, ") }");
  const auto submissions = [&](int64_t most_work) {
    const auto backend = VulkanOver({.submission_work = most_work});
    const Graph g = ParsedGraph(text);
    const auto program = *backend->Compile(g, {});
    const auto context = *program->NewContext();
    Tensor x(DType::kF32, {8, 8});
    for (int64_t i = 0; i < x.num_elements(); ++i) x.Set(i, i % 9 == 0 ? 1 : 0);
    EXPECT_TRUE(context->BindInput(0, x).ok());
    int64_t before = 0;
    for (int run = 0; run < kWarmUp + 1; ++run) {
      before = context->commands().submissions;
      EXPECT_TRUE(context->Run().ok());
      EXPECT_EQ(context->output(0).tensor().At(0), 1);
    }
    return context->commands().submissions - before;
  };
  EXPECT_EQ(submissions(VulkanOptions().submission_work), 1);
  // Neg and the products; what follows the last of them runs with it, and so does the copy back.
  EXPECT_EQ(submissions(1), kSteps);
}

}  // namespace
}  // namespace infer
