/// ConvTranspose as one product of all points of the operand by all taps, [points, C] by [C, taps *
/// M], and sums of its columns where the taps' results meet: no zeros of a padding are multiplied
/// and no tap that a phase lacks. Where sums are long and images small, or results few, which
/// convolutions of phases (subpixel) and tiles leave half empty;
/// docs/adr/0056-transposed-convolutions-as-one-product.md.
#include <algorithm>
#include <array>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/kernels/conv/conv_spec.h"
#include "runtime/cpu/kernels/matmul/panel_gemm.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// to[i] += from[i].
inline void AddRun(const float* from, int64_t n, float* to) {
  typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    *reinterpret_cast<Four*>(to + i) += *reinterpret_cast<const Four*>(from + i);
  for (; i < n; ++i) to[i] += from[i];
}

/// Results of one axis that operands and taps meet: operand i and tap k give to i * stride + k -
/// pad.
struct SumAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, pad = 0;

  /// Points of a convolution that computes each phase.
  int64_t phase_points() const { return (pad + out - 1) / stride - pad / stride + 1; }
};

/// Fewer columns are fewer multiplications than turning the operand is worth.
constexpr int64_t kLeastTapColumns = 64;
/// Up to so many results phases are short runs; with more, convolutions of phases must multiply so
/// many times as much.
constexpr int64_t kFewOfTaps = 64;
constexpr double kLeastWaste = 1.3;

/// [image][operand's point][tap][M] to [image][result's point][M], with what is appended.
struct SumsOfTaps {
  std::array<SumAxis, 3> axes;  ///< one point where there is no axis
  int64_t images = 1, results = 1;
  Appended appended;

  int64_t points() const { return images * axes[0].in * axes[1].in * axes[2].in; }
  int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }

  /// Whether one product is faster than convolutions of phases.
  bool Pays() const {
    double waste = 1;
    for (const SumAxis& a : axes)
      waste *= static_cast<double>(a.phase_points()) / static_cast<double>(a.in);
    return taps() * results >= kLeastTapColumns && (results <= kFewOfTaps || waste >= kLeastWaste);
  }

  void Run(const float* products, const float* bias, float* y) const {
    const SumAxis &a = axes[0], &b = axes[1], &c = axes[2];
    const int64_t rows = images * a.out * b.out;
    const int64_t work = points() * taps() * results / rows + 1;
    ForRange(rows, std::max<int64_t>(1, 16384 / work), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float* const to = y + r * c.out * results;
        Start(bias, to);
        const int64_t image = r / (a.out * b.out);
        ForOperands(a, r / b.out % a.out, [&](int64_t plane, int64_t plane_tap) {
          ForOperands(b, r % b.out, [&](int64_t row, int64_t row_tap) {
            const int64_t first = ((image * a.in + plane) * b.in + row) * c.in;
            const int64_t tap = (plane_tap * b.kernel + row_tap) * c.kernel;
            AddRow(products + (first * taps() + tap) * results, to);
          });
        });
        if (appended.function) appended.Apply(to, c.out * results);
      }
    });
  }

 private:
  /// f(operand, tap) for all that meet in result `at`, the taps in order.
  template <typename F>
  static void ForOperands(const SumAxis& axis, int64_t at, const F& f) {
    for (int64_t tap = (at + axis.pad) % axis.stride; tap < axis.kernel; tap += axis.stride) {
      const int64_t operand = (at + axis.pad - tap) / axis.stride;
      if (at + axis.pad >= tap && operand < axis.in) f(operand, tap);
    }
  }
  /// A row of results as it is before the sums: bias, residual, or zeros.
  void Start(const float* bias, float* to) const {
    const int64_t n = axes[2].out;
    const bool adds = appended.residual >= 0;
    if (!adds && !bias) std::fill_n(to, n * results, 0.0f);
    if (!bias) return;
    for (int64_t p = 0; p < n; ++p, to += results)
      adds ? AddRun(bias, results, to) : void(std::copy_n(bias, results, to));
  }
  /// A row of operands by the taps of one row, which are neighbours as their results are.
  void AddRow(const float* products, float* to) const {
    const SumAxis& c = axes[2];
    for (int64_t i = 0; i < c.in; ++i, products += taps() * results) {
      const int64_t left = i * c.stride - c.pad;
      const int64_t first = std::max<int64_t>(0, -left), end = std::min(c.kernel, c.out - left);
      if (first < end)
        AddRun(products + first * results, (end - first) * results, to + (left + first) * results);
    }
  }
};

/// Fewer channels are fewer multiplications than the sums that follow are worth.
constexpr int64_t kLeastChannels = 64;
/// Products that leave L2 cost what they save.
constexpr int64_t kMostTapProducts = int64_t{1} << 20;

