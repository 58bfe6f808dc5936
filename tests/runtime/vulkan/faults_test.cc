/// Runs that the device, a stop or a fork ends: which status they have, and what works behind them.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stop_token>
#include <thread>

#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFaultyNet = R"(graph g(x: f32[2,3,16,16]) -> (y) {
  w = const f32[20,3,3,3] ~1 v = const f32[20,20,3,3] ~3
  c = Conv(x, w) d = Relu(c) e = Conv(d, v) f = Conv(e, v) y = Transpose(f) })";

/// An event at the n-th call of a kind, chosen by a test, on the device that there is and on the
/// pretended one.
struct AtCall {
  VulkanCall kind = VulkanCall::kLose;
  std::atomic<int> calls{0}, bad{-1};
  std::function<bool()> then = [] { return true; };
  VulkanOptions Options(bool pretended, VulkanOptions options = {}) {
    options.disable = {"subgroup"};  // the shaders that a processor's driver compiles soonest
    options.stage_all = true;
    if (pretended) {
      options.pretend = "discrete";
      options.transfer_bytes = 1;
      options.on_message = [](std::string_view m) { ADD_FAILURE() << m; };
    }
    options.fails = [this](VulkanCall call) {
      if (call != kind) return false;
      const int n = calls++;
      return bad >= 0 && n == bad && then();
    };
    return options;
  }
};

std::unique_ptr<RunContext> ContextOf(const Program& program, const std::vector<Datum>& inputs) {
  auto context = program.NewContext();
  EXPECT_TRUE(context.ok()) << context.status().message();
  EXPECT_TRUE((*context)->BindInput(0, inputs[0]).ok());
  return *std::move(context);
}

/// By the call that met it, or by one that came behind it.
auto TellsOfTheLoss() {
  return ::testing::AnyOf(HasSubstr("VK_ERROR_DEVICE_LOST"), HasSubstr("was lost"));
}

/// The device is lost at each submission and at each wait of a run in turn: the first, which hands
/// its commands over once, the second, which keeps them, and the third, which hands them over
/// again.
TEST(VulkanFaults, ALostDeviceEndsItsRunAndTheNextProgramWorks) {
  const Graph g = ParsedGraph(kFaultyNet);
  const std::vector<Datum> inputs = InputsOf(g);
  const auto want = *Evaluate(g, inputs);
  for (const bool pretended : {false, true}) {
    for (const VulkanCall kind : {VulkanCall::kLose, VulkanCall::kWait}) {
      SCOPED_TRACE(Cat(pretended, " ", static_cast<int>(kind)));
      AtCall lost{.kind = kind};
      const auto backend = VulkanOver(lost.Options(pretended));
      int losses = 0;
      for (int run = 0; run < 3; ++run) {
        for (int n = 0;; ++n) {
          const auto program = backend->Compile(g, {});
          ASSERT_TRUE(program.ok()) << program.status().message();
          auto context = ContextOf(**program, inputs);
          for (int before = 0; before < run; ++before) ASSERT_TRUE(context->Run().ok());
          lost.calls = 0;
          lost.bad = n;
          const Status ended = context->Run();
          lost.bad = -1;
          if (ended.ok()) {
            ExpectCloseTo(context->output(0).tensor(), want[0].tensor(), "no call was left");
            break;
          }
          ++losses;
          EXPECT_EQ(ended.code(), Code::kResource);
          EXPECT_THAT(ended.message(), TellsOfTheLoss());
          // The program of before, in the context of before and in a new one.
          EXPECT_THAT(context->Run().message(), HasSubstr("was lost"));
          EXPECT_THAT(ContextOf(**program, inputs)->Run().message(), HasSubstr("was lost"));
          context.reset();
        }
        EXPECT_EQ(VulkanMemoryOf(*backend).live, 0);
      }
      EXPECT_GE(losses, 3);
    }
  }
}

/// Nothing of a lost device is left when its program is gone, before another is opened.
TEST(VulkanFaults, ALostDeviceLeavesNothing) {
  const Graph g = ParsedGraph(kFaultyNet);
  const std::vector<Datum> inputs = InputsOf(g);
  for (const bool pretended : {false, true}) {
    AtCall lost;
    const auto backend = VulkanOver(lost.Options(pretended));
    {
      const auto program = *backend->Compile(g, {});
      const auto context = ContextOf(*program, inputs);
      lost.bad = lost.calls + 1;
      EXPECT_EQ(context->Run().code(), Code::kResource);
      EXPECT_GT(VulkanMemoryOf(*backend).live, 0);
    }
    EXPECT_EQ(VulkanMemoryOf(*backend).live, 0);
    EXPECT_EQ(VulkanMemoryOf(*backend).allocated_bytes, 0);
    RunAndCompare(*backend, g);
  }
}

