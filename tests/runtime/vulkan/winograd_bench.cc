/// Convolutions of 3x3 windows by Winograd's algorithm and summed directly, in turns: milliseconds
/// of a run, input and result included, and of the processor (of a driver for the CPU with
/// LP_NUM_THREADS=0 the whole run; other processes do not count). Usage:
/// vulkan_winograd_bench [N CHANNELS OUTPUTS HEIGHT WIDTH]; without extents the layers of
/// resnet18 and a grid of channels. Judges nothing.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "runtime/vulkan/backend.h"

namespace infer {
namespace {

constexpr int kRounds = 21;
using Extents = std::array<int64_t, 5>;  ///< samples, channels, outputs, height, width

/// Of one way, in milliseconds.
struct Times {
  std::vector<double> wall, processor;
};

double ProcessorMs() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

double At(std::vector<double> v, double share) {
  std::sort(v.begin(), v.end());
  return v[static_cast<size_t>(share * static_cast<double>(v.size() - 1))];
}

struct Way {
  std::unique_ptr<Backend> backend;
  std::shared_ptr<const Program> program = nullptr;
  std::unique_ptr<RunContext> context = nullptr;
  Times times = {};

  Status Compile(const Graph& g, const Tensor& x) {
    INFER_ASSIGN(program, backend->Compile(g, {}));
    INFER_ASSIGN(context, program->NewContext());
    INFER_TRY(context->BindInput(0, x));
    times = {};
    return context->Run();
  }
  Status Run() {
    const double processor = ProcessorMs();
    const auto begin = std::chrono::steady_clock::now();
    INFER_TRY(context->Run());
    const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - begin;
    times.wall.push_back(wall.count());
    times.processor.push_back(ProcessorMs() - processor);
    return {};
  }
};

Status Compare(const Extents& e, Way& direct, Way& winograd) {
  static const OpRegistry ops = AllOps();
  const auto [n, channels, outputs, height, width] = e;
  INFER_ASSIGN(const Graph g,
               ParseGraph(Cat("graph g(x: f32[", n, ",", channels, ",", height, ",", width,
                              "]) -> (y) { w = const f32[", outputs, ",", channels,
                              ",3,3] ~1 b = const f32[", outputs,
                              "] ~2 c = Conv(x, w, b) {pads=[1,1,1,1]} y = Relu(c) }"),
                          ops));
  Tensor x(DType::kF32, {n, channels, height, width});
  Random random(1);
  for (int64_t i = 0; i < x.num_elements(); ++i) x.Set(i, random.Normal());
  INFER_TRY(direct.Compile(g, x));
  INFER_TRY(winograd.Compile(g, x));
  std::vector<double> wall, processor;
  for (int round = 0; round < kRounds; ++round) {
    INFER_TRY(direct.Run());
    INFER_TRY(winograd.Run());
    wall.push_back(winograd.times.wall.back() / direct.times.wall.back());
    processor.push_back(winograd.times.processor.back() / direct.times.processor.back());
  }
  std::printf(
      "%2d x %4d -> %4d, %3d x %3d  %8.2f %8.2f ms  %.2f (%.2f to %.2f)  processor %8.2f %8.2f ms  "
      "%.2f (%.2f to %.2f)  %s\n",
      int(n), int(channels), int(outputs), int(height), int(width), At(direct.times.wall, .5),
      At(winograd.times.wall, .5), At(wall, .5), At(wall, .25), At(wall, .75),
      At(direct.times.processor, .5), At(winograd.times.processor, .5), At(processor, .5),
      At(processor, .25), At(processor, .75), winograd.program->steps()[0].kernel.c_str());
  std::fflush(stdout);
  return {};
}

Status Measure(const std::vector<Extents>& all) {
  INFER_ASSIGN(VulkanOptions options, VulkanOptionsFromEnvironment());
  const auto make = [&] {
    return MakeVulkanBackend({.device = options, .behind = CpuHost(), .keep_all = true});
  };
  options.winograd_anywhere = true;
  Way winograd{make()};
  options.disable.emplace_back("winograd");
  Way direct{make()};
  std::printf(
      "samples x channels -> outputs, pixels; direct, Winograd, quotient (quartiles of %d "
      "pairs)\n",
      kRounds);
  for (const Extents& e : all) INFER_TRY(Compare(e, direct, winograd));
  return {};
}

}  // namespace
}  // namespace infer

int main(int argc, char** argv) {
  std::vector<infer::Extents> all = {
      {1, 64, 64, 56, 56}, {1, 128, 128, 28, 28}, {1, 256, 256, 14, 14}, {1, 512, 512, 7, 7}};
  for (int64_t channels : {16, 32, 48, 64, 128})
    for (int64_t extent : {4, 6, 8, 14, 28, 56})
      if (channels * extent <= 64 * 56) all.push_back({1, channels, channels, extent, extent});
  for (const auto& [channels, outputs] : {std::pair(16, 128), {128, 16}, {32, 64}, {64, 32}})
    all.push_back({1, channels, outputs, 28, 28});
  if (argc == 6) {
    infer::Extents e{};
    for (size_t i = 0; i < 5; ++i) e[i] = std::strtoll(argv[i + 1], nullptr, 10);
    all = {e};
  }
  const infer::Status status = infer::Measure(all);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