std::string RefuseTransposedProduct(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  if (!simd::ThePanels()) return "no kernel for this instruction set";
  const Node& n = call.main();
  const Tensor* w = call.constant(n.input(1));
  if (!w) return "the weights are not constant";
  if (w->rank() < 4 || w->rank() > 5) return "only 2 and 3 spatial dimensions";
  if (n.Attr<int64_t>("group") != 1) return "more than one group";
  if (w->dim(0) < kLeastChannels) return "few channels";
  if (n.input(2) && !call.constant(n.input(2))) return "the bias is not constant";
  const auto epilogue = DecodeEpilogue(call, false);
  if (!epilogue.ok()) return epilogue.status().message();
  const auto appended = Appended::Of(call, *epilogue);
  if (!appended.ok()) return appended.status().message();
  return appended->residual_last ? "the residual follows the activation" : "";
}

class TransposedProductKernel final : public Kernel {
 public:
  explicit TransposedProductKernel(const StepCall& call)
      : node_(call.main()),
        x_(call.operand(node_.input(0))),
        w_(call.operand(node_.input(1))),
        b_(call.operand(node_.input(2))),
        appended_(*Appended::Of(call, *DecodeEpilogue(call, false))),
        weights_(*call.constant(node_.input(1))) {
    if (b_ >= 0) bias_ = *call.constant(node_.input(2));
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    INFER_TRY(CheckConvOperands(in, out[0], {x_, w_, b_, appended_.residual}));
    const Dims& src = in[static_cast<size_t>(x_)].dims;
    const Dims& dst = out[0].dims;
    INFER_ASSIGN(const SumsOfTaps sums, SumsFor(src, dst));
    const PanelGemm gemm{simd::ThePanels(), {}, sums.points(), src[1], sums.taps() * dst[1]};
    if (!gemm.Pays()) return Unsupported("few points");
    if (!sums.Pays()) return Unsupported("convolutions of phases are as fast");
    if (gemm.rows * gemm.columns > kMostTapProducts) return Unsupported("many products");
    return Bind(in, out[0], sums, gemm);
  }

 private:
  Result<SumsOfTaps> SumsFor(const Dims& src, const Dims& dst) const {
    const Dims& w = weights_.dims();
    INFER_ASSIGN(const Spatial s, SpatialOf(node_, Dims(w.begin() + 2, w.end()), src, dst, true));
    SumsOfTaps sums;
    for (size_t i = 0; i < s.kernel.size(); ++i) {
      if (s.dilations[i] != 1) return Unsupported("dilation");
      sums.axes[3 - s.kernel.size() + i] = {src[i + 2], dst[i + 2], s.kernel[i], s.strides[i],
                                            s.pads_begin[i]};
    }
    sums.images = src[0];
    sums.results = dst[1];
    sums.appended = appended_;
    return sums;
  }

  Prepared Bind(std::span<const Operand> in, const Operand& out, const SumsOfTaps& sums,
                const PanelGemm& gemm) const {
    const auto weights = packed_.Get([&] {
      // [C, M, k...] as [C, k..., M].
      const int64_t taps = sums.taps(), results = sums.results;
      std::vector<float> turned(static_cast<size_t>(weights_.num_elements()));
      const float* from = weights_.data<float>().data();
      for (int64_t c = 0; c < gemm.depth; ++c)
        for (int64_t m = 0; m < results; ++m)
          for (int64_t t = 0; t < taps; ++t)
            turned[static_cast<size_t>((c * taps + t) * results + m)] = *from++;
      return gemm.Pack(turned.data(), gemm.columns, 1);
    });
    Prepared p;
    p.name = Cat("own:taps:", gemm.panels->isa);
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x_)] = false;
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x_)] =
        onednn::ChannelsLast(DType::kF32, in[static_cast<size_t>(x_)].dims);
    // One channel lies the same way in every layout.
    p.out_layouts = {sums.results == 1 ? Layout() : onednn::ChannelsLast(DType::kF32, out.dims)};
    p.accumulate = appended_.residual;
    if (p.accumulate >= 0) {
      p.unused[static_cast<size_t>(p.accumulate)] = false;
      p.in_layouts[static_cast<size_t>(p.accumulate)] = p.out_layouts[0];
    }
    p.weight_bytes = static_cast<int64_t>(weights->size());
    const int64_t products = gemm.rows * gemm.columns;
    p.scratch_bytes = products * 4 + gemm.scratch_bytes();
    p.launch = LaunchOf([=, bias = bias_, at = x_, y = in.size()](std::byte* const* args) {
      float* const scratch = As<float>(args[y + 1]);
      gemm.Run(As<float>(static_cast<const std::byte*>(args[at])), As<float>(weights->data()),
               nullptr, scratch, scratch + products);
      sums.Run(scratch, bias.defined() ? bias.data<float>().data() : nullptr, As<float>(args[y]));
    });
    return p;
  }

  const Node& node_;
  int x_, w_, b_;
  Appended appended_;
  Tensor weights_, bias_;
  PackedOnce packed_;
};

std::unique_ptr<Kernel> MakeTransposedProduct(const StepCall& call) {
  return std::make_unique<TransposedProductKernel>(call);
}

}  // namespace

KernelList TransposedProductKernels() {
  return {{"ConvTranspose", "", "taps", RefuseTransposedProduct, MakeTransposedProduct}};
}

}  // namespace infer
