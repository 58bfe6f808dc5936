/// Programs whose steps lie on a device and on the host: which kernel runs, what crosses, and how a
/// run ends that fails, is stopped, or finds no memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "runtime/mock/backend.h"
#include "runtime/plan_ir/executor_program.h"
#include "tests/runtime/device/toy_device.h"
#include "tools/zoo/zoo.h"

namespace infer {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const OpRegistry& Ops() {
  static const OpRegistry ops = AllOps();
  return ops;
}

/// Two convolutions with what the mock takes, and two operators that it does not.
constexpr const char* kNet = R"(graph g(x: f32[1,3,6,6]) -> (y) {
  w = const f32[5,3,3,3] ~1  v = const f32[5,5,1,1] ~2  b = const f32[5] ~3
  c = Conv(x, w, b) {pads=[1,1,1,1]}  r = Relu(c)  d = Conv(r, v)  s = Add(d, r)
  p = MaxPool(s) {kernel_shape=[2,2], strides=[2,2]}  e = Conv(p, v)  y = Sigmoid(e) })";

Graph Parsed(std::string_view text) {
  auto g = ParseGraph(text, Ops());
  EXPECT_TRUE(g.ok()) << g.status().message();
  return *std::move(g);
}

Tensor Normal(const Dims& dims) {
  Random random(3);
  Tensor t(DType::kF32, dims);
  for (float& v : t.mutable_data<float>()) v = static_cast<float>(random.Normal());
  return t;
}

std::vector<std::string> KernelsOf(const RunContext& context) {
  const auto kernels = context.step_kernels();
  return {kernels.begin(), kernels.end()};
}

void ExpectNear(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.dims(), want.dims());
  for (int64_t i = 0; i < want.num_elements(); ++i)
    ASSERT_NEAR(got.At(i), want.At(i), 1e-4 * (1 + std::abs(want.At(i)))) << i;
}

std::shared_ptr<const ExecutorProgram> Compiled(const Backend& backend, const Graph& g,
                                                const CompileOptions& options = {}) {
  auto program = backend.Compile(g, options);
  EXPECT_TRUE(program.ok()) << program.status().message();
  return program.ok() ? std::dynamic_pointer_cast<const ExecutorProgram>(*program) : nullptr;
}

std::vector<PlannedLaunch> LaunchesOf(const ExecutorProgram& program) {
  std::vector<Dims> dims;
  for (const Value* v : program.inputs()) dims.push_back(v->shape().static_dims());
  return (*program.PlanFor(dims))->frame->launches;
}

int64_t Crossings(const ExecutorProgram& program) {
  const auto launches = LaunchesOf(program);
  return std::count_if(launches.begin(), launches.end(),
                       [](const PlannedLaunch& l) { return l.crosses; });
}

TEST(Executor, StepsRunWhereTheyHaveKernels) {
  const Graph g = Parsed(kNet);
  const auto backend = MakeMockBackend({.behind = CpuHost()});
  const auto program = Compiled(*backend, g);
  ASSERT_TRUE(program);
  const auto context = *program->NewContext();
  const Tensor x = Normal({1, 3, 6, 6});
  ASSERT_TRUE(context->BindInput(0, x).ok());
  for (int run = 0; run < 3; ++run) {
    const Status s = context->Run();
    ASSERT_TRUE(s.ok()) << s.message();
    ExpectNear(context->output(0).tensor(), (*Evaluate(g, std::vector<Datum>{x}))[0].tensor());
  }
  EXPECT_THAT(KernelsOf(*context), ElementsAre("mock:conv", "mock:unary", "mock:conv", "mock:add",
                                               AnyOf(HasSubstr("onednn"), HasSubstr("own:planes")),
                                               "mock:conv", "mock:unary"));
  EXPECT_EQ(Crossings(*program), 4) << "x, the operand and the result of MaxPool, y";
}

TEST(Executor, ResultsTakeTheMemoryOfOperands) {
  // One buffer for all three, beside the uploaded operand in row-major order.
  const Graph g = Parsed("graph g(x: f32[1000]) -> (y) { a = Relu(x) b = Tanh(a) y = Exp(b) }");
  const auto backend = MakeMockBackend();
  const auto program = Compiled(*backend, g);
  const auto context = *program->NewContext();
  ASSERT_TRUE(context->BindInput(0, Normal({1000})).ok());
  ASSERT_TRUE(context->Run().ok());
  EXPECT_EQ(context->memory().device_bytes, 4032) << "1000 floats, aligned";
}

