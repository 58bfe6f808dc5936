/// LRN of f32: sums of squares over neighbouring channels, a block of places at a time. The
/// exponent of AlexNet and GoogLeNet, 0.75, takes two roots instead of a power.
#include <algorithm>
#include <cmath>

#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

constexpr int64_t kPlaces = 128;  ///< of a block

struct LrnRun {
  int64_t channels = 0, inner = 0, before = 0, after = 0;
  float scale = 0, beta = 0, bias = 0;  ///< scale: alpha / size

  /// Channel c of a sample at the places [first, first + count).
  void Block(const float* x, float* y, int64_t c, int64_t first, int64_t count) const {
    float sums[kPlaces] = {};
    const int64_t low = std::max<int64_t>(0, c - before), high = std::min(channels - 1, c + after);
    for (int64_t k = low; k <= high; ++k) {
      const float* const from = x + k * inner + first;
      for (int64_t i = 0; i < count; ++i) sums[i] += from[i] * from[i];
    }
    const float* const from = x + c * inner + first;
    float* const to = y + c * inner + first;
    if (beta == 0.75f) {
      for (int64_t i = 0; i < count; ++i) {
        const float root = std::sqrt(bias + scale * sums[i]);
        to[i] = from[i] / (root * std::sqrt(root));
      }
      return;
    }
    for (int64_t i = 0; i < count; ++i) to[i] = from[i] / std::pow(bias + scale * sums[i], beta);
  }
};

std::string RefuseLrn(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  return ElementTypeOf(call.main().input(0)) == DType::kF32 ? "" : "not f32";
}

std::unique_ptr<Kernel> MakeLrn(const StepCall& call) {
  const Node& n = call.main();
  const auto size = n.Attr<int64_t>("size");
  LrnRun run;
  run.before = (size - 1) / 2;
  run.after = size - 1 - run.before;
  run.scale = n.Attr<float>("alpha") / static_cast<float>(size);
  run.beta = n.Attr<float>("beta");
  run.bias = n.Attr<float>("bias");
  return KernelOf(
      [run, size](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
        const Dims& dims = in[0].dims;
        if (dims.size() < 2 || size < 1) return Unsupported("no channels, or a size below 1");
        LrnRun r = run;
        r.channels = dims[1];
        r.inner = NumElements(Dims(dims.begin() + 2, dims.end()));
        const int64_t planes = dims[0] * dims[1];
        Prepared p;
        p.name = "own:lrn";
        p.launch = LaunchOf([r, planes](std::byte* const* args) {
          const float* const x = As<float>(static_cast<const std::byte*>(args[0]));
          float* const y = As<float>(args[1]);
          const int64_t blocks = (r.inner + kPlaces - 1) / kPlaces;
          ForRange(planes * blocks, 16, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t plane = i / blocks, first = i % blocks * kPlaces;
              const int64_t sample = plane / r.channels * r.channels * r.inner;
              r.Block(x + sample, y + sample, plane % r.channels, first,
                      std::min(kPlaces, r.inner - first));
            }
          });
        });
        return p;
      });
}

}  // namespace

KernelList LrnKernels() { return {{"LRN", "", "own", RefuseLrn, MakeLrn}}; }

}  // namespace infer
