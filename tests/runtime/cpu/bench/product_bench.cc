/// product_bench [ROUNDS [MB]]: products by constants directly (PanelGemm) and as seven products of
/// quarters (StrassenGemm), whose sums of weights are made or kept, on one thread, in turns. Each
/// run reads other weights, 400 MB of them in all, as a network does. GFLOP/s of the direct product
/// by the median; median of the ratios of the turns to its time, with quartiles.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "lib/support/random.h"
#include "lib/support/readable.h"
#include "runtime/cpu/backend.h"
#include "runtime/cpu/kernels/matmul/strassen_gemm.h"
#include "tests/runtime/cpu/bench/timing.h"

namespace infer {
namespace {

std::string Ratios(const std::vector<double>& v) {
  return Cat(Rounded(At(v, 0.5), 3), " (", Rounded(At(v, 0.25), 3), " to ", Rounded(At(v, 0.75), 3),
             ")");
}

void Measure(int64_t rows, int64_t depth, int64_t columns, int rounds, int64_t megabytes) {
  const PanelGemm direct{simd::ThePanels(), {}, rows, depth, columns};
  const StrassenGemm made{simd::ThePanels(), {}, rows, depth, columns};
  StrassenGemm kept = made;
  kept.kept = true;
  Random random(3);
  std::vector<float> w(static_cast<size_t>(depth * columns));
  for (float& f : w) f = static_cast<float>(random.Normal());
  const int64_t copies = std::max<int64_t>(1, (megabytes << 20) / (4 * depth * columns));
  std::vector<std::shared_ptr<const Buffer>> panels, sums;
  for (int64_t i = 0; i < copies; ++i) {
    panels.push_back(direct.Pack(w.data(), columns, 1));
    sums.push_back(kept.Pack(w.data(), columns, 1));
  }
  std::vector<float> a(static_cast<size_t>(rows * depth), 0.5f);
  std::vector<float> y(static_cast<size_t>(rows * columns));
  const auto scratch = Buffer::Allocate(static_cast<size_t>(
      std::max({direct.scratch_bytes(), made.scratch_bytes(), kept.scratch_bytes()})));
  float* const s = As<float>(scratch->mutable_data());
  int64_t at = 0;
  const auto time = [&](const auto& gemm, const auto& weights) {
    const auto* const next = As<float>(weights[static_cast<size_t>(at++ % copies)]->data());
    const double begin = NowUs();
    gemm.Run(a.data(), next, nullptr, y.data(), s);
    return NowUs() - begin;
  };
  std::vector<double> of_direct, of_made, of_kept;
  for (int i = -2; i < rounds; ++i) {
    const double d = time(direct, panels), m = time(made, panels), k = time(kept, sums);
    if (i < 0) continue;
    of_direct.push_back(d);
    of_made.push_back(m / d);
    of_kept.push_back(k / d);
  }
  const double flop = 2e-3 * static_cast<double>(rows * depth * columns);
  std::printf("%4lldx%lldx%-5lld %6.1f   made %s   kept %s\n", static_cast<long long>(rows),
              static_cast<long long>(depth), static_cast<long long>(columns),
              flop / At(of_direct, 0.5), Ratios(of_made).c_str(), Ratios(of_kept).c_str());
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 60;
  const int megabytes = argc > 2 ? std::atoi(argv[2]) : 400;
  INFER_CHECK(MakeCpuBackend() && simd::ThePanels());
  std::printf("rows x depth x columns, GFLOP/s, ratios\n");
  for (int64_t rows : {96, 128, 160, 197, 256, 400})
    for (auto [depth, columns] :
         {std::pair<int64_t, int64_t>{768, 768}, {768, 3072}, {3072, 768}, {1024, 256}})
      Measure(rows, depth, columns, rounds, megabytes);
  return 0;
}

}  // namespace
}  // namespace infer

int main(int argc, char** argv) { return infer::Main(argc, argv); }