TEST(Executor, BlockedLayoutsStayBetweenNeighbours) {
  const auto program = Compiled(*MakeMockBackend(), Parsed(R"(
    graph g(x: f32[1,3,6,6]) -> (y) { w = const f32[5,3,1,1] ~1 v = const f32[2,5,1,1] ~2
      a = Conv(x, w) b = Relu(a) y = Conv(b, v) })"));
  ASSERT_TRUE(program);
  const auto launches = LaunchesOf(*program);
  const auto copies = std::count_if(launches.begin(), launches.end(),
                                    [](const PlannedLaunch& l) { return l.is_copy && !l.crosses; });
  EXPECT_EQ(copies, 2) << "into blocks at the begin, out of them at the end";
}

TEST(Executor, AFailureOnTheDeviceEndsTheRunAndNoOther) {
  const Graph g = Parsed(kNet);
  const Tensor x = Normal({1, 3, 6, 6});
  const auto want = (*Evaluate(g, std::vector<Datum>{x}))[0].tensor();
  std::atomic<int64_t> commands = 0, bad = -1;
  MockOptions options{.behind = CpuHost()};
  options.device.failure = [&](int64_t) {
    return commands++ == bad ? ResourceExhausted("the device is lost") : Status();
  };
  const auto program = Compiled(*MakeMockBackend(options), g);
  const auto context = *program->NewContext();
  ASSERT_TRUE(context->BindInput(0, x).ok());
  ASSERT_TRUE(context->Run().ok());
  const int64_t all = commands;
  ASSERT_GT(all, 10);
  for (int64_t at = 0; at < all; ++at) {
    SCOPED_TRACE(at);
    commands = 0;
    bad = at;
    EXPECT_EQ(context->Run().code(), Code::kResource);
    EXPECT_EQ(commands, at + 1) << "what came behind it was run";
    bad = -1;
    const Status again = context->Run();
    ASSERT_TRUE(again.ok()) << again.message();
    ExpectNear(context->output(0).tensor(), want);
  }
}

TEST(Executor, NoMemoryOnTheDevice) {
  MockOptions options;
  options.device.memory_bytes = 2000;
  const auto backend = MakeMockBackend(options);
  const auto program = Compiled(*backend, Parsed("graph g(x: f32[N]) -> (y) { y = Relu(x) }"));
  const auto context = *program->NewContext();
  for (const auto& [n, code] :
       {std::pair(100, Code::kOk), {10000, Code::kResource}, {100, Code::kOk}}) {
    ASSERT_TRUE(context->BindInput(0, Normal({n})).ok());
    EXPECT_EQ(context->Run().code(), code) << n;
  }
}

TEST(Executor, AStoppedRunLeavesNothingUnderWay) {
  const Graph g = Parsed(kNet);
  std::stop_source source;
  auto commands = std::make_shared<std::atomic<int>>(0);
  MockOptions options{.behind = CpuHost()};
  options.device.failure = [&source, commands](int64_t) {
    if (++*commands == 3) source.request_stop();
    return Status();
  };
  const auto program = Compiled(*MakeMockBackend(options), g);
  const auto context = *program->NewContext();
  ASSERT_TRUE(context->BindInput(0, Normal({1, 3, 6, 6})).ok());
  EXPECT_EQ(context->Run({.stop = source.get_token()}).code(), Code::kCancelled);
  EXPECT_TRUE(context->Run().ok());
}

TEST(Executor, ProfilesTellTheStepsOfBothSides) {
  const auto program = Compiled(*MakeMockBackend({.behind = CpuHost()}), Parsed(kNet));
  const auto context = *program->NewContext();
  ASSERT_TRUE(context->BindInput(0, Normal({1, 3, 6, 6})).ok());
  ASSERT_TRUE(context->Run({.profile = true}).ok());
  std::vector<int> launches(program->steps().size(), 0);
  for (const StepTiming& t : context->profile()) {
    EXPECT_GT(t.duration_ms, 0);
    launches[t.step] += !t.is_copy;
  }
  EXPECT_THAT(launches, ::testing::Each(1));
}

TEST(Executor, ContextsRunBesideEachOther) {
  const Graph g = Parsed(kNet);
  const Tensor x = Normal({1, 3, 6, 6});
  const auto want = (*Evaluate(g, std::vector<Datum>{x}))[0].tensor();
  const auto program = Compiled(*MakeMockBackend({.behind = CpuHost()}), g);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      const auto context = *program->NewContext();
      for (int run = 0; run < 5; ++run) {
        ASSERT_TRUE(context->BindInput(0, x).ok());
        ASSERT_TRUE(context->Run().ok());
        ExpectNear(context->output(0).tensor(), want);
      }
    });
}

