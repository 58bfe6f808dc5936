/// A discrete device that is pretended of whatever there is: two families of queues, memory that
/// the host cannot map, host memory that is not coherent, small limits, a heap of few bytes.
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "runtime/vulkan/record/encoder.h"
#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// Options of the pretended device, and what it says against its use.
struct Pretended {
  std::mutex mutex;
  std::vector<std::string> messages;
  VulkanOptions Options(VulkanOptions options = {}) {
    options.pretend = "discrete";
    options.winograd_anywhere = true;
    options.transfer_bytes = 1;
    options.on_message = [this](std::string_view m) {
      const std::lock_guard lock(mutex);
      messages.emplace_back(m);
    };
    return options;
  }
};

constexpr const char* kPretendedNet = R"(graph g(x: f32[2,3,16,16]) -> (y) {
  w = const f32[20,3,3,3] ~1 b = const f32[20] ~2 v = const f32[20,20,1,1] ~3
  c = Conv(x, w, b) {pads=[1,1,1,1]}  d = Relu(c)  e = Conv(d, v)  f = Add(e, d)  y = Sigmoid(f) })";

TEST(VulkanPretend, TheDeviceIsDescribed) {
  const auto devices = ListVulkanDevices({.pretend = "discrete"});
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  for (const VulkanDeviceInfo& d : *devices) {
    EXPECT_EQ(d.type, "discrete");
    EXPECT_EQ(d.queue_families, 2);
    EXPECT_TRUE(d.has_transfer_queue);
    EXPECT_FALSE(d.maps_device_memory);
    EXPECT_LE(d.max_invocations, 128);
    EXPECT_LE(d.shared_bytes, 16384);
  }
}

/// Some at each change, all by night.
TEST(VulkanPretend, GraphsRunOnShaders) {
  const size_t step = std::getenv("INFER_BY_NIGHT") ? 1 : 6;
  Pretended pretended;
  {
    const auto backend = VulkanOver(pretended.Options());
    for (size_t i = 0; i < std::size(kShaderGraphs); i += step) {
      SCOPED_TRACE(kShaderGraphs[i]);
      for (const std::string& kernel : RunAndCompare(*backend, ParsedGraph(kShaderGraphs[i])))
        EXPECT_THAT(kernel, AnyOf(StartsWith("vulkan:"), "view"));
    }
    EXPECT_EQ(VulkanMemoryOf(*backend).live, 0);
  }
  EXPECT_THAT(pretended.messages, IsEmpty());
}

/// Copies, shaders and copies, over two queues, recorded and handed over again.
TEST(VulkanPretend, RunsAreReplayedOverBothQueues) {
  Pretended pretended;
  {
    const auto backend = VulkanOver(pretended.Options());
    const Graph g = ParsedGraph(kPretendedNet);
    const auto program = *backend->Compile(g, {});
    const auto context = *program->NewContext();
    CommandInfo before;
    for (int run = 0; run < 5; ++run) {
      Random random(static_cast<uint64_t>(run));
      Tensor x(DType::kF32, {2, 3, 16, 16});
      for (float& v : x.mutable_data<float>()) v = static_cast<float>(random.Normal());
      ASSERT_TRUE(context->BindInput(0, x).ok());
      before = context->commands();
      ASSERT_TRUE(context->Run().ok());
      ExpectCloseTo(context->output(0).tensor(), (*Evaluate(g, std::vector<Datum>{x}))[0].tensor(),
                    Cat("run ", run));
    }
    const CommandInfo last = context->commands() - before;
    EXPECT_EQ(last.recorded, 0);
    EXPECT_EQ(last.submissions, 3) << "to the device, shaders, and back";
  }
  EXPECT_THAT(pretended.messages, IsEmpty());
}

/// Lets the n-th call of a kind fail, and the one behind it.
TEST(VulkanPretend, AFailureOfAnyCallLeavesNothing) {
  const Graph g = ParsedGraph(
      "graph g(x: f32[4,64]) -> (y) { w = const f32[64,8] ~1 "
      "p = MatMul(x, w) y = Relu(p) }");
  const std::vector<Datum> inputs = InputsOf(g);
  for (const VulkanCall kind : {VulkanCall::kAllocate, VulkanCall::kSubmit}) {
    Pretended pretended;
    int calls = 0, bad = -1, failed = 0;
    VulkanOptions options = pretended.Options();
    options.fails = [&](VulkanCall call) {
      if (call != kind) return false;
      const int n = calls++;
      return bad >= 0 && (n == bad || (kind == VulkanCall::kAllocate && n == bad + 1));
    };
    const auto backend = VulkanOver(options);
    for (int n = 0;; ++n) {
      calls = 0;
      bad = n;
      const auto program = backend->Compile(g, {});
      Status s = program.status();
      if (s.ok()) {
        const auto context = *(*program)->NewContext();
        s = context->BindInput(0, inputs[0]);
        for (int run = 0; run < 3 && s.ok(); ++run) s = context->Run();
        if (!s.ok()) {
          bad = -1;
          const Status again = context->Run();
          EXPECT_TRUE(again.ok()) << again.message();
        }
      }
      if (s.ok()) break;
      EXPECT_EQ(s.code(), Code::kResource) << s.message();
      ++failed;
    }
    EXPECT_GT(failed, 2);
    EXPECT_EQ(VulkanMemoryOf(*backend).live, 0);
    EXPECT_THAT(pretended.messages, IsEmpty());
  }
}

