/// Contexts side by side: what one hands over waits for nothing of another, and what the queues did
/// is written down.
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <semaphore>
#include <thread>

#include "lib/support/parallel.h"
#include "runtime/vulkan/record/encoder.h"
#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kLaneBytes = 1024;

/// The pretended device, which runs nothing before somebody waits for it.
VulkanOptions PretendedQueues(uint32_t transfer_queues = 2) {
  VulkanOptions options;
  options.pretend = "discrete";
  options.transfer_bytes = 1;
  options.transfer_queues = transfer_queues;
  options.on_message = [](std::string_view m) { ADD_FAILURE() << m; };
  return options;
}

/// An encoder with memory of its own.
class TestedLane {
 public:
  TestedLane(const std::shared_ptr<vulkan::DeviceParts>& parts, int value)
      : encoder_(*vulkan::VulkanEncoder::Make(parts)),
        in_(*parts->allocator->Allocate(vulkan::MemoryKind::kDevice, kLaneBytes)),
        out_(*parts->allocator->Allocate(vulkan::MemoryKind::kDevice, kLaneBytes)) {
    from_.fill(std::byte(value));
  }
  void Upload() { EXPECT_TRUE(encoder_->Upload(View(in_), from_.data()).ok()); }
  /// On the queue of shaders.
  void Work() { EXPECT_TRUE(encoder_->Copy(View(out_), View(in_)).ok()); }
  void Download() { EXPECT_TRUE(encoder_->Download(to_.data(), View(out_)).ok()); }
  std::shared_ptr<Completion> Submit() { return *encoder_->Submit(); }
  bool HasResult() const { return to_ == from_; }

 private:
  static BufferView View(const std::shared_ptr<vulkan::Memory>& m) {
    return {m.get(), 0, kLaneBytes};
  }
  std::unique_ptr<Encoder> encoder_;
  std::shared_ptr<vulkan::Memory> in_, out_;
  std::array<std::byte, kLaneBytes> from_ = {}, to_ = {};
};

/// All of one lane's run is handed over, its download too, which waits for its shaders: what
/// another uploads is there before they have begun.
TEST(VulkanLanes, AnUploadWaitsForNoOtherLane) {
  for (const uint32_t transfer_queues : {1U, 2U}) {
    SCOPED_TRACE(transfer_queues);
    int waits = 0;
    VulkanOptions options = PretendedQueues(transfer_queues);
    options.fails = [&](VulkanCall call) {
      waits += call == VulkanCall::kWait;
      return false;
    };
    const auto parts = std::make_shared<vulkan::DeviceParts>(*vulkan::Gpu::Make(options));
    TestedLane a(parts, 1), b(parts, 2);
    a.Upload();
    a.Work();
    a.Download();
    const auto whole = a.Submit();
    b.Upload();
    const auto uploaded = b.Submit();
    EXPECT_EQ(waits, 0) << "the host waited between two lanes";
    EXPECT_TRUE(uploaded->Wait().ok());
    EXPECT_FALSE(whole->done()) << "the upload waited for another lane's shaders";
    b.Work();
    b.Download();
    const auto second = b.Submit();
    EXPECT_TRUE(second->Wait().ok());
    EXPECT_TRUE(whole->Wait().ok());
    EXPECT_TRUE(a.HasResult());
    EXPECT_TRUE(b.HasResult());
  }
}

/// Results of one lane come home before shaders that another handed over have begun.
TEST(VulkanLanes, ADownloadWaitsForNoOtherLane) {
  const auto parts = std::make_shared<vulkan::DeviceParts>(*vulkan::Gpu::Make(PretendedQueues()));
  TestedLane a(parts, 1), b(parts, 2);
  b.Upload();
  b.Work();
  EXPECT_TRUE(b.Submit()->Wait().ok());
  a.Upload();
  a.Work();
  const auto worked = a.Submit();
  b.Download();
  EXPECT_TRUE(b.Submit()->Wait().ok());
  EXPECT_TRUE(b.HasResult());
  EXPECT_FALSE(worked->done()) << "the download waited for another lane's shaders";
  EXPECT_TRUE(worked->Wait().ok());
}

constexpr const char* kLanesNet = R"(graph g(x: f32[2,3,16,16]) -> (y) {
  w = const f32[20,3,3,3] ~1 c = Conv(x, w) {pads=[1,1,1,1]} y = Sigmoid(c) })";

std::unique_ptr<RunContext> WarmContext(const Program& program, const Datum& x) {
  auto context = *program.NewContext();
  EXPECT_TRUE(context->BindInput(0, x).ok());
  for (int run = 0; run < 2; ++run) EXPECT_TRUE(context->Run().ok());
  return context;
}