TEST(Executor, BodiesAndDataDependentStepsReachTheDevice) {
  const Graph g = Parsed(R"(graph g(x: f32[7], n: i64[]) -> (y, z) {
    y = Loop(n, _, x) {body=graph(i, c, v) -> (k, w) { k = Identity(c) w = Relu(v) }}
    zero = const f32[] {0} p = Greater(x, zero) a = Compress(x, p) z = Tanh(a) })");
  const auto program = Compiled(*MakeMockBackend({.behind = CpuHost()}), g);
  const auto context = *program->NewContext();
  const std::vector<Datum> inputs = {Normal({7}), Tensor::Of<int64_t>({}, {3})};
  for (size_t i = 0; i < 2; ++i) ASSERT_TRUE(context->BindInput(i, inputs[i]).ok());
  const Status s = context->Run({.profile = true});
  ASSERT_TRUE(s.ok()) << s.message();
  const auto want = *Evaluate(g, inputs);
  for (size_t o = 0; o < 2; ++o) ExpectNear(context->output(o).tensor(), want[o].tensor());
}

/// Counts of the last run, for resnet18 of 32 x 32 pixels with `operators` on the toy device.
struct ToyRun {
  ToyCounts counts;
  size_t on_device = 0, steps = 0;
  int64_t crossings = 0;
};
ToyRun RunResnet18(const std::vector<std::string_view>& operators) {
  auto model = MakeZooModel("resnet18", {.resolution = 32}, Ops());
  EXPECT_TRUE(model.ok()) << model.status().message();
  const auto counts = std::make_shared<ToyCounts>();
  const auto program = Compiled(*MakeToyBackend(operators, CpuHost(), counts), model->graph);
  const Tensor x = Normal({1, 3, 32, 32});
  const auto context = *program->NewContext();
  EXPECT_TRUE(context->BindInput(0, x).ok());
  const Status s = context->Run();
  EXPECT_TRUE(s.ok()) << s.message();
  const auto cpu = *MakeCpuBackend()->Compile(model->graph, {});
  ExpectNear(context->output(0).tensor(), (*RunOnce(*cpu, std::vector<Datum>{x}))[0].tensor());
  ToyRun run{.counts = *counts, .steps = program->steps().size(), .crossings = Crossings(*program)};
  for (const std::string& kernel : context->step_kernels())
    run.on_device += kernel.starts_with("toy:");
  *counts = {};
  EXPECT_TRUE(context->Run({.profile = true}).ok());
  EXPECT_EQ(counts->launches, static_cast<int>(run.on_device));
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(context->Run({.stop = stopped.get_token()}).code(), Code::kCancelled);
  return run;
}

/// A backend of 270 lines (toy_device.h) and what it lacks on the CPU's kernels.
TEST(ToyDevice, RunsHalfOfResnet18) {
  const ToyRun run = RunResnet18({"Conv"});
  EXPECT_EQ(run.on_device, 20u);
  EXPECT_GT(run.steps, 2 * run.on_device);
  EXPECT_GT(run.crossings, 20);
}

TEST(ToyDevice, CrossesTwiceWhereTheRestStandsTogether) {
  const ToyRun run = RunResnet18({"Conv", "BatchNormalization", "Relu", "Add", "MaxPool"});
  EXPECT_EQ(run.on_device + 3, run.steps) << "pooling, Flatten and Gemm are left";
  EXPECT_EQ(run.crossings, 2);
  EXPECT_EQ(run.counts.uploads - run.counts.launches, 1 - run.counts.launches);
  EXPECT_EQ(run.counts.downloads, 1);
}

}  // namespace
}  // namespace infer
