/// Conv and ConvTranspose in f32: as a product that is never written down, or one result per
/// invocation; with bias and what follows in the same dispatch.
#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/vulkan/kernels/conv_product.h"
#include "runtime/vulkan/kernels/kernels.h"

namespace infer::vulkan {
namespace {

/// Strides and dilations share a word in the shaders.
constexpr int64_t kMostStep = 0x7fff;

std::string RefuseConv(const StepCall& call, const DeviceFacts&) {
  if (std::string r = RefuseUnlessAllF32(call); !r.empty()) return r;
  const auto tail = TailOf(call, false);
  return tail.ok() ? "" : tail.status().message();
}

class ConvKernel final : public Kernel {
 public:
  ConvKernel(const StepCall& call, Facts facts)
      : node_(call.main()),
        facts_(std::move(facts)),
        x_(call.operand(node_.input(0))),
        w_(call.operand(node_.input(1))),
        bias_(call.operand(node_.input(2))),
        tail_(*TailOf(call, false)) {}

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const bool transposed = IsTransposedConvolution(node_);
    INFER_ASSIGN(const ConvGeometry g,
                 ReadConvGeometry(node_.def(), node_.attrs(), in[static_cast<size_t>(x_)].dims,
                                  in[static_cast<size_t>(w_)].dims, transposed));
    if (g.window.rank() < 1 || g.window.rank() > 3) return Unsupported("more than three axes");
    for (const WindowAxis& a : g.window.axes)
      if (a.stride > kMostStep || a.dilation > kMostStep) return Unsupported("so large a step");
    if (tail_.residual >= 0 && in[static_cast<size_t>(tail_.residual)].dims != out[0].dims)
      return Unsupported("the residual broadcasts");
    const int64_t per_group = g.out_channels / g.groups;
    if (IsDepthwise(g)) return Depthwise(g, in, out);
    const bool direct = transposed || g.window.rank() == 3 || per_group < 8;
    return direct ? Direct(g, in, out) : AsProduct(g, in, out);
  }

 private:
  std::vector<int32_t> Constants(std::initializer_list<int32_t> more) const {
    std::vector<int32_t> constants = tail_.Constants();
    constants.push_back(bias_ >= 0);
    constants.insert(constants.end(), more);
    return constants;
  }

  Result<Prepared> AsProduct(const ConvGeometry& g, std::span<const Operand> in,
                             std::span<const Operand> out) const {
    const int64_t channels = g.out_channels / g.groups;
    const int64_t row_bytes = g.in_channels / g.groups * g.kernel_size() * 4;
    int64_t per_part = channels;
    // W that no buffer holds goes by some of the output channels.
    if (g.groups == 1) {
      INFER_ASSIGN(per_part, RowsOfAPart(*facts_, channels, {row_bytes}));
    }
    LaunchBuilder b(facts_, in, out);
    std::string name;
    for (int64_t begin = 0; begin < channels; begin += per_part)
      name = AddPart(g, begin, std::min(per_part, channels - begin), b);
    return b.Finish(Cat(name, per_part < channels ? "_parts" : ""));
  }

  /// `m` output channels of each group from `first` on. The shader's name.
  std::string AddPart(const ConvGeometry& g, int64_t first, int64_t m, LaunchBuilder& b) const {
    const bool flat = g.window.rank() == 1;
    const bool whole = m == g.out_channels / g.groups;
    const int64_t k = g.in_channels / g.groups * g.kernel_size();
    const ConvProduct p{.m = m,
                        .k = k,
                        .batch = g.batch,
                        .groups = g.groups,
                        .in_h = flat ? 1 : g.input[0],
                        .in_w = g.input.back(),
                        .out_h = flat ? 1 : g.output[0],
                        .out_w = g.output.back(),
                        .h = flat ? WindowAxis() : g.window.axes[0],
                        .w = g.window.axes.back(),
                        .in_channels = g.in_channels,
                        .out_channels = g.out_channels,
                        .first = first};
    const ConvTiles tiles = TilesOf(*facts_, p, whole);
    const bool split = tiles.tiling.parts > 1;
    const LaunchBuilder::Split sums{.tiling = tiles.tiling,
                                    .batches = g.batch,
                                    .m = g.out_channels,
                                    .n = p.pixels(),
                                    .bias_row = 1,
                                    .bias_column = 0};
    ConvArgs args = Args(b);
    if (!whole) args[1] = b.Part(args[1], first * k * 4, m * k * 4);
    if (split) args.back() = b.Scratch(sums.bytes());
    AddConvProduct(p, tiles, tail_, bias_ >= 0, args, b);
    if (split) b.Finish(sums, Constants({}), args[2], args[3], [&](Push& end) { tail_.Add(end); });
    return Cat(tiles.shader(), split ? "_split" : "");
  }

