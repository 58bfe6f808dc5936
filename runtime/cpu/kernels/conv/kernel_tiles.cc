/// Conv and ConvTranspose on channels last in tiles of points by results (tile_conv.h): where
/// oneDNN gathers windows for its matrix product. Below AVX-512 that is where more than three
/// points of padding precede a row, in windows that reach over an image, and in groups that are not
/// whole vectors (docs/adr/0053-convolutions-that-onednn-gathers.md).
#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/conv/conv_spec.h"
#include "runtime/cpu/kernels/conv/tile_conv.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// Fewer results of a group leave most of a vector empty.
constexpr int64_t kLeastResults = 4, kLeastOfGroups = 2;
/// Sums of fewer terms take less than bringing them to plain results.
constexpr int64_t kLeastTerms = 20;

/// Where what oneDNN gathers is as fast: its product needs no gathering, or hardly multiplies.
std::string RefuseSmall(const Spatial& s, const Dims& src, const Dims& dst, int64_t groups) {
  if (dst[1] / groups < (groups > 1 ? kLeastOfGroups : kLeastResults))
    return "few results of a group";
  const int64_t taps = NumElements(s.kernel);
  if (taps * (src[1] / groups) < kLeastTerms) return "few terms";
  const bool moves =
      std::any_of(s.strides.begin(), s.strides.end(), [](int64_t v) { return v > 1; });
  return taps == 1 && !moves && NumElements(src) / src[1] == NumElements(dst) / dst[1]
             ? "a window of one point"
             : "";
}

std::string RefuseTiles(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const Node& n = call.main();
  const Tensor* w = call.constant(n.input(1));
  if (!w) return "the weights are not constant";
  if (w->rank() < 3 || w->rank() > 5) return "only 1 to 3 spatial dimensions";
  if (n.input(2) && !call.constant(n.input(2))) return "the bias is not constant";
  const auto epilogue = DecodeEpilogue(call, false);
  if (!epilogue.ok()) return epilogue.status().message();
  const auto appended = Appended::Of(call, *epilogue);
  return appended.ok() ? "" : appended.status().message();
}

class TilesKernel final : public Kernel {
 public:
  explicit TilesKernel(const StepCall& call)
      : node_(call.main()),
        x_(call.operand(node_.input(0))),
        w_(call.operand(node_.input(1))),
        b_(call.operand(node_.input(2))),
        epilogue_(*DecodeEpilogue(call, false)),
        appended_(*Appended::Of(call, epilogue_)),
        weights_(call.source(node_.input(1))) {
    if (b_ >= 0) bias_ = *call.constant(node_.input(2));
  }

  bool packs(int operand) const override { return operand == w_; }
  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    INFER_TRY(CheckConvOperands(in, out[0], {x_, w_, b_, appended_.residual}));
    const Dims& src = in[static_cast<size_t>(x_)].dims;
    const Dims& dst = out[0].dims;
    const Dims& w = weights_->dims();
    const bool transposed = IsTransposedConvolution(node_);
    INFER_ASSIGN(const Spatial s,
                 SpatialOf(node_, Dims(w.begin() + 2, w.end()), src, dst, transposed));
    if (std::string r = RefuseSmall(s, src, dst, node_.Attr<int64_t>("group")); !r.empty())
      return Unsupported(std::move(r));
    INFER_ASSIGN(AskedConv asked, AskedConv::Of(node_, src, dst, w, true));
    if (asked.is_column) asked.SwapSpatialAxes();
    if (!HasNoDirectConv(asked, epilogue_)) return Unsupported("oneDNN has a kernel");
    return Bind(in, src, dst, s);
  }

 private:
  /// As the operand lies, and the result alike: neighbours that like blocks find blocks.
  ConvForm FormOf(const Operand& x, const Dims& dst) const {
    if (x.layout.plain()) return ConvForm::kPlain;
    const int lanes = simd::TheTiles().lanes;
    const int64_t groups = node_.Attr<int64_t>("group");
    // Four channels are no block of oneDNN's.
    if (lanes < 8 || x.layout != onednn::ChannelBlocked(x.dims, lanes)) return ConvForm::kLast;
    return x.dims[1] % (groups * lanes) == 0 && dst[1] % (groups * lanes) == 0 ? ConvForm::kBlocks
                                                                               : ConvForm::kPlain;
  }
  static Layout LayoutOf(const Dims& dims, ConvForm form) {
    // One channel lies the same way in every layout.
    if (form == ConvForm::kPlain || dims[1] == 1) return Layout();
    return form == ConvForm::kLast ? onednn::ChannelsLast(DType::kF32, dims)
                                   : onednn::ChannelBlocked(dims, simd::TheTiles().lanes);
  }

  Result<Prepared> Bind(std::span<const Operand> in, const Dims& src, const Dims& dst,
                        const Spatial& s) const {
    const bool transposed = IsTransposedConvolution(node_);
    const ConvForm form = FormOf(in[static_cast<size_t>(x_)], dst);
    TileConv plan =
        TileConv::Of(s, transposed, node_.Attr<int64_t>("group"), src, dst, appended_, form);
    INFER_ASSIGN(const auto weights, PackedOf(*weights_, "tiles", node_, [&](const Tensor& w) {
                   return plan.Pack(w, transposed);
                 }));
    std::shared_ptr<const Buffer> bias;
    if (b_ >= 0) bias = packed_bias_.Get([&] { return plan.PackBias(bias_); });
    Prepared p;
    p.name = Cat("own:tiles:", plan.isa());
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x_)] = false;
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x_)] = LayoutOf(src, form);
    p.out_layouts = {LayoutOf(dst, form)};
    p.accumulate = appended_.residual;
    if (p.accumulate >= 0) {
      p.unused[static_cast<size_t>(p.accumulate)] = false;
      p.in_layouts[static_cast<size_t>(p.accumulate)] = p.out_layouts[0];
    }
    p.weight_bytes = static_cast<int64_t>(weights->size());
    p.scratch_bytes = plan.scratch_bytes();
    p.launch = LaunchOf(
        [plan = std::move(plan), weights, bias, at = x_, y = in.size()](std::byte* const* args) {
          plan.Run(As<float>(static_cast<const std::byte*>(args[at])), As<float>(weights->data()),
                   bias ? As<float>(bias->data()) : nullptr, As<float>(args[y]),
                   plan.scratch_bytes() > 0 ? As<float>(args[y + 1]) : nullptr);
        });
    return p;
  }

  const Node& node_;
  int x_, w_, b_;
  Epilogue epilogue_;
  Appended appended_;
  std::shared_ptr<WeightSource> weights_;
  Tensor bias_;
  PackedOnce packed_bias_;
};

std::unique_ptr<Kernel> MakeTiles(const StepCall& call) {
  return std::make_unique<TilesKernel>(call);
}

}  // namespace

KernelList TileKernels() {
  return {{"Conv", "", "tiles", RefuseTiles, MakeTiles},
          {"ConvTranspose", "", "tiles", RefuseTiles, MakeTiles}};
}

}  // namespace infer
