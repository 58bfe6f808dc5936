/// Conv 3x3 of stride 1 by Winograd's minimal filtering F(2x2, 3x3) in f32: 2.25 times fewer
/// multiplications than the direct sum. One dispatch transforms tiles of the image, sixteen
/// products over the channels are one more (conv.comp with a group for each point, or
/// winograd_subgroup.comp), and a third transforms back, with bias and what follows.
///
/// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
#include <algorithm>
#include <mutex>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/vulkan/kernels/conv_product.h"
#include "runtime/vulkan/kernels/kernels.h"

namespace infer::vulkan {
namespace {

/// Results of a tile along an axis, and its points.
constexpr int64_t kSide = 2, kPoints = 16;
/// Of a workgroup of winograd_subgroup.comp.
constexpr int64_t kRows = 32, kLanes = 8;
/// In bytes, of parts of scratch memory.
constexpr int64_t kAlignment = 256;
/// Of transformed tiles and products, the most that is kept at once, as far as a tile allows.
constexpr int64_t kTileBytes = int64_t{32} << 20;
constexpr int64_t kFewestTiles = 64;

int64_t Up(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string RefuseWinograd(const StepCall& call, const DeviceFacts& facts) {
  if (facts.winograd == WinogradUse::kOff) return "feature winograd is off";
  if (facts.winograd == WinogradUse::kUnmeasured)
    return "not measured on such a device (--tune measures it)";
  if (call.options.level < 2) return "it changes rounding (level 2)";
  if (call.options.low_memory) return "its weights are larger (low memory)";
  if (std::string r = RefuseUnlessAllF32(call); !r.empty()) return r;
  const Node& n = call.main();
  const Tensor* weights = call.constant(n.input(1));
  if (!weights) return "the weights are not constant";
  if (weights->rank() != 4 || weights->dims()[2] != 3 || weights->dims()[3] != 3)
    return "the window is not 3x3";
  if (n.Attr<int64_t>("group") != 1) return "more than one group";
  const auto tail = TailOf(call, false);
  return tail.ok() ? "" : tail.status().message();
}

/// U = G g G^T of every window g of `weights` [outputs, inputs, 3, 3], computed in double:
/// [point][output][input].
std::vector<float> TransformedWeights(const Tensor& weights) {
  constexpr double kG[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
  const int64_t windows = weights.dims()[0] * weights.dims()[1];
  const auto from = weights.data<float>();
  std::vector<float> to(static_cast<size_t>(kPoints * windows));
  for (int64_t at = 0; at < windows; ++at) {
    const float* g = from.data() + at * 9;
    double rows[4][3] = {};
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 3; ++j)
        for (int k = 0; k < 3; ++k) rows[i][j] += kG[i][k] * double{g[k * 3 + j]};
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 4; ++j) {
        double sum = 0;
        for (int k = 0; k < 3; ++k) sum += rows[i][k] * kG[j][k];
        to[static_cast<size_t>((i * 4 + j) * windows + at)] = static_cast<float>(sum);
      }
  }
  return to;
}

class WinogradKernel final : public Kernel {
 public:
  WinogradKernel(const StepCall& call, Facts facts)
      : node_(call.main()),
        facts_(std::move(facts)),
        x_(call.operand(node_.input(0))),
        bias_(call.operand(node_.input(2))),
        tail_(*TailOf(call, false)),
        weights_(*call.constant(node_.input(1))) {}

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    if (tail_.residual >= 0 && in[static_cast<size_t>(tail_.residual)].dims != out[0].dims)
      return Unsupported("the residual broadcasts");
    INFER_ASSIGN(const ConvGeometry g,
                 ReadConvGeometry(node_.def(), node_.attrs(), in[static_cast<size_t>(x_)].dims,
                                  weights_.dims(), false));
    const WindowAxis &h = g.window.axes[0], &w = g.window.axes[1];
    if (h.stride != 1 || w.stride != 1) return Unsupported("the stride is not 1");
    if (h.dilation != 1 || w.dilation != 1) return Unsupported("dilation");
    const int64_t tiles = g.batch * Up(g.output[0], kSide) * Up(g.output[1], kSide);
    INFER_TRY(CheckGain(g, tiles));
    return OfTiles(g, tiles, in, out);
  }