/// A run is held up at each of its submissions and at its wait; another begins and ends meanwhile.
TEST(VulkanLanes, ARunHoldsNothingThatAnotherNeeds) {
  std::binary_semaphore held{0}, go{0};
  std::atomic<std::thread::id> whom;
  std::atomic<int> left{-1};
  std::atomic<VulkanCall> where{VulkanCall::kSubmit};
  VulkanOptions options = PretendedQueues();
  options.fails = [&](VulkanCall call) {
    if (std::this_thread::get_id() != whom || call != where || left-- != 0) return false;
    held.release();
    go.acquire();
    return false;
  };
  const auto backend = VulkanOver(options);
  const Graph g = ParsedGraph(kLanesNet);
  // Each run asks for all the lanes that there are.
  const auto program = *backend->Compile(g, {.threads = LaneBudget()});
  const std::vector<Datum> inputs = InputsOf(g);
  const auto want = *Evaluate(g, inputs);
  const auto a = WarmContext(*program, inputs[0]), b = WarmContext(*program, inputs[0]);
  constexpr int kSubmissions = 3;  // upload, shaders, download
  for (int point = 0; point <= kSubmissions; ++point) {
    SCOPED_TRACE(point);
    where = point < kSubmissions ? VulkanCall::kSubmit : VulkanCall::kWait;
    left = point % kSubmissions;
    std::thread thread([&] {
      whom = std::this_thread::get_id();
      EXPECT_TRUE(a->Run().ok());
    });
    held.acquire();
    // Not for ever, should it wait for the other.
    const Status ran =
        b->Run({.deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1)});
    EXPECT_TRUE(ran.ok()) << ran.message();
    ExpectCloseTo(b->output(0).tensor(), want[0].tensor(), "the other lane");
    go.release();
    thread.join();
    ExpectCloseTo(a->output(0).tensor(), want[0].tensor(), "the lane that was held up");
  }
}

/// Each submission has one span, of recorded commands, too, which stay as they were recorded.
TEST(VulkanLanes, SubmissionsAreTimed) {
  for (const bool discrete : {false, true}) {
    SCOPED_TRACE(discrete);
    const auto backend = VulkanOver(discrete ? PretendedQueues() : VulkanOptions{});
    const Graph g = ParsedGraph(kLanesNet);
    const auto program = *backend->Compile(g, {});
    const Datum x = InputsOf(g)[0];
    const auto a = WarmContext(*program, x), b = WarmContext(*program, x);
    Device* const device = program->device();
    ASSERT_NE(device, nullptr);
    const CommandInfo before = a->commands();
    ASSERT_TRUE(device->StartActivity().ok());
    constexpr int kRuns = 3;
    for (int run = 0; run < kRuns; ++run) {
      EXPECT_TRUE(a->Run().ok());
      EXPECT_TRUE(b->Run().ok());
    }
    const CommandInfo done = a->commands() - before;
    EXPECT_EQ(done.recorded, 0);
    auto activity = *device->TakeActivity();
    EXPECT_EQ(activity.untimed, 0);
    EXPECT_EQ(activity.dropped, 0);
    EXPECT_GT(activity.window_ms, 0);
    if (discrete) {
      EXPECT_THAT(activity.queues, ElementsAre("compute", "upload", "download"));
    } else {
      EXPECT_EQ(activity.queues[0], "compute");
    }
    EXPECT_EQ(static_cast<int64_t>(activity.spans.size()), 2 * done.submissions);
    std::map<int, std::vector<DeviceSpan>> lanes;
    std::vector<int> of_queue(activity.queues.size(), 0);
    for (const DeviceSpan& s : activity.spans) {
      EXPECT_LE(s.begin_ms, s.end_ms);
      lanes[s.encoder].push_back(s);
      ++of_queue[static_cast<size_t>(s.queue)];
    }
    EXPECT_EQ(lanes.size(), 2U);
    if (discrete) {
      EXPECT_THAT(of_queue, ElementsAre(2 * kRuns, 2 * kRuns, 2 * kRuns));
    }
    for (const auto& [encoder, spans] : lanes)
      for (size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].end_ms, spans[i].end_ms);
    EXPECT_TRUE(a->Run().ok());
    EXPECT_THAT(device->TakeActivity()->spans, IsEmpty());
    // Again, with an encoder that is gone before its spans are taken.
    ASSERT_TRUE(device->StartActivity().ok());
    EXPECT_TRUE(WarmContext(*program, x)->Run().ok());
    EXPECT_GT(device->TakeActivity()->spans.size(), 2U);
  }
}

}  // namespace
}  // namespace infer
