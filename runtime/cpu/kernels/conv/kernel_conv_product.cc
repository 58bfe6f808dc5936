/// Conv as a product of what its points read by its weights, channels last, where ours gains over
/// oneDNN's: few points and weights that come from far (PanelGemm fetches them ahead), or products
/// large enough for Strassen's, and where a gate precedes, which costs nothing then. The windows of
/// other than 1x1 are gathered first. Figures: docs/adr/0007-own-kernels-where-they-win.md.
#include <algorithm>
#include <type_traits>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/kernels/conv/conv_spec.h"
#include "runtime/cpu/kernels/matmul/panel_gemm.h"
#include "runtime/cpu/kernels/matmul/strassen_gemm.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/plan_ir/groups/gate.h"

namespace infer {
namespace {

/// Weights of fewer bytes stay in L2, where oneDNN's product is as fast.
constexpr int64_t kFarWeights = 512 << 10;
constexpr int64_t kFewProductPoints = 64;
/// So few that what oneDNN does around its product takes longer than the product.
constexpr int64_t kHardlyAnyPoints = 4;

/// What the points of a convolution read, channels last.
struct Windows {
  Dims x, y;  ///< [N, C, height, width]
  Spatial at;

  int64_t points() const { return y[0] * y[2] * y[3]; }
  int64_t depth() const { return x[1] * at.kernel[0] * at.kernel[1]; }
  bool AreX() const { return points() * depth() == NumElements(x) && x[2] == y[2]; }
  /// [point][row of the window][column][channel], zeros outside x.
  void Gather(const float* from, float* to) const {
    const int64_t channels = x[1], taps = at.kernel[0] * at.kernel[1];
    ParallelFor(points(), 8, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t image = p / (y[2] * y[3]), top = p / y[3] % y[2] * at.strides[0];
        const int64_t left = p % y[3] * at.strides[1];
        float* tap = to + p * taps * channels;
        for (int64_t i = 0; i < at.kernel[0]; ++i)
          for (int64_t j = 0; j < at.kernel[1]; ++j, tap += channels) {
            const int64_t row = top + i * at.dilations[0] - at.pads_begin[0];
            const int64_t column = left + j * at.dilations[1] - at.pads_begin[1];
            if (row < 0 || row >= x[2] || column < 0 || column >= x[3])
              std::fill_n(tap, channels, 0.0f);
            else
              std::copy_n(from + ((image * x[2] + row) * x[3] + column) * channels, channels, tap);
          }
      }
    });
  }
};

class ConvProductKernel final : public Kernel {
 public:
  explicit ConvProductKernel(const StepCall& call)
      : node_(call.main()),
        gate_(GateOf(call)),
        x_(gate_ ? gate_->x : call.operand(node_.input(0))),
        w_(call.operand(node_.input(1))),
        b_(call.operand(node_.input(2))),
        weights_(call.source(node_.input(1))),
        appended_(*Appended::Of(call, *DecodeEpilogue(call, false, true))),
        strassen_(call.options.level >= 2),
        low_memory_(call.options.low_memory),
        threads_(call.options.threads > 0 ? call.options.threads : LaneBudget()) {
    if (b_ >= 0) bias_ = *call.constant(node_.input(2));
  }