 private:
  /// Where it was measured faster on a driver for a processor (docs/vulkan.md): transforms take a
  /// time by themselves, which few channels do not gain, and few tiles leave workgroups of the
  /// product in part empty.
  Status CheckGain(const ConvGeometry& g, int64_t tiles) const {
    constexpr int64_t kFew = 32, kFewestOfSubgroups = 9;
    constexpr int64_t kFewestChannels = 32, kFewestWithFewTiles = 64;
    if (facts_->winograd == WinogradUse::kAlways) return {};
    if (tiles < (facts_->subgroup ? kFewestOfSubgroups : kFew))
      return Unsupported("too few pixels");
    if (std::min(g.in_channels, g.out_channels) <
        (tiles < kFew ? kFewestWithFewTiles : kFewestChannels))
      return Unsupported("too few channels");
    return {};
  }

  /// How the sixteen products are cut: tiles of conv.comp, or of winograd_subgroup.comp.
  struct Cut {
    ConvTiles tiles;
    int64_t vectors = 0;  ///< columns in eights of a workgroup of the latter
    int64_t parts() const { return tiles.tiling.parts; }
  };
  Cut CutOf(const ConvGeometry& g, int64_t tiles) const {
    Cut cut{.tiles = TilesOf(*facts_, ProductOf(g, tiles), true)};
    if (cut.tiles.subgroup) cut.vectors = tiles <= 16 ? 2 : tiles <= 32 ? 4 : 8;
    return cut;
  }
  static int64_t SumBytes(const ConvGeometry& g, int64_t tiles, const Cut& cut) {
    return cut.parts() * kPoints * g.out_channels * tiles * 4;
  }

  Result<Prepared> OfTiles(const ConvGeometry& g, int64_t tiles, std::span<const Operand> in,
                           std::span<const Operand> out) const {
    const int64_t tile_bytes = kPoints * 4 * (g.in_channels + g.out_channels);
    const int64_t most = std::max(kFewestTiles, kTileBytes / tile_bytes);
    const int64_t batch = Up(tiles, Up(tiles, most));
    // Scratch memory holds the transformed tiles of a batch, then sums. Of the last batch, which
    // may be smaller, a product may have more parts.
    const int64_t sums_at = Up(kPoints * g.in_channels * batch * 4, kAlignment) * kAlignment;
    int64_t sums = 0;
    for (const int64_t count : {batch, tiles - (Up(tiles, batch) - 1) * batch})
      sums = std::max(sums, SumBytes(g, count, CutOf(g, count)));
    LaunchBuilder b(facts_, in, out);
    const LaunchBuilder::Arg scratch = b.Scratch(sums_at + sums);
    INFER_ASSIGN(const auto weights, Weights());
    const LaunchBuilder::Arg u = b.Kept(weights);
    for (int64_t first = 0; first < tiles; first += batch) {
      const int64_t count = std::min(batch, tiles - first);
      const Cut cut = CutOf(g, count);
      const Batch of{first, count};
      LaunchBuilder::Arg v = b.Part(scratch, 0, kPoints * g.in_channels * count * 4);
      LaunchBuilder::Arg m = b.Part(scratch, sums_at, SumBytes(g, count, cut));
      AddInput(g, of, v, b);
      v.written = false;
      AddProducts(g, count, cut, {v, u, m}, b);
      m.written = false;
      AddOutput(g, of, cut.parts(), m, b);
    }
    const Cut usual = CutOf(g, batch);
    INFER_ASSIGN(Prepared p,
                 b.Finish(Cat(usual.tiles.Name("winograd"), usual.parts() > 1 ? "_split" : "")));
    p.weight_bytes = weights->bytes();
    return p;
  }

  /// Tiles of all [samples][down][across].
  struct Batch {
    int64_t first, count;
  };
  static void AddTiles(const ConvGeometry& g, const Batch& of, Push& push) {
    push.U(of.first).U(of.count).U(Up(g.output[0], kSide)).U(Up(g.output[1], kSide));
  }

