/// Times of products in f16 on a device with cooperative matrices: TFLOP/s of a loop that does
/// nothing else (shaders/matrix_peak.comp), and of shaders/half.comp on m x k by k x n, operands in
/// f16 on the device. Usage: vulkan_product_bench [M N K]. Best and median of several submissions;
/// judges nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "runtime/vulkan/backend.h"
#include "runtime/vulkan/record/encoder.h"

namespace infer::vulkan {
namespace {

constexpr int kDispatches = 10, kRounds = 9;

struct Timed {
  double best = 0, median = 0;  ///< seconds a dispatch
};

Result<Timed> Time(const std::shared_ptr<DeviceParts>& parts, std::string_view shader,
                   const std::vector<int32_t>& constants, std::span<const Binding> bindings,
                   const PushData& push, uint32_t groups) {
  INFER_ASSIGN(const Pipeline* const pipeline,
               parts->pipelines.Get(ShaderNamed(shader), constants));
  INFER_ASSIGN(const auto made, VulkanEncoder::Make(parts));
  auto& encoder = static_cast<VulkanEncoder&>(*made);
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kDispatches; ++i)
      INFER_TRY(encoder.Dispatch(*pipeline, bindings, push, {{groups, 1, 1}, 1}));
    INFER_ASSIGN(const auto ended, encoder.Submit());
    INFER_TRY(ended->Wait());
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
        kDispatches);
  }
  std::sort(seconds.begin(), seconds.end());
  return Timed{seconds.front(), seconds[seconds.size() / 2]};
}

Status Measure(uint32_t m, uint32_t n, uint32_t k) {
  INFER_ASSIGN(VulkanOptions options, VulkanOptionsFromEnvironment());
  INFER_ASSIGN(auto gpu, Gpu::Make(options));
  const auto parts = std::make_shared<DeviceParts>(std::move(gpu));
  const bool matrix = parts->gpu->Has("matrix");
  const auto memory = [&](int64_t bytes) {
    return parts->allocator->Allocate(MemoryKind::kDevice, bytes);
  };
  const auto tell = [](std::string_view name, double flop, const Timed& t) {
    std::printf("%-14.*s %9.3f ms  best %7.1f  median %7.1f TFLOP/s\n",
                static_cast<int>(name.size()), name.data(), t.median * 1e3, flop / t.best / 1e12,
                flop / t.median / 1e12);
  };
  INFER_ASSIGN(const auto a, memory(int64_t{m} * k * 4));
  INFER_ASSIGN(const auto b, memory(int64_t{n} * k * 4));
  INFER_ASSIGN(const auto y, memory(int64_t{m} * n * 4));
  if (matrix) {
    constexpr uint32_t kLoops = 20000, kGroups = 132 * 8;
    PushData push;
    push.words[0] = kLoops;
    const Binding bindings[] = {{{a.get(), 0, a->bytes()}, false},
                                {{y.get(), 0, y->bytes()}, true}};
    INFER_ASSIGN(const Timed t, Time(parts, "matrix_peak", {}, bindings, push, kGroups));
    tell("peak", 2.0 * 64 * 32 * 16 * 8 * kLoops * kGroups, t);
  }
  const float one = 1;
  uint32_t bits = 0;
  std::memcpy(&bits, &one, sizeof bits);
  const Binding product_bindings[] = {{{a.get(), 0, a->bytes()}, false},
                                      {{b.get(), 0, b->bytes()}, false},
                                      {{a.get(), 0, a->bytes()}, false},
                                      {{a.get(), 0, a->bytes()}, false},
                                      {{y.get(), 0, y->bytes()}, true}};
  for (const auto& [shader, tile, is_long] : {std::tuple{"matmul64w", 64u, 0},
                                              {"matmul64w", 64u, 1},
                                              {"matmul128w", 128u, 0},
                                              {"matmul128w", 128u, 1}}) {
    const uint32_t tiles_m = (m + tile - 1) / tile, tiles_n = (n + tile - 1) / tile;
    PushData push;
    const uint32_t words[] = {m, n, k, tiles_m, tiles_n, k,    1,    n, 1, 1, 1, 0,
                              0, 0, 0, 0,       0,       bits, bits, k, 0, n, 0};
    std::copy(std::begin(words), std::end(words), push.words.begin());
    INFER_ASSIGN(const Timed t, Time(parts, shader, {0, 0, 0, 0, is_long, 0, 0}, product_bindings,
                                     push, tiles_m * tiles_n));
    tell(shader, 2.0 * m * n * k, t);
  }
  struct Variant {
    const char* shader;
    uint32_t tile_m, tile_n;
    bool matrix;
  };
  const Variant variants[] = {{"half64", 64, 64, false},
                              {"half64m", 64, 64, true},
                              {"half128m", 128, 128, true},
                              {"half256m", 256, 128, true}};
  for (const Variant& v : variants) {
    if (v.matrix && !matrix) continue;
    const uint32_t tiles_m = (m + v.tile_m - 1) / v.tile_m, tiles_n = (n + v.tile_n - 1) / v.tile_n;
    PushData push;
    const uint32_t words[] = {m, n, k, tiles_m, tiles_n, 1, 1, 0, 0, 0, 0, k, 0, 0, bits, bits};
    std::copy(std::begin(words), std::end(words), push.words.begin());
    const auto t =
        Time(parts, v.shader, {0, 0, 0, 0, 0}, product_bindings, push, tiles_m * tiles_n);
    if (t.ok())
      tell(v.shader, 2.0 * m * n * k, *t);
    else
      std::printf("%s: %s\n", v.shader, std::string(t.status().message()).c_str());
  }
  return {};
}

}  // namespace
}  // namespace infer::vulkan

int main(int argc, char** argv) {
  const auto extent = [&](int i) {
    return argc == 4 ? static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10)) : 4096u;
  };
  const infer::Status status = infer::vulkan::Measure(extent(1), extent(2), extent(3));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}
