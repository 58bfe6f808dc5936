/// Normalisations with a factor and a shift per channel, in f32: BatchNormalization as its operand
/// lies (oneDNN 2.6 takes eight times as long for plain operands, and has no kernel for rows in
/// blocks of channels), InstanceNormalization, GroupNormalization.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/ops/common.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

struct Planes {
  int64_t samples = 1, channels = 1, inner = 1;
};
Planes PlanesOf(const Dims& dims) {
  Planes p;
  p.samples = dims.empty() ? 1 : dims[0];
  p.channels = dims.size() > 1 ? dims[1] : 1;
  if (dims.size() > 2) p.inner = NumElements(Dims(dims.begin() + 2, dims.end()));
  return p;
}

std::string RefuseChannels(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (call.main().AttrOr<int64_t>("training_mode", 0) != 0)
    return "it normalises by the statistics of the batch";
  if (call.step.outputs != std::vector<int>{call.plan.id(call.main().output(0))})
    return "a second result is wanted";
  return RefuseUnlessF32(call);
}

Prepared InPlaceNorm() {
  Prepared p;
  p.name = "own:norm";
  p.in_place = true;
  return p;
}

/// y = x k + s with factors of `lanes` channels that stand side by side, for n of them.
void ScaleSide(const float* x, const float* k, const float* s, float* y, int64_t n, int64_t lanes) {
  for (int64_t i = 0; i < n; ++i, x += lanes, y += lanes)
    for (int64_t c = 0; c < lanes; ++c) y[c] = x[c] * k[c] + s[c];
}
/// The same for blocks of eight, whose factors stay in registers.
void ScaleEights(const float* x, const float* k, const float* s, float* y, int64_t n) {
  float factor[8], shift[8];
  std::copy_n(k, 8, factor);
  std::copy_n(s, 8, shift);
  for (int64_t i = 0; i < n; ++i, x += 8, y += 8)
    for (int c = 0; c < 8; ++c) y[c] = x[c] * factor[c] + shift[c];
}

/// [samples][blocks][inner][lanes]: channel c is lane c % lanes of block c / lanes; plain operands
/// have one lane, channels last one block.
struct Blocks {
  int64_t samples = 1, blocks = 1, inner = 1, lanes = 1;

  void Scale(const float* x, const float* k, const float* s, float* y) const {
    // Pixels of channels last are cut, too.
    const int64_t parts = lanes > 1 && blocks == 1 ? samples * inner : samples * blocks;
    const int64_t of_part = samples * blocks * inner / parts;
    const auto scaled = simd::TheLoops().scaled;
    ForRange(parts, std::max<int64_t>(1, kElementGrain / (of_part * lanes)),
             [=, this](int64_t begin, int64_t end) {
               for (int64_t i = begin; i < end; ++i) {
                 const int64_t c = blocks == 1 ? 0 : i % blocks * lanes, at = i * of_part * lanes;
                 if (lanes == 1)
                   scaled(x + at, 0, k[c], s[c], y + at, of_part);
                 else if (lanes == 8)
                   ScaleEights(x + at, k + c, s + c, y + at, of_part);
                 else
                   ScaleSide(x + at, k + c, s + c, y + at, of_part, lanes);
               }
             });
  }
  int64_t padded_channels() const { return blocks * lanes; }

  static Result<Blocks> Of(const Operand& x) {
    const Planes s = PlanesOf(x.dims);
    if (x.layout.plain()) return Blocks{s.samples, s.channels, s.inner, 1};
    const auto block = onednn::ChannelBlockOf(DType::kF32, x.dims, x.layout);
    if (!block || *block == 0) return Unsupported("neither plain nor by channels");
    if (*block == s.channels) return Blocks{s.samples, 1, s.inner, s.channels};
    return Blocks{s.samples, (s.channels + *block - 1) / *block, s.inner, *block};
  }
};

