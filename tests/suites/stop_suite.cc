/// Runs that would not end by themselves: the stop token is seen inside of steps, and what they
/// pile up is limited.
#include <thread>

#include "lib/support/memory_limit.h"
#include "lib/support/stop.h"
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
