/// DeformConv of two dimensions and f32 as a product, channels last: a sample is then a sum of up
/// to four rows of channels. A band of points is sampled at a time, so that the product finds it in
/// L2. Where few channels share an offset: kernel_deform_planes.cc. Both: 0.55 of ONNX Runtime's
/// time over 18 layers, one thread (tools/infer_bench/layer_map.py --family sampling;
/// docs/performance.md).
#include <algorithm>
#include <array>
#include <numeric>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/conv/deformed.h"
#include "runtime/cpu/kernels/matmul/panel_gemm.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// Fewer of an offset group are read faster plane by plane.
constexpr int64_t kFewestChannels = 24;
/// Of the samples of a band.
constexpr int64_t kBandBytes = 768 << 10;
/// Points of a band, in multiples of the rows that a product takes at once.
constexpr int64_t kFewestRuns = 4, kMostRuns = 16;

/// The samples of all channels.
class ChannelSamples {
 public:
  explicit ChannelSamples(const Deformed& d)
      : d_(d),
        chunk_(std::gcd(d.group_channels(), d.offset_channels())),
        zeros_(static_cast<size_t>(chunk_)) {}

  const Deformed& of() const { return d_; }

  /// Of `block`, whose first point is row `row` of to [rows][position][channel of the group]; the
  /// groups lie `group_stride` apart.
  void Take(DeformedBlock& block, const float* x, const float* offset, const float* mask,
            int64_t row, float* to, int64_t group_stride) const {
    const simd::Samples& loops = simd::TheSamples();
    const int64_t in_group = d_.group_channels(), in_offset = d_.offset_channels();
    const float* const image = x + block.image() * d_.height * d_.width * d_.channels;
    for (int64_t k = 0; k < d_.offset_groups; ++k)
      for (int64_t p = 0; p < d_.positions; ++p) {
        block.Find(offset, mask, k, p);
        for (int64_t c = k * in_offset; c < (k + 1) * in_offset; c += chunk_)
          loops.read_channels(
              image + c, d_.channels, block.at(), block.weight(), block.factor(), block.count(),
              chunk_, zeros_.data(),
              to + c / in_group * group_stride + row * d_.depth() + p * in_group + c % in_group,
              d_.depth());
      }
  }

  /// Points [first, end) to the rows of `to` from 0 on, by several lanes.
  void TakeBand(const float* x, const float* offset, const float* mask, int64_t first, int64_t end,
                float* to, int64_t group_stride) const {
    ForRange(BlocksOf(end - first, simd::kSampleBlock), 1, [&](int64_t u, int64_t v) {
      const int64_t last = std::min(end, first + v * simd::kSampleBlock);
      for (int64_t at = first + u * simd::kSampleBlock; at < last;) {
        const int64_t image = at / d_.outputs, o = at % d_.outputs;
        const int64_t count = std::min({simd::kSampleBlock, last - at, d_.outputs - o});
        DeformedBlock block(d_, image, o, count);
        Take(block, x, offset, mask, at - first, to, group_stride);
        at += count;
      }
    });
  }

 private:
  Deformed d_;
  int64_t chunk_;  // channels that share a group and an offset
  std::vector<float> zeros_;
};