/// Others that run on the device meanwhile end, too, and with an error.
TEST(VulkanFaults, ALostDeviceEndsTheRunsOfAllThreads) {
  const Graph g = ParsedGraph(kFaultyNet);
  const std::vector<Datum> inputs = InputsOf(g);
  for (const bool pretended : {false, true}) {
    AtCall lost;
    const auto backend = VulkanOver(lost.Options(pretended));
    const auto program = *backend->Compile(g, {});
    lost.bad = lost.calls + 50;
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 3; ++t)
        threads.emplace_back([&] {
          const auto context = ContextOf(*program, inputs);
          Status ended;
          for (int run = 0; run < 10000 && ended.ok(); ++run) ended = context->Run();
          EXPECT_EQ(ended.code(), Code::kResource);
          EXPECT_THAT(ended.message(), TellsOfTheLoss());
        });
    }
    RunAndCompare(*backend, g);
  }
}

// ---- Stops -------------------------------------------------------------------------------------

/// A dispatch each, and much work: so that the host hands over two of them ahead.
TEST(VulkanFaults, AStopEndsARunBetweenItsSubmissions) {
  const Graph g = ParsedGraph(kFaultyNet);
  const std::vector<Datum> inputs = InputsOf(g);
  const auto want = *Evaluate(g, inputs);
  for (const bool pretended : {false, true}) {
    AtCall stops{.kind = VulkanCall::kSubmit};
    std::stop_source source;
    stops.then = [&] {
      source.request_stop();
      return false;
    };
    const auto backend = VulkanOver(stops.Options(pretended, {.submission_work = 1}));
    const auto program = *backend->Compile(g, {});
    ASSERT_TRUE(ContextOf(*program, inputs)->Run().ok());  // which brings the weights there
    // Of a run that hands over for once, one that is recorded, one that is handed over again.
    for (int run = 0; run < 3; ++run) {
      SCOPED_TRACE(Cat(pretended, " ", run));
      const auto whole = ContextOf(*program, inputs);
      for (int before = 0; before < run; ++before) ASSERT_TRUE(whole->Run().ok());
      stops.calls = 0;
      ASSERT_TRUE(whole->Run().ok());
      const int all = stops.calls;
      ASSERT_GE(all, 4);
      for (int n = 0; n + 1 < all; ++n) {
        auto stopped = ContextOf(*program, inputs);
        for (int before = 0; before < run; ++before) ASSERT_TRUE(stopped->Run().ok());
        source = std::stop_source();
        stops.calls = 0;
        stops.bad = n;
        const Status ended = stopped->Run({.stop = source.get_token()});
        stops.bad = -1;
        EXPECT_EQ(ended.code(), Code::kCancelled) << n << " of " << all << ended.message();
        EXPECT_EQ(stops.calls, n + 1) << "something was handed over after the stop";
        const Status again = stopped->Run();
        ASSERT_TRUE(again.ok()) << again.message();
        ExpectCloseTo(stopped->output(0).tensor(), want[0].tensor(), "the next run");
      }
    }
  }
}

/// A stop while the device has two long submissions in hand: no third follows.
TEST(VulkanFaults, AStopWaitsForNoMoreThanIsInHand) {
  const Graph g = ParsedGraph(kFaultyNet);
  const std::vector<Datum> inputs = InputsOf(g);
  AtCall stops{.kind = VulkanCall::kWait};
  std::stop_source source;
  std::atomic<int> submitted{0};
  VulkanOptions options = stops.Options(true, {.submission_work = 1});
  options.fails = [&, waits = options.fails](VulkanCall call) {
    submitted += call == VulkanCall::kSubmit;
    return waits(call);
  };
  stops.then = [&] {
    source.request_stop();
    return false;
  };
  const auto backend = VulkanOver(options);
  const auto program = *backend->Compile(g, {});
  const auto context = ContextOf(*program, inputs);
  for (int run = 0; run < 3; ++run) ASSERT_TRUE(context->Run().ok());
  submitted = 0;
  ASSERT_TRUE(context->Run().ok());
  const int all = submitted;
  submitted = 0;
  stops.bad = stops.calls.load();  // the next one
  const Status ended = context->Run({.stop = source.get_token()});
  EXPECT_EQ(ended.code(), Code::kCancelled) << ended.message();
  EXPECT_LT(submitted, all);
  stops.bad = -1;
  EXPECT_TRUE(context->Run().ok());
}