  static bool IsDepthwise(const ConvGeometry& g) {
    if (g.transposed || g.window.rank() != 2 || g.in_channels != g.groups) return false;
    const WindowAxis &h = g.window.axes[0], &w = g.window.axes[1];
    return h.dilation == 1 && w.dilation == 1 && w.kernel <= kMostDepthwiseWidth &&
           w.stride <= kMostDepthwiseStride;
  }

  Result<Prepared> Depthwise(const ConvGeometry& g, std::span<const Operand> in,
                             std::span<const Operand> out) const {
    const WindowAxis &h = g.window.axes[0], &w = g.window.axes[1];
    const int64_t across = (g.output[1] + 3) / 4;
    const int64_t n = g.batch * g.out_channels * g.output[0] * across;
    Push push;
    push.U(n).U(g.out_channels).U(g.out_channels / g.groups).U(g.input[0]).U(g.input[1]);
    push.U(g.output[0]).U(g.output[1]).U(across).U(h.kernel).U(h.stride);
    push.U(h.pad_begin).U(w.pad_begin);
    tail_.Add(push);
    LaunchBuilder b(facts_, in, out);
    b.Iterations(h.kernel * (6 * w.kernel + 3 * w.stride) + kFewRounds);
    b.DispatchElements("depthwise",
                       Constants({static_cast<int32_t>(w.kernel), static_cast<int32_t>(w.stride)}),
                       Args(b), push, n, 64);
    return b.Finish("depthwise");
  }

  Result<Prepared> Direct(const ConvGeometry& g, std::span<const Operand> in,
                          std::span<const Operand> out) const {
    const size_t missing = 3 - static_cast<size_t>(g.window.rank());
    Dims kernel(missing, 1), step(missing, 1 | 1 << 16), pad(missing, 0);
    for (const WindowAxis& a : g.window.axes) {
      kernel.push_back(a.kernel);
      step.push_back(a.stride | a.dilation << 16);
      pad.push_back(a.pad_begin);
    }
    const int64_t n = NumElements(out[0].dims);
    Push push;
    push.U(n).U(g.in_channels).U(g.out_channels).U(g.groups);
    push.List(g.input, 3, 1).List(g.output, 3, 1).List(kernel, 3, 1).List(step, 3, 1);
    push.List(pad, 3, 0);
    tail_.Add(push);
    LaunchBuilder b(facts_, in, out);
    b.Iterations(g.kernel_size() * (g.in_channels / g.groups + 3) + kFewRounds);
    b.DispatchElements("conv_direct", Constants({g.transposed}), Args(b), push, n, 64);
    return b.Finish("conv_direct");
  }

  std::vector<LaunchBuilder::Arg> Args(const LaunchBuilder& b) const {
    return {b.Read(x_), b.Read(w_), b.ReadOr(bias_, x_), b.ReadOr(tail_.residual, x_), b.Write()};
  }

  const Node& node_;
  Facts facts_;
  int x_, w_, bias_;
  Tail tail_;
};

std::unique_ptr<Kernel> MakeConv(const StepCall& call, const Facts& facts) {
  return std::make_unique<ConvKernel>(call, facts);
}

}  // namespace

KernelList ConvKernels(const Facts& facts) {
  return {Def(facts, "Conv", "", "conv", RefuseConv, MakeConv),
          Def(facts, "ConvTranspose", "", "conv", RefuseConv, MakeConv)};
}

}  // namespace infer::vulkan