TEST(VulkanPretend, AboveTheBudgetNothingIsAllocated) {
  const Graph g = ParsedGraph(
      "graph g(x: f32[8,2048]) -> (y) { w = const f32[2048,1024] ~1 "
      "y = MatMul(x, w) }");
  Pretended pretended;
  const auto backend = VulkanOver(pretended.Options({.memory_bytes = int64_t{6} << 20}));
  const auto program = backend->Compile(g, {});
  EXPECT_EQ(program.status().code(), Code::kResource);
  EXPECT_THAT(program.status().message(), HasSubstr("the limit is 6"));
  EXPECT_EQ(VulkanMemoryOf(*backend).peak_bytes, 0);
}

// ---- The pretence itself: what forgets a rule is seen -------------------------------------------

struct OpenedDevice {
  explicit OpenedDevice(const VulkanOptions& options)
      : parts(std::make_shared<vulkan::DeviceParts>(*vulkan::Gpu::Make(options))) {}
  std::shared_ptr<vulkan::Memory> New(vulkan::MemoryKind kind) const {
    return *parts->allocator->Allocate(kind, 256);
  }
  std::shared_ptr<vulkan::DeviceParts> parts;
};

/// What a copy on the device sees of bytes that the host wrote.
int SeenByTheDevice(const OpenedDevice& device, bool flushes) {
  const auto from = device.New(vulkan::MemoryKind::kUpload);
  const auto to = device.New(vulkan::MemoryKind::kDevice);
  std::memset(from->host(), 0, 256);
  EXPECT_TRUE(from->Flush(0, 256).ok());
  from->host()[0] = std::byte{7};
  if (flushes) {
    EXPECT_TRUE(from->Flush(0, 1).ok());
  }
  const auto encoder = *vulkan::VulkanEncoder::Make(device.parts);
  std::byte got[256];
  EXPECT_TRUE(encoder->Copy({to.get(), 0, 256}, {from.get(), 0, 256}).ok());
  EXPECT_TRUE(encoder->Download(got, {to.get(), 0, 256}).ok());
  EXPECT_TRUE((*encoder->Submit())->Wait().ok());
  return static_cast<int>(got[0]);
}

TEST(VulkanPretend, WhatIsNotFlushedIsNotSeen) {
  Pretended pretended;
  const OpenedDevice device(pretended.Options());
  EXPECT_EQ(SeenByTheDevice(device, true), 7);
  EXPECT_EQ(SeenByTheDevice(device, false), 0);
}

/// One copy on the queue for transfers, and one of its result on the other.
int SeenByTheOtherQueue(const OpenedDevice& device, bool waits) {
  using vulkan::QueueKind;
  vulkan::Gpu& gpu = *device.parts->gpu;
  const auto from = device.New(vulkan::MemoryKind::kUpload);
  const auto there = device.New(vulkan::MemoryKind::kDevice);
  const auto back = device.New(vulkan::MemoryKind::kDownload);
  std::memset(from->host(), 9, 256);
  EXPECT_TRUE(from->Flush(0, 256).ok());
  const auto timeline = *vulkan::Timeline::Make(device.parts->gpu);
  const auto second = *vulkan::Timeline::Make(device.parts->gpu);
  vulkan::Batch first(device.parts->gpu, QueueKind::kUpload);
  vulkan::Batch then(device.parts->gpu, QueueKind::kCompute);
  const auto hand = [&](vulkan::Batch& batch, const vulkan::Memory& a, const vulkan::Memory& b,
                        bool is_second) {
    EXPECT_TRUE(batch.Begin(true).ok());
    const VkBufferCopy region{static_cast<VkDeviceSize>(a.offset()),
                              static_cast<VkDeviceSize>(b.offset()), 256};
    gpu.vk().vkCmdCopyBuffer(batch.commands(), a.buffer(), b.buffer(), 1, &region);
    EXPECT_TRUE(batch.End().ok());
    vulkan::Timeline& signals = is_second ? *second : *timeline;
    const uint64_t value = ++signals.last;
    VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    values.waitSemaphoreValueCount = is_second && waits ? 1 : 0;
    values.pWaitSemaphoreValues = &timeline->last;
    values.signalSemaphoreValueCount = 1;
    values.pSignalSemaphoreValues = &value;
    VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
    constexpr VkPipelineStageFlags kAll = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    submit.waitSemaphoreCount = values.waitSemaphoreValueCount;
    submit.pWaitSemaphores = &timeline->semaphore();
    submit.pWaitDstStageMask = &kAll;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &batch.commands();
    submit.signalSemaphoreCount = 1;
    submit.pSignalSemaphores = &signals.semaphore();
    EXPECT_EQ(gpu.Submit(batch.queue(), submit), VK_SUCCESS);
  };
  hand(first, *from, *there, false);
  hand(then, *there, *back, true);
  EXPECT_TRUE(second->Wait(second->last).ok());
  EXPECT_TRUE(back->Invalidate(0, 256).ok());
  const int got = static_cast<int>(back->host()[0]);
  EXPECT_TRUE(timeline->Wait(timeline->last).ok());
  return got;
}

TEST(VulkanPretend, WhatNobodyWaitedForHasNotHappened) {
  Pretended pretended;
  const OpenedDevice device(pretended.Options());
  EXPECT_NE(SeenByTheOtherQueue(device, false), 9);
  EXPECT_EQ(SeenByTheOtherQueue(device, true), 9);
  EXPECT_THAT(pretended.messages, IsEmpty());
}

}  // namespace
}  // namespace infer
