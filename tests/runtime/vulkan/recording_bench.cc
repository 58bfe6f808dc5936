/// What recording costs: microseconds per dispatch (descriptors and barrier included), per
/// submission, and of 60 dependent dispatches in all; and of a run that hands recorded commands
/// over again what it takes beyond the bare submission and wait of such commands, in turns with
/// them. Prints medians; judges nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/strings.h"
#include "runtime/vulkan/backend.h"
#include "runtime/vulkan/record/recording.h"

namespace infer::vulkan {
namespace {

constexpr int kDispatches = 60, kRounds = 100;

double NowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double MedianOf(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

Status Measure() {
  INFER_ASSIGN(auto gpu, Gpu::Make({}));
  const auto parts = std::make_shared<DeviceParts>(std::move(gpu));
  INFER_ASSIGN(const auto memory, parts->allocator->Allocate(MemoryKind::kDevice, 1 << 16));
  INFER_ASSIGN(const Pipeline* const negate, parts->pipelines.Get(ShaderNamed("unary"), {2}));
  INFER_ASSIGN(const auto made, VulkanEncoder::Make(parts));
  auto& encoder = static_cast<VulkanEncoder&>(*made);
  PushData push;
  push.words[0] = 16;
  std::vector<double> record, submit, all;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = NowUs();
    for (int i = 0; i < kDispatches; ++i) {
      const Binding bindings[] = {{{memory.get(), i % 8 * 1024, 64}, false},
                                  {{memory.get(), (i + 1) % 8 * 1024, 64}, true}};
      INFER_TRY(encoder.Dispatch(*negate, bindings, push, {}));
    }
    const double recorded = NowUs();
    INFER_ASSIGN(const auto ended, encoder.Submit());
    const double submitted = NowUs();
    INFER_TRY(ended->Wait());
    record.push_back((recorded - begin) / kDispatches);
    submit.push_back(submitted - recorded);
    all.push_back(NowUs() - begin);
  }
  std::printf("%s: %.2f us to record a dispatch, %.1f us to submit, %.0f us for %d dispatches\n",
              parts->gpu->info().name.c_str(), MedianOf(record), MedianOf(submit), MedianOf(all),
              kDispatches);
  return {};
}

/// A recording of dependent dispatches and a copy back, as of a run.
class Bare {
 public:
  static Result<Bare> Make() {
    Bare b;
    INFER_ASSIGN(auto gpu, Gpu::Make({}));
    b.parts_ = std::make_shared<DeviceParts>(std::move(gpu));
    INFER_ASSIGN(b.memory_, b.parts_->allocator->Allocate(MemoryKind::kDevice, 1 << 12));
    INFER_ASSIGN(b.encoder_, VulkanEncoder::Make(b.parts_));
    INFER_ASSIGN(b.timeline_, Timeline::Make(b.parts_->gpu));
    INFER_ASSIGN(const Pipeline* const negate, b.parts_->pipelines.Get(ShaderNamed("unary"), {2}));
    auto& encoder = static_cast<VulkanEncoder&>(*b.encoder_);
    PushData push;
    push.words[0] = 16;
    INFER_TRY(encoder.BeginRecording());
    const BufferView view{b.memory_.get(), 0, 64};
    for (int i = 0; i < kDispatches; ++i) {
      const Binding bindings[] = {{view, false}, {view, true}};
      INFER_TRY(encoder.Dispatch(*negate, bindings, push, {}));
    }
    INFER_TRY(encoder.Download(b.result_, view));
    INFER_ASSIGN(b.recording_, encoder.EndRecording());
    INFER_ASSIGN(const auto ended, encoder.Submit());
    INFER_TRY(ended->Wait());
    return b;
  }

  /// Submission and wait, nothing else.
  Status Round() {
    const uint64_t value = ++timeline_->last;
    const Batch& batch = *static_cast<VulkanRecording&>(*recording_).pieces.front();
    VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    values.signalSemaphoreValueCount = 1;
    values.pSignalSemaphoreValues = &value;
    VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &batch.commands();
    submit.signalSemaphoreCount = 1;
    submit.pSignalSemaphores = &timeline_->semaphore();
    INFER_TRY(parts_->gpu->Check(parts_->gpu->Submit(QueueKind::kCompute, submit), "submit"));
    return timeline_->Wait(value);
  }