std::unique_ptr<Kernel> MakeBatchNorm(const StepCall& call) {
  const Node& node = call.main();
  const auto epsilon = static_cast<double>(node.Attr<float>("epsilon"));
  int at[5];
  for (size_t i = 0; i < 5; ++i) at[i] = call.operand(node.input(i));
  return KernelOf([=, x = at[0], scale = at[1], bias = at[2], mean = at[3], variance = at[4]](
                      std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Operand& data = in[static_cast<size_t>(x)];
    const int64_t channels = PlanesOf(data.dims).channels;
    INFER_ASSIGN(const Blocks s, Blocks::Of(data));
    for (int i : {scale, bias, mean, variance})
      if (NumElements(in[static_cast<size_t>(i)].dims) != channels) return Unsupported("extents");
    const size_t y = in.size();
    Prepared p = InPlaceNorm();
    p.in_place = s.samples * s.inner > 1;  // else the operands are as large as the result
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x)] = data.layout;
    p.out_layouts = {data.layout};
    p.scratch_bytes = 2 * s.padded_channels() * 4;
    p.launch = LaunchOf([=](std::byte* const* args) {
      auto of = [args](int i) { return As<float>(static_cast<const std::byte*>(args[i])); };
      float *k = As<float>(args[y + 1]), *shift = k + s.padded_channels();
      // The padding of the last block stays zero.
      std::fill_n(k, 2 * s.padded_channels(), 0.0f);
      for (int64_t c = 0; c < channels; ++c) {
        const double factor = static_cast<double>(of(scale)[c]) /
                              std::sqrt(static_cast<double>(of(variance)[c]) + epsilon);
        k[c] = static_cast<float>(factor);
        shift[c] = static_cast<float>(static_cast<double>(of(bias)[c]) -
                                      static_cast<double>(of(mean)[c]) * factor);
      }
      s.Scale(of(x), k, shift, As<float>(args[y]));
    });
    return p;
  });
}

/// Whether f32 bears the factor of a group (simd::kMostFactor), and that times a scale.
bool BearsF32(double factor, double k) {
  return factor > static_cast<double>(simd::kLeastFactor) &&
         factor < static_cast<double>(simd::kMostFactor) &&
         (k == 0 || std::abs(k) > static_cast<double>(std::numeric_limits<float>::min()));
}
/// Of a channel where it does not.
void ScaleWide(const float* x, double mean, double k, float bias, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<float>((static_cast<double>(x[i]) - mean) * k + static_cast<double>(bias));
}

/// Groups of channels with a mean and a variance of their own; Instance: one channel each.
std::unique_ptr<Kernel> MakeGroupNorm(const StepCall& call) {
  const Node& node = call.main();
  const float epsilon = node.Attr<float>("epsilon");
  const int64_t given = node.AttrOr<int64_t>("num_groups", 0);
  const int x = call.operand(node.input(0)), scale = call.operand(node.input(1)),
            bias = call.operand(node.input(2));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[static_cast<size_t>(x)].dims;
    const Planes s = PlanesOf(dims);
    const int64_t groups = given == 0 ? s.channels : given;
    if (dims.size() < 2 || groups < 1 || s.channels % groups != 0) return Unsupported("extents");
    for (int i : {scale, bias})
      if (NumElements(in[static_cast<size_t>(i)].dims) != s.channels) return Unsupported("extents");
    const int64_t per_group = s.channels / groups, n = per_group * s.inner;
    const simd::Loops& loops = simd::TheLoops();
    const size_t y = in.size();
    Prepared p = InPlaceNorm();
    p.in_place = s.samples * s.inner > 1;
    p.launch = LaunchOf([=, &loops](std::byte* const* args) {
      auto of = [args](int i) { return As<float>(static_cast<const std::byte*>(args[i])); };
      ForRange(s.samples * groups, std::max<int64_t>(1, kElementGrain / 4 / n),
               [=, &loops](int64_t begin, int64_t end) {
                 for (int64_t g = begin; g < end; ++g) {
                   double mean = 0, variance = 0;
                   loops.moments(of(x) + g * n, n, &mean, &variance);
                   const double factor = 1 / std::sqrt(variance + static_cast<double>(epsilon));
                   for (int64_t j = 0; j < per_group; ++j) {
                     const int64_t c = g % groups * per_group + j, at = g * n + j * s.inner;
                     const float* const from = of(x) + at;
                     float* const to = As<float>(args[y]) + at;
                     const double k = factor * static_cast<double>(of(scale)[c]);
                     if (!BearsF32(factor, k)) [[unlikely]]
                       ScaleWide(from, mean, k, of(bias)[c], to, s.inner);
                     else
                       loops.scaled(from, static_cast<float>(mean), static_cast<float>(k),
                                    of(bias)[c], to, s.inner);
                   }
                 }
               });
    });
    return p;
  });
}

}  // namespace

KernelList ChannelNormKernels() {
  return {{"BatchNormalization", "", "own", RefuseChannels, MakeBatchNorm},
          {"InstanceNormalization", "", "own", RefuseChannels, MakeGroupNorm},
          {"GroupNormalization", "", "own", RefuseChannels, MakeGroupNorm}};
}

}  // namespace infer
