/// GridSample of f32: the taps of a block of samples are found once (lib/ops/move/grid_sampler.h,
/// the reference's), and every channel is read through them.
#include <algorithm>
#include <limits>

#include "lib/ops/move/grid_sampler.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

constexpr int64_t kSamples = 64;  ///< of a block
constexpr int kMostTaps = 16;     ///< cubic in two dimensions

struct GridExtents {
  int axes = 0;  ///< spatial ones
  Dims image;    ///< extents of these
  int64_t batch = 0, channels = 0;
  int64_t plane = 0;    ///< elements of a channel of X
  int64_t samples = 0;  ///< positions of a batch entry
};

/// Which elements of a channel a block of samples reads, and what each counts.
class TapTable {
 public:
  /// Of `count` positions of `grid`, the innermost coordinate first.
  void Fill(const GridSampler& sampler, const GridExtents& e, const float* grid, int64_t count) {
    const int points = sampler.points();
    taps_ = 1;
    for (int k = 0; k < e.axes; ++k) taps_ *= points;
    all_count_ = true;
    GridSampler::Tap along[3][4];
    for (int64_t s = 0; s < count; ++s) {
      for (int k = 0; k < e.axes; ++k)
        sampler.TapsOf(static_cast<double>(grid[s * e.axes + e.axes - 1 - k]),
                       e.image[static_cast<size_t>(k)], along[k]);
      for (int t = 0; t < taps_; ++t) {
        int64_t at = 0;
        double weight = 1;
        for (int k = 0, rest = t; k < e.axes; ++k, rest /= points) {
          const GridSampler::Tap& tap = along[k][rest % points];
          weight = tap.at < 0 ? 0 : weight * tap.weight;
          at = at * e.image[static_cast<size_t>(k)] + std::max<int64_t>(tap.at, 0);
        }
        at_[t][s] = static_cast<int32_t>(at);
        weight_[t][s] = static_cast<float>(weight);
        all_count_ &= weight_[t][s] != 0;
      }
    }
  }

  /// y[s] for the first `count` samples. A tap that counts nothing is not read: it may be infinite.
  void Apply(const float* x, int64_t count, float* y) const {
    if (!all_count_) return ApplySome(x, count, y);
    switch (taps_) {
      case 1: return ApplyAll<1>(x, count, y);
      case 4: return ApplyAll<4>(x, count, y);
      case 16: return ApplyAll<16>(x, count, y);
      default: return ApplySome(x, count, y);
    }
  }

 private:
  template <int kTaps>
  void ApplyAll(const float* x, int64_t count, float* y) const {
    for (int64_t s = 0; s < count; ++s) {
      float sum = 0;
      for (int t = 0; t < kTaps; ++t) sum += weight_[t][s] * x[at_[t][s]];
      y[s] = sum;
    }
  }
  void ApplySome(const float* x, int64_t count, float* y) const {
    float sums[kSamples] = {};
    for (int t = 0; t < taps_; ++t)
      for (int64_t s = 0; s < count; ++s)
        if (weight_[t][s] != 0) sums[s] += weight_[t][s] * x[at_[t][s]];
    std::copy_n(sums, count, y);
  }

  bool all_count_ = false;  // no tap has weight 0
  int taps_ = 0;
  int32_t at_[kMostTaps][kSamples];
  float weight_[kMostTaps][kSamples];
};

std::string RefuseGridSample(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  for (size_t i = 0; i < 2; ++i)
    if (ElementTypeOf(n.input(i)) != DType::kF32) return "not f32";
  return n.input(0) == n.input(1) ? "image and grid are one value" : "";
}

std::unique_ptr<Kernel> MakeGridSample(const StepCall& call) {
  const Node& n = call.main();
  const auto sampler =
      GridSampler::Of(n.Attr<std::string>("mode"), n.Attr<std::string>("padding_mode"),
                      n.Attr<int64_t>("align_corners") != 0);
  return KernelOf(
      [sampler](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
        if (!sampler.ok()) return Unsupported(sampler.status().message());
        const Dims &x = in[0].dims, &grid = in[1].dims;
        GridExtents e;
        e.axes = static_cast<int>(x.size()) - 2;
        if (e.axes < 1 || grid.size() != x.size() || grid.back() != e.axes || grid[0] != x[0])
          return Unsupported("the grid does not fit");
        int64_t taps = 1;
        for (int k = 0; k < e.axes && taps <= kMostTaps; ++k) taps *= sampler->points();
        if (e.axes > 3 || taps > kMostTaps) return Unsupported("too many taps");
        e.image = Dims(x.begin() + 2, x.end());
        e.plane = NumElements(e.image);
        if (e.plane == 0) return Unsupported("the image is empty");
        if (e.plane > std::numeric_limits<int32_t>::max())
          return Unsupported("places beyond 32 bits");
        e.batch = x[0];
        e.channels = x[1];
        e.samples = NumElements(grid) / (e.batch * e.axes);
        Prepared p;
        p.name = "own:grid-sample";
        p.launch = LaunchOf([e, sampler = *sampler](std::byte* const* args) {
          const float* const image = As<float>(static_cast<const std::byte*>(args[0]));
          const float* const positions = As<float>(static_cast<const std::byte*>(args[1]));
          float* const y = As<float>(args[2]);
          const int64_t blocks = (e.samples + kSamples - 1) / kSamples;
          ForRange(e.batch * blocks, 1, [&](int64_t begin, int64_t end) {
            TapTable table;
            for (int64_t i = begin; i < end; ++i) {
              const int64_t b = i / blocks, first = i % blocks * kSamples;
              const int64_t count = std::min(kSamples, e.samples - first);
              table.Fill(sampler, e, positions + (b * e.samples + first) * e.axes, count);
              for (int64_t c = b * e.channels; c < (b + 1) * e.channels; ++c)
                table.Apply(image + c * e.plane, count, y + c * e.samples + first);
            }
          });
        });
        return p;
      });
}

}  // namespace

KernelList GridSampleKernels() {
  return {{"GridSample", "", "own", RefuseGridSample, MakeGridSample}};
}

}  // namespace infer