  bool packs(int operand) const override { return operand == w_; }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    INFER_TRY(CheckConvOperands(in, out[0], {x_, w_, b_, appended_.residual}));
    const Operand& x = in[static_cast<size_t>(x_)];
    if (!gate_ && x.layout != onednn::ChannelsLast(DType::kF32, x.dims))
      return Unsupported("the operand does not lie channels last");
    const Dims window = {weights_->dims()[2], weights_->dims()[3]};
    INFER_ASSIGN(const Spatial s, SpatialOf(node_, window, x.dims, out[0].dims, false));
    const Windows windows{x.dims, out[0].dims, s};
    const int64_t points = windows.points(), depth = windows.depth(), outputs = out[0].dims[1];
    const PanelGemm eight{simd::ThePanels(), appended_, points, depth, outputs};
    if (gate_) return Bind(in, windows, eight);
    const bool kept = MayKeepSums(x, points, low_memory_);
    const StrassenGemm seven{simd::ThePanels(), appended_, points, depth, outputs, threads_, kept};
    // Gathering windows of many points costs what seven products gain.
    if (strassen_ && window == Dims{1, 1} && seven.Pays()) return Bind(in, windows, seven);
    const bool far =
        points <= kFewProductPoints && depth * outputs * 4 >= kFarWeights && eight.Pays();
    if (!far && (points > kHardlyAnyPoints || window != Dims{1, 1}))
      return Unsupported("the weights are small or meet many points");
    return Bind(in, windows, eight);
  }

 private:
  template <typename Gemm>
  Result<Prepared> Bind(std::span<const Operand> in, const Windows& windows,
                        const Gemm& gemm) const {
    INFER_ASSIGN(const auto weights, Packed(gemm));
    Prepared p;
    p.name = gemm.name();
    p.unused.assign(in.size(), false);
    p.unused[static_cast<size_t>(w_)] = true;
    if (b_ >= 0) p.unused[static_cast<size_t>(b_)] = true;
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x_)] = onednn::ChannelsLast(DType::kF32, windows.x);
    p.out_layouts = {onednn::ChannelsLast(DType::kF32, windows.y)};
    p.accumulate = appended_.residual;
    if (p.accumulate >= 0) p.in_layouts[static_cast<size_t>(p.accumulate)] = p.out_layouts[0];
    PanelGemm::Gates gates{nullptr, windows.y[2] * windows.y[3], 0};
    const int by = gate_ ? gate_->by : -1;
    if (gate_) {
      const Operand& g = in[static_cast<size_t>(by)];
      gates.stride = g.dims[0] == 1 ? 0 : g.dims[1];
      // One pixel: either layout is the same in memory.
      if (const auto last = onednn::ChannelsLast(DType::kF32, g.dims); g.layout == last)
        p.in_layouts[static_cast<size_t>(by)] = last;
    }
    p.weight_bytes = static_cast<int64_t>(weights->size());
    const int64_t gathered = windows.AreX() ? 0 : gemm.rows * gemm.depth;
    p.scratch_bytes = gemm.scratch_bytes() + gathered * 4;
    const int at = x_;
    const size_t result = in.size();
    p.launch = LaunchOf([=, bias = bias_](std::byte* const* args) {
      const float* a = As<float>(static_cast<const std::byte*>(args[at]));
      float* const scratch = As<float>(args[result + 1]);
      if (gathered > 0) {
        windows.Gather(a, scratch);
        a = scratch;
      }
      const float* const b = bias.defined() ? bias.data<float>().data() : nullptr;
      float *const y = As<float>(args[result]), *const rest = scratch + gathered;
      if constexpr (std::is_same_v<Gemm, PanelGemm>) {
        PanelGemm::Gates g = gates;
        if (by >= 0) g.by = As<float>(static_cast<const std::byte*>(args[by]));
        gemm.Run(a, g, As<float>(weights->data()), b, y, rest);
      } else {
        gemm.Run(a, As<float>(weights->data()), b, y, rest);
      }
    });
    return p;
  }

  /// Panels are one form, whoever multiplies by them.
  template <typename Gemm>
  Result<WeightSource::Form> Packed(const Gemm& gemm) const {
    const auto pack = [&](const Tensor& from) -> Result<WeightSource::Form> {
      return gemm.Pack(ChannelsInnermost(from).data<float>().data(), 1, gemm.depth);
    };
    if constexpr (std::is_same_v<Gemm, StrassenGemm>)
      if (gemm.kept) return weights_->Get("conv:strassen", pack);
    const auto unpack = [plain = PanelGemm{gemm.panels, {}, gemm.rows, gemm.depth, gemm.columns},
                         dims = weights_->dims()](const Buffer& form) {
      std::vector<float> innermost(static_cast<size_t>(NumElements(dims)));
      plain.Unpack(As<float>(form.data()), 1, plain.depth, innermost.data());
      return Result<Tensor>(ChannelsOutermost(innermost.data(), dims));
    };
    return weights_->Get("conv:panels", pack, unpack);
  }

  const Node& node_;
  std::optional<Gate> gate_;
  int x_, w_, b_;
  std::shared_ptr<WeightSource> weights_;
  Tensor bias_;
  Appended appended_;
  bool strassen_, low_memory_;
  int threads_;
};

std::string RefuseConvProduct(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const simd::Panels* panels = simd::ThePanels();
  if (!panels) return "no kernel for this instruction set";
  if (panels->lanes != 16) return "the neighbours lie in blocks of channels";
  const Node& n = call.main();
  const Tensor* weights = call.constant(n.input(1));
  if (!weights) return "the weights are not constant";
  if (weights->rank() != 4) return "not of two dimensions";
  if (n.Attr<int64_t>("group") != 1) return "more than one group";
  if (n.input(2) && !call.constant(n.input(2))) return "the bias is not constant";
  const auto epilogue = DecodeEpilogue(call, false, true);
  if (!epilogue.ok()) return epilogue.status().message();
  const auto appended = Appended::Of(call, *epilogue);
  if (!appended.ok()) return appended.status().message();
  if (GateOf(call) && (weights->dims()[2] != 1 || weights->dims()[3] != 1))
    return "a gate precedes windows";
  return appended->residual_last ? "the residual follows the activation" : "";
}

std::unique_ptr<Kernel> MakeConvProduct(const StepCall& call) {
  return std::make_unique<ConvProductKernel>(call);
}

}  // namespace

KernelList ConvProductKernels() {
  return {{"Conv", "", "product", RefuseConvProduct, MakeConvProduct}};
}

}  // namespace infer