// ---- Processes ---------------------------------------------------------------------------------

/// Runs `body` in a child; its result, or -1 where it has not ended within two minutes.
int InAChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  // Destructors of what the parent had open are not the child's to run.
  if (child == 0) ::_exit(body());
  for (int tenths = 0; tenths < 1200; ++tenths) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return -1;
}

/// A device that is open in the parent is refused in a child, which may open the device itself.
TEST(VulkanFaults, AChildOfAForkOpensTheDeviceItself) {
  const Graph g = ParsedGraph(kFaultyNet);
  const std::vector<Datum> inputs = InputsOf(g);
  auto backend = VulkanOver();
  auto program = *backend->Compile(g, {});
  auto context = ContextOf(*program, inputs);
  for (int run = 0; run < 3; ++run) ASSERT_TRUE(context->Run().ok());
  const Tensor want = context->output(0).tensor().Clone();
  enum Ends { kGood, kRan, kNoReason, kNewContextRan, kNoProgram, kNoRun, kWrong };
  const int ended = InAChild([&]() -> int {
    const auto refused = [](const Status& s) {
      return s.code() == Code::kResource && s.message().find("parent") != std::string::npos;
    };
    if (!refused(context->Run())) return kRan;
    const auto fresh = program->NewContext();
    if (fresh.ok() && !(*fresh)->BindInput(0, inputs[0]).ok()) return kNoReason;
    if (!refused(fresh.ok() ? (*fresh)->Run() : fresh.status())) return kNewContextRan;
    const auto again = backend->Compile(g, {});
    if (!again.ok()) return kNoProgram;
    // The parent's goes while the child's is in use.
    context.reset();
    program.reset();
    const auto got = RunOnce(**again, inputs);
    if (!got.ok()) return kNoRun;
    const Tensor& own = (*got)[0].tensor();
    if (std::memcmp(own.raw(), want.raw(), static_cast<size_t>(want.byte_size())) != 0)
      return kWrong;
    return kGood;
  });
  EXPECT_EQ(ended, kGood);
  // The parent's is as it was.
  ASSERT_TRUE(context->Run().ok());
  ExpectCloseTo(context->output(0).tensor(), want, "the parent");
}

/// A process that is ended by a signal in the middle of the file of pipelines leaves none that is
/// broken, and no lock.
TEST(VulkanFaults, AProcessThatDiesWhileItWritesThePipelinesLeavesAUsableFile) {
  std::string folder = std::filesystem::temp_directory_path() / "dyingXXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  constexpr rlim_t kWritten = 50;
  const Graph g =
      ParsedGraph("graph g(x: f32[9,30]) -> (y) { w = const f32[30,40] ~1 y = MatMul(x, w) }");
  const auto files = [&] {
    std::vector<int64_t> sizes;
    for (const auto& f : std::filesystem::recursive_directory_iterator(folder))
      if (f.is_regular_file()) sizes.push_back(static_cast<int64_t>(f.file_size()));
    return sizes;
  };
  const auto dies = [&] {
    return InAChild([&] {
      const rlimit most = {kWritten, kWritten}, no_core = {0, 0};
      ::signal(SIGXFSZ, SIG_DFL);
      ::setrlimit(RLIMIT_CORE, &no_core);
      ::setrlimit(RLIMIT_FSIZE, &most);
      return VulkanOver({.pipeline_cache = folder})->Compile(g, {}).ok() ? 0 : 1;
    });
  };
  EXPECT_EQ(dies(), 128 + SIGXFSZ);
  EXPECT_THAT(files(), ::testing::Not(::testing::IsEmpty())) << "it died before it began to write";
  EXPECT_THAT(files(), ::testing::Each(::testing::Le(static_cast<int64_t>(kWritten))));
  for (const char* state : {"absent", "loaded"}) {
    const auto backend = VulkanOver({.pipeline_cache = folder});
    RunAndCompare(*backend, g);
    EXPECT_EQ((*backend->Compile(g, {}))->pipelines()->cache, state);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace infer
