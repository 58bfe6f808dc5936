/// What recording costs: microseconds per dispatch (descriptors and barrier included), per
/// submission, and of 60 dependent dispatches in all. Prints medians; judges nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "runtime/vulkan/record/encoder.h"

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
      INFER_TRY(encoder.Dispatch(*negate, bindings, push, {1, 1, 1}));
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

}  // namespace
}  // namespace infer::vulkan

int main() {
  const infer::Status s = infer::vulkan::Measure();
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