  /// The host's part of handing it over again: bytes and submission.
  Status Replay(double* host_us) {
    const double begin = NowUs();
    INFER_TRY(encoder_->Replay(recording_));
    INFER_TRY(encoder_->Download(result_, {memory_.get(), 0, 64}));
    INFER_ASSIGN(const auto ended, encoder_->Submit());
    *host_us = NowUs() - begin;
    return ended->Wait();
  }
  ActivityLog& activity() const { return *parts_->activity; }

 private:
  std::shared_ptr<DeviceParts> parts_;
  std::shared_ptr<Memory> memory_;
  std::unique_ptr<Encoder> encoder_;
  std::shared_ptr<Timeline> timeline_;
  std::shared_ptr<RecordedCommands> recording_;
  std::byte result_[64] = {};
};

/// A program of as many dispatches, one behind the other.
Result<std::shared_ptr<const Program>> Compiled() {
  std::string text = "graph g(x: f32[16]) -> (y) { a1 = Neg(x) ";
  for (int i = 2; i < kDispatches; ++i) text += Cat("a", i, " = Neg(a", i - 1, ") ");
  text += Cat("y = Neg(a", kDispatches - 1, ") }");
  const OpRegistry ops = AllOps();
  INFER_ASSIGN(const Graph g, ParseGraph(text, ops));
  const auto backend = MakeVulkanBackend({.keep_all = true});
  return backend->Compile(g, {.level = 0});
}

/// The cost for a run, of one submission, of writing the device's activity down.
Status MeasureActivity(const Program& program, RunContext& context, Bare& bare) {
  constexpr int kRounds = 20, kRuns = 50;
  std::vector<double> with, without, host;
  for (int round = 0; round < 2 * kRounds; ++round) {
    const bool is_on = round % 2 == 0;
    if (is_on) INFER_TRY(program.device()->StartActivity());
    for (int i = 0; i < kRuns; ++i) {
      const double begin = NowUs();
      INFER_TRY(context.Run());
      (is_on ? with : without).push_back(NowUs() - begin);
    }
    if (is_on) INFER_TRY(program.device()->TakeActivity().status());
  }
  INFER_TRY(bare.activity().Start());
  for (int i = 0; i < kRounds * kRuns; ++i) INFER_TRY(bare.Replay(&host.emplace_back()));
  INFER_TRY(bare.activity().Take().status());
  std::printf(
      "the device's activity written down: a run %.1f us, %.1f us without; handing over takes the "
      "host %.1f us\n",
      MedianOf(with), MedianOf(without), MedianOf(host));
  return {};
}

Status MeasureRuns() {
  constexpr int kWarmUp = 4, kPairs = 1000;
  INFER_ASSIGN(Bare bare, Bare::Make());
  INFER_ASSIGN(const auto program, Compiled());
  INFER_ASSIGN(const auto context, program->NewContext());
  INFER_TRY(context->BindInput(0, Tensor(DType::kF32, {16})));
  for (int i = 0; i < kWarmUp; ++i) INFER_TRY(context->Run());
  const CommandInfo before = context->commands();
  std::vector<double> rounds, runs, beyond, host;
  for (int i = 0; i < kPairs; ++i) {
    double begin = NowUs();
    INFER_TRY(bare.Round());
    rounds.push_back(NowUs() - begin);
    begin = NowUs();
    INFER_TRY(context->Run());
    runs.push_back(NowUs() - begin);
    beyond.push_back(runs.back() - rounds.back());
    INFER_TRY(bare.Replay(&host.emplace_back()));
  }
  const CommandInfo info = context->commands() - before;
  std::printf(
      "%d dispatches recorded once: bare submission and wait %.1f us, a run %.1f us, %.1f us more "
      "(median of pairs); handing over takes the host %.1f us; recorded in %d runs: %lld "
      "commands\n",
      kDispatches, MedianOf(rounds), MedianOf(runs), MedianOf(beyond), MedianOf(host), kPairs,
      static_cast<long long>(info.recorded));
  return MeasureActivity(*program, *context, bare);
}

}  // namespace
}  // namespace infer::vulkan

int main() {
  infer::Status s = infer::vulkan::Measure();
  if (s.ok()) s = infer::vulkan::MeasureRuns();
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