  void AddInput(const ConvGeometry& g, const Batch& of, const LaunchBuilder::Arg& v,
                LaunchBuilder& b) const {
    const int64_t n = g.in_channels * of.count;
    Push push;
    push.U(n);
    AddTiles(g, of, push);
    push.U(g.in_channels).U(g.input[0]).U(g.input[1]);
    push.U(g.window.axes[0].pad_begin).U(g.window.axes[1].pad_begin);
    b.DispatchElements("winograd_input", {}, {b.Read(x_), v}, push, n, 64);
  }

  struct ProductArgs {
    LaunchBuilder::Arg v, u, m;
  };
  void AddProducts(const ConvGeometry& g, int64_t tiles, const Cut& cut, const ProductArgs& args,
                   LaunchBuilder& b) const {
    const ConvProduct p = ProductOf(g, tiles);
    if (cut.vectors == 0) {
      AddConvProduct(p, cut.tiles, Tail(), false, {args.v, args.u, args.v, args.v, args.m}, b);
      return;
    }
    const int64_t tiles_m = Up(p.m, kRows), tiles_n = Up(tiles, cut.vectors * kLanes);
    Push push;
    push.U(p.m).U(p.k).U(tiles).U(tiles_m).U(tiles_n);
    b.Iterations(SubgroupRounds(p.k, 1));
    b.Dispatch(Cat("winograd", cut.vectors), {p.k > kLongSum}, {args.v, args.u, args.m}, push,
               kPoints * tiles_m * tiles_n);
  }

  void AddOutput(const ConvGeometry& g, const Batch& of, int64_t parts, const LaunchBuilder::Arg& m,
                 LaunchBuilder& b) const {
    const int64_t n = g.out_channels * of.count;
    Push push;
    push.U(n).U(parts);
    AddTiles(g, of, push);
    push.U(g.out_channels).U(g.output[0]).U(g.output[1]);
    tail_.Add(push);
    std::vector<int32_t> constants = tail_.Constants();
    constants.push_back(bias_ >= 0);
    b.Iterations(kPoints * parts + kFewRounds);
    b.DispatchElements("winograd_output", std::move(constants),
                       {m, b.ReadOr(bias_, x_), b.ReadOr(tail_.residual, x_), b.Write()}, push, n,
                       64);
  }

  /// Over `tiles` tiles: a group for each point, whose image is one row of tiles.
  static ConvProduct ProductOf(const ConvGeometry& g, int64_t tiles) {
    return {.m = g.out_channels,
            .k = g.in_channels,
            .groups = kPoints,
            .in_w = tiles,
            .out_w = tiles,
            .in_channels = kPoints * g.in_channels,
            .out_channels = kPoints * g.out_channels};
  }

  /// On the device, made once.
  Result<std::shared_ptr<Memory>> Weights() const {
    const int64_t bytes = kPoints * weights_.dims()[0] * weights_.dims()[1] * 4;
    if (bytes > facts_->max_buffer_bytes)
      return Unsupported(Cat("its weights take ", HumanBytes(bytes),
                             ", a buffer of this device holds ",
                             HumanBytes(facts_->max_buffer_bytes)));
    const std::lock_guard lock(mutex_);
    if (transformed_) return transformed_;
    const std::vector<float> u = TransformedWeights(weights_);
    INFER_ASSIGN(transformed_, OnDevice(facts_->parts, u.data(), u.size() * sizeof(float)));
    return transformed_;
  }

  const Node& node_;
  Facts facts_;
  int x_, bias_;
  Tail tail_;
  Tensor weights_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<Memory> transformed_;
};

std::unique_ptr<Kernel> MakeWinograd(const StepCall& call, const Facts& facts) {
  return std::make_unique<WinogradKernel>(call, facts);
}

}  // namespace

KernelList WinogradKernels(const Facts& facts) {
  return {Def(facts, "Conv", "", "winograd", RefuseWinograd, MakeWinograd)};
}

}  // namespace infer::vulkan
