/// GridSample of f32: the taps of a block of samples are found once, as lib/ops/move/grid_sampler.h
/// does for the reference, and every channel is read through them. 0.19 of ONNX Runtime's time over
/// 18 layers, one thread (tools/infer_bench/layer_map.py --family sampling; docs/performance.md).
#include <algorithm>
#include <limits>

#include "lib/ops/move/grid_sampler.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/samples.h"

namespace infer {
namespace {

constexpr int kMostTaps = 16;  ///< cubic in two dimensions

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
  explicit TapTable(const simd::Samples& loops) : loops_(loops) {}

  /// Of `count` positions of `grid`, the innermost coordinate first.
  void Fill(const GridSampler& sampler, const GridExtents& e, const float* grid, int64_t count) {
    taps_ = 1;
    std::fill_n(at_[0], count, 0);
    std::fill_n(weight_[0], count, 1.0f);
    for (int k = 0; k < e.axes; ++k) {
      const float* const along = grid + e.axes - 1 - k;
      const int64_t extent = e.image[static_cast<size_t>(k)];
      AxisTaps(sampler, along, e.axes, count, extent);
      Combine(sampler.points(), count, static_cast<int32_t>(extent));
    }
  }

  /// y[s] for the first `count` samples. A tap that counts nothing is not read: it may be infinite.
  void Apply(const float* x, int64_t count, float* y) const {
    loops_.read(x, at_[0], weight_[0], taps_, count, y);
  }

 private:
  /// Taps of one axis, in axis_at_ and axis_weight_.
  void AxisTaps(const GridSampler& sampler, const float* grid, int64_t step, int64_t count,
                int64_t extent) {
    if (sampler.points() > 1) {
      simd::SampledAxis axis;
      axis.size = static_cast<int32_t>(extent);
      axis.points = sampler.points();
      axis.align_corners = sampler.align_corners();
      axis.padding = static_cast<simd::SampledAxis::Padding>(sampler.padding());
      return loops_.axis_taps(grid, step, count, axis, axis_at_[0], axis_weight_[0]);
    }
    for (int64_t s = 0; s < count; ++s) {
      GridSampler::Tap tap;
      sampler.TapsOf(static_cast<double>(grid[s * step]), extent, &tap);
      axis_at_[0][s] = static_cast<int32_t>(std::max<int64_t>(tap.at, 0));
      axis_weight_[0][s] = tap.at < 0 ? 0.0f : 1.0f;
    }
  }

  /// Every tap so far by every tap of one more axis, the last of these first: it lies over none
  /// that is still read.
  void Combine(int points, int64_t count, int32_t extent) {
    for (int which = points - 1; which >= 0; --which)
      for (int t = 0; t < taps_; ++t) {
        const int to = which * taps_ + t;
        for (int64_t s = 0; s < count; ++s) {
          at_[to][s] = at_[t][s] * extent + axis_at_[which][s];
          weight_[to][s] = weight_[t][s] * axis_weight_[which][s];
        }
      }
    taps_ *= points;
  }

  const simd::Samples& loops_;
  int taps_ = 0;
  int32_t at_[kMostTaps][simd::kSampleBlock], axis_at_[4][simd::kSampleBlock];
  float weight_[kMostTaps][simd::kSampleBlock], axis_weight_[4][simd::kSampleBlock];
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
        if (std::any_of(e.image.begin(), e.image.end(), [](int64_t n) { return n >= 1 << 24; }))
          return Unsupported("places beyond 24 bits");
        e.batch = x[0];
        e.channels = x[1];
        e.samples = NumElements(grid) / (e.batch * e.axes);
        Prepared p;
        p.name = "own:grid-sample";
        p.launch = LaunchOf([e, sampler = *sampler](std::byte* const* args) {
          const float* const image = As<float>(static_cast<const std::byte*>(args[0]));
          const float* const positions = As<float>(static_cast<const std::byte*>(args[1]));
          float* const y = As<float>(args[2]);
          const int64_t blocks = (e.samples + simd::kSampleBlock - 1) / simd::kSampleBlock;
          ForRange(e.batch * blocks, 1, [&](int64_t begin, int64_t end) {
            TapTable table(simd::TheSamples());
            for (int64_t i = begin; i < end; ++i) {
              const int64_t b = i / blocks, first = i % blocks * simd::kSampleBlock;
              const int64_t count = std::min(simd::kSampleBlock, e.samples - first);
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
