/// Runs that would not end by themselves: the stop token is seen inside of steps, and what they
/// pile up is limited.
#include <thread>

#include "lib/support/memory_limit.h"
#include "lib/support/parallel.h"
#include "lib/support/stop.h"
#include "tests/lanes.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// Each counts, or sums, until it is stopped.
constexpr std::pair<const char*, const char*> kEndless[] = {
    {"a loop", R"(graph g(x: f32[4]) -> (y) {
      n = const i64[] {9223372036854775807}
      y = Loop(n, _, x) {body=graph(i, c, v) -> (k, w) { k = Identity(c) w = Add(v, v) }} })"},
    {"a loop in a loop", R"(graph g(x: f32[4]) -> (y) {
      n = const i64[] {2}
      y = Loop(n, _, x) {body=graph(i, c, v) -> (k, w) {
        k = Identity(c) m = const i64[] {9223372036854775807}
        w = Loop(m, _, v) {body=graph(j, e, u) -> (f, t) { f = Identity(e) t = Tanh(u) }} }} })"},
    {"a loop whose shapes change", R"(graph g(x: f32[4]) -> (y) {
      n = const i64[] {9223372036854775807}
      y = Loop(n, _, x) {body=graph(i, c, v) -> (k, w) {
        k = Identity(c) two = const i64[] {2} o = Mod(i, two) s = const i64[1] {1}
        l = Reshape(o, s) z = const i64[1] {0} p = Concat(z, l) {axis=0} q = Pad(v, p)
        e = const i64[1] {4} h = Slice(q, z, e) r = Concat(h, q) {axis=0}
        w = Slice(r, z, e) }} })"},
};

Result<std::unique_ptr<RunContext>> ContextOf(const char* text) {
  auto g = ParseGraph(text, SuiteOps());
  if (!g.ok()) return g.status();
  INFER_ASSIGN(const auto program, BackendUnderTest().Compile(*g, {}));
  return program->NewContext();
}

TEST(Stop, IsSeenInsideOfSteps) {
  for (const auto& [what, text] : kEndless) {
    SCOPED_TRACE(what);
    auto context = ContextOf(text);
    ASSERT_TRUE(context.ok()) << context.status().message();
    ASSERT_TRUE((*context)->BindInput(0, Tensor::Zeros(DType::kF32, {4})).ok());
    std::stop_source source;
    std::jthread later([&source] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      source.request_stop();
    });
    EXPECT_EQ((*context)->Run({.stop = source.get_token()}).code(), Code::kCancelled);
    EXPECT_FALSE(StopRequested()) << "the run took its token with it";
  }
}

Deadline Soon() { return std::chrono::steady_clock::now() + std::chrono::milliseconds(50); }

TEST(Stop, ADeadlineEndsARun) {
  for (const auto& [what, text] : kEndless) {
    SCOPED_TRACE(what);
    auto context = ContextOf(text);
    ASSERT_TRUE(context.ok()) << context.status().message();
    ASSERT_TRUE((*context)->BindInput(0, Tensor::Zeros(DType::kF32, {4})).ok());
    const Status s = (*context)->Run({.deadline = Soon()});
    EXPECT_EQ(s.code(), Code::kCancelled);
    EXPECT_TRUE(s.message().ends_with("the run has reached its deadline")) << s.message();
  }
}

TEST(Stop, IsSeenWhileARunWaitsForLanes) {
  auto context = ContextOf(kEndless[0].second);
  ASSERT_TRUE(context.ok());
  ASSERT_TRUE((*context)->BindInput(0, Tensor::Zeros(DType::kF32, {4})).ok());
  const LaneBudgetOf one(1);
  {
    const LaneLease all(1);
    std::jthread other(
        [&] { EXPECT_EQ((*context)->Run({.deadline = Soon()}).code(), Code::kCancelled); });
  }
  {
    const LaneLease all(1);
    EXPECT_EQ((*context)->Start({.deadline = Soon()})->Wait().code(), Code::kCancelled);
  }
}

/// Its ranges end when they see a stop.
Status WaitForAStop(OpRun& run) {
  run.Out(0, DType::kF32, run.in(0).dims());
  ParallelFor(64, 1, [](int64_t, int64_t) {
    while (!StopRequested()) std::this_thread::yield();
  });
  return {};
}

TEST(Stop, IsSeenInsideOfReferenceKernels) {
  static const OpDef kWaits[] = {{.name = "Waits",
                                  .inputs = {{"X", "T"}},
                                  .outputs = {{"Y", "T"}},
                                  .constraints = {{"T", TypeSet{DType::kF32}}},
                                  .infer = SameAsInput,
                                  .reference = WaitForAStop}};
  const std::span<const OpDef> families[] = {kWaits};
  const OpRegistry ops(families);
  const auto g = ParseGraph("graph g(x: f32[4]) -> (y: f32[4]) {\n y = Waits(x)\n}", ops);
  ASSERT_TRUE(g.ok()) << g.status().message();
  const LaneBudgetOf three(3);
  for (int threads : {1, 3}) {
    const auto program = BackendUnderTest().Compile(*g, {.threads = threads});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const auto context = *(*program)->NewContext();
    ASSERT_TRUE(context->BindInput(0, Tensor::Zeros(DType::kF32, {4})).ok());
    EXPECT_EQ(context->Run({.deadline = Soon()}).code(), Code::kCancelled) << threads;
  }
}

TEST(Stop, ARunThatHasNotBegunDoesNotBegin) {
  auto context = ContextOf(kEndless[0].second);
  ASSERT_TRUE(context.ok());
  ASSERT_TRUE((*context)->BindInput(0, Tensor::Zeros(DType::kF32, {4})).ok());
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ((*context)->Run({.stop = source.get_token()}).code(), Code::kCancelled);
}

TEST(Stop, ScanOutputsEndAtTheMemoryLimit) {
  constexpr const char* kPiles[] = {
      R"(graph g(x: f32[4096]) -> (y, z) {
        n = const i64[] {9223372036854775807}
        y, z = Loop(n, _, x) {body=graph(i, c, v) -> (k, w, s) {
          k = Identity(c) w = Identity(v) s = Tanh(v) }} })",
      R"(graph g(x: f32[4096]) -> (y) {
        n = const i64[] {9223372036854775807}
        y = Loop(n, _, x) {body=graph(i, c, v) -> (k, w) {
          k = Identity(c) w = Concat(v, v) {axis=0} }} })"};
  const int64_t before = MemoryLimit();
  for (const char* text : kPiles) {
    auto context = ContextOf(text);
    ASSERT_TRUE(context.ok()) << context.status().message();
    ASSERT_TRUE((*context)->BindInput(0, Tensor::Zeros(DType::kF32, {4096})).ok());
    const int64_t held = ChargedMemory();
    SetMemoryLimit(held + (int64_t{32} << 20));
    const Status s = (*context)->Run();
    SetMemoryLimit(before);
    EXPECT_EQ(s.code(), Code::kResource) << s.message();
    EXPECT_NE(s.message().find("over the memory limit"), std::string::npos) << s.message();
    context = Result<std::unique_ptr<RunContext>>(std::unique_ptr<RunContext>());
    EXPECT_LE(ChargedMemory(), held) << "all of it is given back";
  }
}

}  // namespace
}  // namespace infer
