/// Conv and ConvTranspose of few results, Conv of 1x1 windows with a stride, and of one channel of
/// one dimension (wav2vec's first): where oneDNN's
/// blocks of 16 channels multiply padding, or what it does around its product takes longer than the
/// product. On plain operands by strips of points (plane_conv.h), on channels last by sums of
/// products along the channels.
#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/common/tap_spans.h"
#include "runtime/cpu/kernels/conv/conv_spec.h"
#include "runtime/cpu/kernels/conv/plane_conv.h"

namespace infer {
namespace {

/// On channels last the sums of lanes after each product take more than the padding from here on.
constexpr int64_t kFewResults = 4;
constexpr int64_t kFewPhases = 8;
/// Fewer channels fill no vector.
constexpr int64_t kLeastDepth = 16;
/// Points of a row from which on its copy costs less than turning channels to the inside.
constexpr int64_t kLeastOfRow = 100;

/// On channels last, a sum along channels for each result.
struct FewDots {
  const simd::Skinny* loop = nullptr;
  Appended appended;
  int64_t inputs = 1, outputs = 1, taps = 1;
  WindowWalk walk;

  int64_t padded() const { return loop->PaddedDepth(inputs); }

  /// [output][tap][channel, padded].
  std::shared_ptr<const Buffer> Pack(const Tensor& w, bool transposed) const {
    auto buffer = Buffer::Allocate(static_cast<size_t>(outputs * taps * padded()) * sizeof(float));
    float* to = As<float>(buffer->mutable_data());
    const float* const from = w.data<float>().data();
    const int64_t input = transposed ? outputs * taps : taps;
    const int64_t output = transposed ? taps : inputs * taps;
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t t = 0; t < taps; ++t, to += padded())
        loop->PackDots(from + o * output + t, input, inputs, to);
    return buffer;
  }

  void Run(const float* x, const float* w, const float* bias, float* y) const {
    walk.ForRuns(inputs * taps, [&](const WindowWalk::Run& r) {
      simd::DotsCall d;
      d.x = x + r.x_pixel * inputs;
      d.x_step = walk.x_step() * inputs;
      d.x_at = r.taps->x_at.data();
      d.w_at = r.taps->w_at.data();
      d.taps = std::ssize(r.taps->x_at);
      d.depth = inputs;
      d.w = w;
      d.w_out = taps * padded();
      d.outputs = outputs;
      d.y = y + r.y_pixel * outputs;
      d.y_step = walk.y_step() * outputs;
      d.points = r.pixels;
      d.start = bias;
      d.add = appended.residual >= 0;
      loop->dots(d);
      if (!appended.function) return;
      if (walk.y_step() == 1) return appended.Apply(d.y, d.points * outputs);
      ApplyApart(d.y, d.points, d.y_step);
    });
  }

 private:
  /// The activation over `points` results that lie `step` numbers apart: brought side by side,
  /// since a call for each costs more than the product.
  void ApplyApart(float* y, int64_t points, int64_t step) const {
    constexpr int64_t kTogether = 256;
    float together[kTogether];
    const int64_t at_once = std::max<int64_t>(1, kTogether / outputs);
    for (int64_t k = 0; k < points; k += at_once) {
      const int64_t n = std::min(at_once, points - k);
      for (int64_t i = 0; i < n; ++i)
        std::copy_n(y + (k + i) * step, outputs, together + i * outputs);
      appended.Apply(together, n * outputs);
      for (int64_t i = 0; i < n; ++i)
        std::copy_n(together + i * outputs, outputs, y + (k + i) * step);
    }
  }
};

std::string RefuseFew(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const Node& n = call.main();
  const bool transposed = IsTransposedConvolution(n);
  const Tensor* w = call.constant(n.input(1));
  if (!w) return "the weights are not constant";
  if (w->rank() < 3 || w->rank() > 5) return "only 1 to 3 spatial dimensions";
  const int64_t groups = n.Attr<int64_t>("group");
  if (n.input(2) && !call.constant(n.input(2))) return "the bias is not constant";
  const bool one_point = w->num_elements() == w->dims()[0] * w->dims()[1];
  const auto strides = n.attrs().contains("strides") ? n.Attr<std::vector<int64_t>>("strides")
                                                     : std::vector<int64_t>();
  const bool strided = std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s > 1; });
  const int64_t results = transposed ? w->dims()[1] : w->dims()[0] / groups;
  const bool one_line = groups == 1 && w->rank() == 3 && w->dims()[1] == 1;
  const bool in_rows = !transposed && ((one_point && strided) || one_line);
  if (results > PlaneConv::MostOutputs(groups) && !in_rows) return "many results";
  const auto epilogue = DecodeEpilogue(call, false);
  if (!epilogue.ok()) return epilogue.status().message();
  const auto appended = Appended::Of(call, *epilogue);
  if (!appended.ok()) return appended.status().message();
  return appended->residual_last ? "the residual follows the activation" : "";
}

class FewKernel final : public Kernel {
 public:
  explicit FewKernel(const StepCall& call)
      : node_(call.main()),
        transposed_(IsTransposedConvolution(node_)),
        x_(call.operand(node_.input(0))),
        w_(call.operand(node_.input(1))),
        b_(call.operand(node_.input(2))),
        appended_(*Appended::Of(call, *DecodeEpilogue(call, false))),
        weights_(call.source(node_.input(1))) {
    if (b_ >= 0) bias_ = *call.constant(node_.input(2));
  }

