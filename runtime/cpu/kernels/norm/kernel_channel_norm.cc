/// Normalisations with a factor and a shift per channel, in f32: BatchNormalization unless it lies
/// in blocks of channels (oneDNN 2.6 takes eight times as long for plain operands),
/// InstanceNormalization, GroupNormalization.
#include <algorithm>
#include <cmath>

#include "lib/ops/common.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

/// y = x k + s.
void Scale(const float* x, float k, float s, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * k + s;
}

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

std::unique_ptr<Kernel> MakeBatchNorm(const StepCall& call) {
  const Node& node = call.main();
  const auto epsilon = static_cast<double>(node.Attr<float>("epsilon"));
  int at[5];
  for (size_t i = 0; i < 5; ++i) at[i] = call.operand(node.input(i));
  return KernelOf([=, x = at[0], scale = at[1], bias = at[2], mean = at[3], variance = at[4]](
                      std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Operand& data = in[static_cast<size_t>(x)];
    Planes s = PlanesOf(data.dims);
    const bool last = !data.layout.plain() && data.dims.size() >= 3 && data.dims.size() <= 5 &&
                      data.layout == onednn::ChannelsLast(DType::kF32, data.dims);
    if (!data.layout.plain() && !last) return Unsupported("it lies in blocks of channels");
    if (last) s = {s.samples * s.inner, s.channels, 1};
    for (int i : {scale, bias, mean, variance})
      if (NumElements(in[static_cast<size_t>(i)].dims) != s.channels) return Unsupported("extents");
    const size_t y = in.size();
    Prepared p = InPlaceNorm();
    p.in_place = s.samples * s.inner > 1;  // else the operands are as large as the result
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x)] = data.layout;
    p.out_layouts = {data.layout};
    p.scratch_bytes = 2 * s.channels * 4;
    p.launch = LaunchOf([=](std::byte* const* args) {
      auto of = [args](int i) { return As<float>(static_cast<const std::byte*>(args[i])); };
      float *k = As<float>(args[y + 1]), *shift = k + s.channels;
      for (int64_t c = 0; c < s.channels; ++c) {
        const double factor = static_cast<double>(of(scale)[c]) /
                              std::sqrt(static_cast<double>(of(variance)[c]) + epsilon);
        k[c] = static_cast<float>(factor);
        shift[c] = static_cast<float>(static_cast<double>(of(bias)[c]) -
                                      static_cast<double>(of(mean)[c]) * factor);
      }
      const float* from = of(x);
      float* to = As<float>(args[y]);
      if (s.inner == 1) {
        const int64_t n = s.channels;
        ForRange(s.samples, std::max<int64_t>(1, kElementGrain / n), [=](int64_t b, int64_t e) {
          for (int64_t r = b; r < e; ++r)
            for (int64_t c = 0; c < n; ++c) to[r * n + c] = from[r * n + c] * k[c] + shift[c];
        });
        return;
      }
      ForRange(s.samples * s.channels, std::max<int64_t>(1, kElementGrain / s.inner),
               [=](int64_t b, int64_t e) {
                 for (int64_t r = b; r < e; ++r)
                   Scale(from + r * s.inner, k[r % s.channels], shift[r % s.channels],
                         to + r * s.inner, s.inner);
               });
    });
    return p;
  });
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
    const auto norm = simd::TheLoops().layer_norm;
    const size_t y = in.size();
    Prepared p = InPlaceNorm();
    p.in_place = s.samples * s.inner > 1;
    p.launch = LaunchOf([=](std::byte* const* args) {
      auto of = [args](int i) { return As<float>(static_cast<const std::byte*>(args[i])); };
      ForRange(s.samples * groups, std::max<int64_t>(1, kElementGrain / 4 / n),
               [=](int64_t begin, int64_t end) {
                 for (int64_t g = begin; g < end; ++g) {
                   float* to = As<float>(args[y]) + g * n;
                   norm(of(x) + g * n, nullptr, nullptr, to, n, epsilon);
                   for (int64_t j = 0; j < per_group; ++j) {
                     const int64_t c = g % groups * per_group + j;
                     Scale(to + j * s.inner, of(scale)[c], of(bias)[c], to + j * s.inner, s.inner);
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
