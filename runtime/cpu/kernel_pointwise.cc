/// Conv 1x1 as a product of its points by its weights, channels last, where ours gains over
/// oneDNN's: few points and weights that come from far (PanelGemm fetches them ahead), or products
/// large enough for Strassen's. resnet50, whole network: see docs/adr/0007.
#include <algorithm>
#include <type_traits>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/launch.h"
#include "runtime/cpu/packed.h"
#include "runtime/cpu/panel_gemm.h"
#include "runtime/cpu/spatial.h"
#include "runtime/cpu/strassen_gemm.h"

namespace infer {
namespace {

/// Weights of fewer bytes stay in L2, where oneDNN's product is as fast.
constexpr int64_t kFarWeights = 1 << 20;
constexpr int64_t kFewPoints = 64;

/// The points that a convolution of stride > 1 reads, one after the other.
struct Points {
  int64_t images, height, width;  ///< of the result
  int64_t in_height, in_width;    ///< of the operand
  int64_t stride_y, stride_x, channels;

  int64_t rows() const { return images * height * width; }
  bool dense() const { return stride_y == 1 && stride_x == 1; }
  void Gather(const float* x, float* to) const {
    ParallelFor(images * height, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t line = i / height * in_height + i % height * stride_y;
        for (int64_t j = 0; j < width; ++j)
          std::copy_n(x + (line * in_width + j * stride_x) * channels, channels,
                      to + (i * width + j) * channels);
      }
    });
  }
};

class PointwiseKernel final : public Kernel {
 public:
  explicit PointwiseKernel(const StepCall& call)
      : node_(call.main()),
        x_(call.operand(node_.input(0))),
        w_(call.operand(node_.input(1))),
        b_(call.operand(node_.input(2))),
        weights_(*call.constant(node_.input(1))),
        appended_(*Appended::Of(call, *DecodeEpilogue(call, false))),
        level_(call.options.level),
        threads_(call.options.threads > 0 ? call.options.threads : LaneBudget()) {
    if (b_ >= 0) bias_ = *call.constant(node_.input(2));
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    if (x_ == w_ || x_ == b_) return Unsupported("operand and weights are one value");
    const Operand& x = in[static_cast<size_t>(x_)];
    if (x.layout != onednn::ChannelsLast(DType::kF32, x.dims))
      return Unsupported("the operand does not lie channels last");
    if (appended_.residual >= 0 && in[static_cast<size_t>(appended_.residual)].dims != out[0].dims)
      return Unsupported("the residual is broadcast");
    INFER_ASSIGN(const Spatial s, SpatialOf(node_, {1, 1}, x.dims, out[0].dims, false));
    for (const Dims& pads : {s.pads_begin, s.pads_end})
      if (pads != Dims{0, 0}) return Unsupported("padding");
    const Points points{x.dims[0], out[0].dims[2], out[0].dims[3], x.dims[2],
                        x.dims[3], s.strides[0],   s.strides[1],   x.dims[1]};
    const int64_t outputs = out[0].dims[1];
    const StrassenGemm seven{simd::ThePanels(), appended_, points.rows(),
                             points.channels,   outputs,   threads_};
    if (level_ >= 2 && seven.Pays()) return Bind(in, x.dims, out[0].dims, points, seven);
    if (points.rows() > kFewPoints || points.channels * outputs * 4 < kFarWeights)
      return Unsupported("the weights are small or meet many points");
    const PanelGemm eight{simd::ThePanels(), appended_, points.rows(), points.channels, outputs};
    if (!eight.Pays()) return Unsupported("few points");
    return Bind(in, x.dims, out[0].dims, points, eight);
  }

 private:
  template <typename Gemm>
  Result<Prepared> Bind(std::span<const Operand> in, const Dims& x, const Dims& y,
                        const Points& points, const Gemm& gemm) const {
    const auto weights = packed_[std::is_same_v<Gemm, StrassenGemm>].Get(
        [&] { return gemm.Pack(weights_.data<float>().data(), 1, points.channels); });
    Prepared p;
    p.name = Cat(Gemm::kName, gemm.panels->isa);
    p.unused.assign(in.size(), false);
    p.unused[static_cast<size_t>(w_)] = true;
    if (b_ >= 0) p.unused[static_cast<size_t>(b_)] = true;
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x_)] = onednn::ChannelsLast(DType::kF32, x);
    p.out_layouts = {onednn::ChannelsLast(DType::kF32, y)};
    p.accumulate = appended_.residual;
    if (p.accumulate >= 0) p.in_layouts[static_cast<size_t>(p.accumulate)] = p.out_layouts[0];
    p.weight_bytes = static_cast<int64_t>(weights->size());
    const int64_t gathered = points.dense() ? 0 : points.rows() * points.channels;
    p.scratch_bytes = gemm.scratch_bytes() + gathered * 4;
    const int at = x_;
    const size_t result = in.size();
    p.launch = LaunchOf([=, bias = bias_](std::byte* const* args) {
      const float* a = As<float>(static_cast<const std::byte*>(args[at]));
      float* const scratch = As<float>(args[result + 1]);
      if (gathered > 0) {
        points.Gather(a, scratch);
        a = scratch;
      }
      gemm.Run(a, As<float>(weights->data()), bias.defined() ? bias.data<float>().data() : nullptr,
               As<float>(args[result]), scratch + gathered);
    });
    return p;
  }

  const Node& node_;
  int x_, w_, b_;
  Tensor weights_, bias_;
  Appended appended_;
  int level_, threads_;
  PackedOnce packed_[2];  // for PanelGemm, StrassenGemm
};

std::string RefusePointwise(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const simd::Panels* panels = simd::ThePanels();
  if (!panels) return "no kernel for this instruction set";
  if (panels->lanes != 16) return "the neighbours lie in blocks of channels";
  const Node& n = call.main();
  const Tensor* weights = call.constant(n.input(1));
  if (!weights) return "the weights are not constant";
  if (weights->rank() != 4 || weights->dims()[2] != 1 || weights->dims()[3] != 1)
    return "the window is not 1x1";
  if (n.Attr<int64_t>("group") != 1) return "more than one group";
  if (n.input(2) && !call.constant(n.input(2))) return "the bias is not constant";
  const auto epilogue = DecodeEpilogue(call, false);
  if (!epilogue.ok()) return epilogue.status().message();
  const auto appended = Appended::Of(call, *epilogue);
  if (!appended.ok()) return appended.status().message();
  return appended->residual_last ? "the residual follows the activation" : "";
}

std::unique_ptr<Kernel> MakePointwise(const StepCall& call) {
  return std::make_unique<PointwiseKernel>(call);
}

}  // namespace

KernelList PointwiseKernels() {
  return {{"Conv", "", "pointwise", RefusePointwise, MakePointwise}};
}

}  // namespace infer