  bool packs(int operand) const override { return operand == w_; }
  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    INFER_TRY(CheckConvOperands(in, out[0], {x_, w_, b_, appended_.residual}));
    const Operand& x = in[static_cast<size_t>(x_)];
    const Dims& dst = out[0].dims;
    const Dims& w = weights_->dims();
    INFER_ASSIGN(const Spatial s,
                 SpatialOf(node_, Dims(w.begin() + 2, w.end()), x.dims, dst, transposed_));
    const auto groups = node_.Attr<int64_t>("group");
    if (x.layout.plain() && (groups == 1 || dst[1] > groups || OneIsFaster(s, x.dims, dst))) {
      auto plan = PlaneConv::Of(s, transposed_, groups, x.dims, dst, appended_);
      if (plan.ok()) return OnPlanes(*std::move(plan), in);
      if (groups > 1) return plan.status();
    }
    if (groups > 1) return Unsupported("more than one group");
    if (dst[1] > kFewResults) return Unsupported("many results");
    // Of a transposed convolution all phases are results of one product elsewhere.
    int64_t results = dst[1];
    if (transposed_)
      for (const int64_t stride : s.strides) results *= stride;
    if (results > kFewPhases) return Unsupported("many phases");
    if (x.dims[1] < kLeastDepth) return Unsupported("few channels");
    return OnChannelsLast(s, x.dims, dst, in);
  }

 private:
  /// One result of each group, which the own depthwise kernel and oneDNN's compute by vectors of
  /// channels: whether vectors of points are faster.
  bool OneIsFaster(const Spatial& s, const Dims& src, const Dims& dst) const {
    const int64_t step = *std::max_element(s.strides.begin(), s.strides.end());
    if (transposed_ || step > 2) return false;
    return (NumElements(s.kernel) == 1 && step == 1) || src[1] < simd::TheSkinny().lanes ||
           (s.kernel.size() == 1 && dst[2] >= kLeastOfRow);
  }

  Prepared Base(std::span<const Operand> in, const Buffer& weights) const {
    Prepared p;
    p.unused.assign(in.size(), false);
    p.unused[static_cast<size_t>(w_)] = true;
    if (b_ >= 0) p.unused[static_cast<size_t>(b_)] = true;
    p.in_layouts.resize(in.size());
    p.accumulate = appended_.residual;
    p.weight_bytes = static_cast<int64_t>(weights.size());
    return p;
  }

  template <typename Plan>
  std::shared_ptr<const Launch> LaunchPlan(Plan plan, std::shared_ptr<const Buffer> weights,
                                           size_t y) const {
    return LaunchOf([plan = std::move(plan), weights = std::move(weights), bias = bias_, at = x_,
                     y](std::byte* const* args) {
      plan.Run(As<float>(static_cast<const std::byte*>(args[at])), As<float>(weights->data()),
               bias.defined() ? bias.data<float>().data() : nullptr, As<float>(args[y]));
    });
  }

  /// The packed form depends on nothing but the attributes.
  Result<Prepared> OnPlanes(PlaneConv plan, std::span<const Operand> in) const {
    INFER_ASSIGN(auto weights, PackedOf(*weights_, "planes", node_,
                                        [&](const Tensor& w) { return plan.Pack(w); }));
    Prepared p = Base(in, *weights);
    p.name = Cat("own:planes:", plan.isa());
    p.launch = LaunchPlan(std::move(plan), std::move(weights), in.size());
    return p;
  }

  Result<Prepared> OnChannelsLast(const Spatial& s, const Dims& src, const Dims& dst,
                                  std::span<const Operand> in) const {
    const Dims& w = weights_->dims();
    FewDots plan{&simd::TheSkinny(),
                 appended_,
                 src[1],
                 dst[1],
                 weights_->num_elements() / (w[0] * w[1]),
                 {}};
    plan.walk = WindowWalk::Of(s, transposed_, src, dst, plan.inputs, plan.padded());
    INFER_ASSIGN(auto weights, PackedOf(*weights_, "dots", node_, [&](const Tensor& from) {
                   return plan.Pack(from, transposed_);
                 }));
    Prepared p = Base(in, *weights);
    p.name = Cat("own:dots:", plan.loop->isa);
    p.in_layouts[static_cast<size_t>(x_)] = onednn::ChannelsLast(DType::kF32, src);
    // One channel lies the same way in every layout.
    p.out_layouts = {dst[1] == 1 ? Layout() : onednn::ChannelsLast(DType::kF32, dst)};
    if (p.accumulate >= 0) p.in_layouts[static_cast<size_t>(p.accumulate)] = p.out_layouts[0];
    p.launch = LaunchPlan(std::move(plan), std::move(weights), in.size());
    return p;
  }

  const Node& node_;
  bool transposed_;
  int x_, w_, b_;
  Appended appended_;
  std::shared_ptr<WeightSource> weights_;
  Tensor bias_;
};

std::unique_ptr<Kernel> MakeFew(const StepCall& call) { return std::make_unique<FewKernel>(call); }

}  // namespace

KernelList FewResultKernels() {
  return {{"Conv", "", "few", RefuseFew, MakeFew},
          {"ConvTranspose", "", "few", RefuseFew, MakeFew}};
}

}  // namespace infer