class DeformConvKernel final : public Kernel {
 public:
  explicit DeformConvKernel(const StepCall& call)
      : node_(call.main()), weights_(*call.constant(node_.input(1))) {
    for (size_t i = 0; i < 5; ++i) at_[i] = node_.input(i) ? call.operand(node_.input(i)) : -1;
    if (node_.input(3)) bias_ = *call.constant(node_.input(3));
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Dims& x = in[static_cast<size_t>(at_[0])].dims;
    INFER_ASSIGN(const Deformed d, Deformed::Of(node_, x, weights_.dims(), out[0].dims));
    if (d.offset_channels() < kFewestChannels) return Unsupported("few channels share an offset");
    const PanelGemm gemm{simd::ThePanels(), {}, BandRows(d), d.depth(), d.results / d.groups};
    const auto weights = packed_.Get([&] { return PackGroups(d.groups, gemm); });
    Prepared p;
    p.name = Cat("own:deform:", gemm.panels->isa);
    p.unused.assign(in.size(), false);
    p.unused[static_cast<size_t>(at_[1])] = true;
    if (at_[3] >= 0) p.unused[static_cast<size_t>(at_[3])] = true;
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(at_[0])] = onednn::ChannelsLast(DType::kF32, x);
    p.out_layouts = {onednn::ChannelsLast(DType::kF32, out[0].dims)};
    p.weight_bytes = static_cast<int64_t>(weights->size());
    p.scratch_bytes = Bind(in.size(), d, gemm, weights, p);
    return p;
  }

 private:
  static int64_t BandRows(const Deformed& d) {
    const int64_t run = simd::ThePanels()->wide_rows;
    const int64_t runs = kBandBytes / (d.depth() * d.groups * 4 * run);
    return std::min(d.points(), run * std::clamp(runs, kFewestRuns, kMostRuns));
  }

  /// Of all groups, one behind the other.
  std::shared_ptr<const Buffer> PackGroups(int64_t groups, const PanelGemm& gemm) const {
    const Tensor inner = ChannelsInnermost(weights_);
    const float* const from = inner.data<float>().data();
    if (groups == 1) return gemm.Pack(from, 1, gemm.depth);
    std::shared_ptr<Buffer> all;
    for (int64_t k = 0; k < groups; ++k) {
      const auto one = gemm.Pack(from + k * gemm.columns * gemm.depth, 1, gemm.depth);
      if (!all) all = Buffer::Allocate(one->size() * static_cast<size_t>(groups));
      std::copy_n(one->data(), one->size(),
                  all->mutable_data() + static_cast<size_t>(k) * one->size());
    }
    return all;
  }

  /// Sets the launch of `p`; bytes of scratch: samples, results of a group, the product's own.
  int64_t Bind(size_t operands, const Deformed& d, const PanelGemm& gemm,
               const std::shared_ptr<const Buffer>& weights, Prepared& p) const {
    const int64_t groups = d.groups, points = d.points(), band = gemm.rows;
    const int64_t group_stride = band * gemm.depth;
    const int64_t results = groups == 1 ? 0 : band * gemm.columns;
    PanelGemm last = gemm;
    last.rows = points % band;
    const int64_t own = std::max(gemm.scratch_bytes(), last.rows ? last.scratch_bytes() : 0);
    p.launch = LaunchOf([=, at = at_, bias = bias_,
                         taken = ChannelSamples(d)](std::byte* const* args) {
      const auto operand = [&](size_t i) {
        return at[i] < 0 ? nullptr : As<float>(static_cast<const std::byte*>(args[at[i]]));
      };
      const float* const b = bias.defined() ? bias.data<float>().data() : nullptr;
      float *const y = As<float>(args[operands]), *const samples = As<float>(args[operands + 1]);
      float *const group_y = samples + group_stride * groups, *const rest = group_y + results;
      for (int64_t first = 0; first < points; first += band) {
        PanelGemm product = gemm;
        product.rows = std::min(band, points - first);
        taken.TakeBand(operand(0), operand(2), operand(4), first, first + product.rows, samples,
                       group_stride);
        for (int64_t k = 0; k < groups; ++k) {
          const size_t size = weights->size() / static_cast<size_t>(groups);
          const auto* const w = As<float>(weights->data() + static_cast<size_t>(k) * size);
          float* const to = groups == 1 ? y + first * gemm.columns : group_y;
          product.Run(samples + k * group_stride, w, b ? b + k * gemm.columns : nullptr, to, rest);
          if (groups == 1) continue;
          for (int64_t r = 0; r < product.rows; ++r)
            std::copy_n(to + r * gemm.columns, gemm.columns,
                        y + ((first + r) * groups + k) * gemm.columns);
        }
      }
    });
    return (group_stride * groups + results) * 4 + own;
  }

  const Node& node_;
  std::array<int, 5> at_;  // operands, -1: none
  Tensor weights_, bias_;
  PackedOnce packed_;
};

std::string RefuseDeformConv(const StepCall& call) {
  if (std::string r = RefuseDeformed(call); !r.empty()) return r;
  const Node& n = call.main();
  if (!simd::ThePanels()) return "no kernel for this instruction set";
  const Tensor* weights = call.constant(n.input(1));
  if (!weights || (n.input(3) && !call.constant(n.input(3))))
    return "weights or bias are not constant";
  return weights->rank() == 4 ? "" : "not of two dimensions";
}

std::unique_ptr<Kernel> MakeDeformConv(const StepCall& call) {
  return std::make_unique<DeformConvKernel>(call);
}

}  // namespace

KernelList DeformConvKernels() {
  return {{"DeformConv", "", "rows", RefuseDeformConv, MakeDeformConv}};
}

}  // namespace infer
