/// Depthwise Conv and ConvTranspose on channels last, of one to three spatial dimensions, any
/// stride, dilation and number of results per channel. For what oneDNN 2.6 has no own kernel: it
/// lowers depthwise convolutions of one dimension, those with several results per channel and
/// dilated windows that reach far over the borders to matrix products (3 to 18 times slower than
/// ONNX Runtime), and transposed ones to a gradient (50 times);
/// docs/adr/0010-what-the-real-models-asked-for.md. Images with wide windows go through rings
/// (ring_depthwise.h), with AVX-512 also where oneDNN has a kernel: of 160 shapes on channels last
/// 118 took 1.1 of the best kernel's time or more (geometric mean 1.47, worst 3.65), 9 do now
/// (1.01, 1.33; docs/adr/0064-depthwise-in-rings.md).
#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/kernels/common/tap_spans.h"
#include "runtime/cpu/kernels/conv/conv_spec.h"
#include "runtime/cpu/kernels/conv/ring_depthwise.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/depthwise.h"

namespace infer {
namespace {

/// Everything that a run reads.
struct DepthwisePlan {
  const simd::Depthwise* loop = nullptr;
  Appended appended;
  int64_t channels = 1, repeat = 1;  ///< results per channel of the operand
  int64_t row_taps = 1;
  WindowWalk walk;

  int64_t scratch_bytes() const { return repeat > 1 ? walk.x_pixels() * channels * 4 : 0; }

  void Run(const float* x, const float* w, const float* bias, float* y, float* scratch) const {
    if (repeat > 1) {
      Repeat(x, scratch);
      x = scratch;
    }
    walk.ForRuns(channels * row_taps, [&](const WindowWalk::Run& r) { One(x, w, bias, y, r); });
  }

 private:
  void One(const float* x, const float* w, const float* bias, float* y,
           const WindowWalk::Run& at) const {
    simd::DepthwiseCall d;
    d.x = x + at.x_pixel * channels;
    d.x_step = walk.x_step() * channels;
    d.y = y + at.y_pixel * channels;
    d.y_step = walk.y_step() * channels;
    d.pixels = at.pixels;
    d.channels = channels;
    d.w = w;
    d.x_at = at.taps->x_at.data();
    d.w_at = at.taps->w_at.data();
    d.taps = static_cast<int64_t>(at.taps->x_at.size());
    d.bias = bias;
    d.add = appended.residual >= 0;
    loop->run(d);
    if (!appended.function) return;
    if (walk.y_step() == 1) return appended.Apply(d.y, d.pixels * channels);
    for (int64_t k = 0; k < d.pixels; ++k) appended.Apply(d.y + k * d.y_step, channels);
  }
  void Repeat(const float* x, float* to) const {
    const int64_t n = channels / repeat;
    ForRange(walk.x_pixels(), std::max<int64_t>(1, 16384 / channels),
             [=, this](int64_t begin, int64_t end) {
               loop->repeat(x + begin * n, (end - begin) * n, repeat, to + begin * channels);
             });
  }
};

bool IsPlain(const Node& n, const Dims& w) {
  return n.Is("Conv") && w.size() == 4 && w[0] == n.Attr<int64_t>("group");
}

/// Whether rings are faster than oneDNN's kernel for AVX-512, by measurements of windows 5x5, 7x7
/// and 9x9, strides and dilations 1 and 2, 24 to 384 channels and 7x7 to 56x56 points: few channels
/// fill no vectors there, and where the operand lies plain, it and the result need no reorders
/// here. oneDNN's kernels for other processors take blocks of channels.
bool RingIsFaster(const Spatial& s, const Dims& src, const Dims& dst, bool plain) {
  constexpr int64_t kFewChannels = 32, kManyTaps = 49, kSomeTaps = 25;
  const int64_t taps = NumElements(s.kernel), channels = src[1], in = src[3], out = dst[3];
  const bool dilated = s.dilations[0] * s.dilations[1] > 1;
  const bool strided = s.strides[0] * s.strides[1] > 1;
  if (simd::TheDepthwise().lanes < 16 || taps < kSomeTaps) return false;
  if (dilated && (strided || taps < kManyTaps || out < 28)) return false;
  if (plain)
    return channels <= kFewChannels || in >= 28 || (in >= 14 && !strided && taps >= kManyTaps);
  if (taps >= kManyTaps) return out >= 14 || channels <= 96;
  return channels <= kFewChannels && (!strided || out < 28);
}

std::string RefuseDepthwise(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const Node& n = call.main();
  const bool transposed = IsTransposedConvolution(n);
  const Tensor* w = call.constant(n.input(1));
  if (!w) return "the weights are not constant";
  const int64_t groups = n.Attr<int64_t>("group");
  if (groups == 1) return "one group";
  if (transposed ? w->dims()[0] != groups : w->dims()[1] != 1) return "several channels per group";
  if (w->rank() < 3 || w->rank() > 5) return "only 1 to 3 spatial dimensions";
  // Volumes would be brought into our layout and back for one multiplication per element.
  if (w->rank() == 5 && w->num_elements() == w->dim(0) * w->dim(1)) return "a window of one point";
  if (n.input(2) && !call.constant(n.input(2))) return "the bias is not constant";
  const auto epilogue = DecodeEpilogue(call, false);
  if (!epilogue.ok()) return epilogue.status().message();
  const auto appended = Appended::Of(call, *epilogue);
  if (!appended.ok()) return appended.status().message();
  return appended->residual_last ? "the residual follows the activation" : "";
}

class DepthwiseKernel final : public Kernel {
 public:
  explicit DepthwiseKernel(const StepCall& call)
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
    const int residual = appended_.residual;
    const Dims& src = in[static_cast<size_t>(x_)].dims;
    const Dims& dst = out[0].dims;
    if (Result<Prepared> ring = InRing(in, dst); ring.ok()) return ring;
    if (HasDirect(src, dst)) return Unsupported("oneDNN has a kernel");
    INFER_ASSIGN(DepthwisePlan made, PlanFor(src, dst));
    const auto plan = std::make_shared<const DepthwisePlan>(std::move(made));
    INFER_ASSIGN(const auto weights, PackedOf(*weights_, "depthwise", node_, Pack));
    Prepared p;
    p.name = Cat("own:depthwise:", plan->loop->isa);
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x_)] = false;
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x_)] = onednn::ChannelsLast(DType::kF32, src);
    p.out_layouts = {onednn::ChannelsLast(DType::kF32, dst)};
    p.accumulate = residual;
    if (residual >= 0) {
      p.unused[static_cast<size_t>(residual)] = false;
      p.in_layouts[static_cast<size_t>(residual)] = p.out_layouts[0];
    }
    p.weight_bytes = static_cast<int64_t>(weights->size());
    p.scratch_bytes = plan->scratch_bytes();
    const int at = x_;
    const size_t y = in.size();
    p.launch = LaunchOf([=, bias = bias_](std::byte* const* args) {
      plan->Run(As<float>(static_cast<const std::byte*>(args[at])), As<float>(weights->data()),
                bias.defined() ? bias.data<float>().data() : nullptr, As<float>(args[y]),
                plan->repeat > 1 ? As<float>(args[y + 1]) : nullptr);
    });
    return p;
  }

 private:
  /// Whether oneDNN computes it without gathering windows.
  bool HasDirect(const Dims& src, const Dims& dst) const {
    if (!IsPlain(node_, weights_->dims())) return false;
    const auto asked = AskedConv::Of(node_, src, dst, weights_->dims(), true);
    return asked.ok() && !HasNoDirectConv(*asked, epilogue_);
  }

  Result<Prepared> InRing(std::span<const Operand> in, const Dims& dst) const {
    const Operand& x = in[static_cast<size_t>(x_)];
    const Dims& w = weights_->dims();
    if (IsTransposedConvolution(node_) || w.size() != 4) return Unsupported("no image");
    INFER_ASSIGN(const Spatial s,
                 SpatialOf(node_, Dims(w.begin() + 2, w.end()), x.dims, dst, false));
    const bool plain = x.layout.plain();
    if (!RingIsFaster(s, x.dims, dst, plain) && HasDirect(x.dims, dst))
      return Unsupported("oneDNN has a kernel");
    INFER_ASSIGN(RingDepthwise plan, RingDepthwise::Of(s, x.dims, dst, plain, appended_));
    INFER_ASSIGN(const auto weights, PackedOf(*weights_, "ring", node_, RingDepthwise::Pack));
    Prepared p;
    p.name = Cat("own:depthwise-ring:", plan.isa());
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x_)] = false;
    p.in_layouts.resize(in.size());
    p.out_layouts = {plain ? Layout() : onednn::ChannelsLast(DType::kF32, dst)};
    p.in_layouts[static_cast<size_t>(x_)] =
        plain ? Layout() : onednn::ChannelsLast(DType::kF32, x.dims);
    p.accumulate = appended_.residual;
    if (p.accumulate >= 0) {
      p.unused[static_cast<size_t>(p.accumulate)] = false;
      p.in_layouts[static_cast<size_t>(p.accumulate)] = p.out_layouts[0];
    }
    p.weight_bytes = static_cast<int64_t>(weights->size());
    p.launch =
        LaunchOf([plan, weights, bias = bias_, at = x_, y = in.size()](std::byte* const* args) {
          plan.Run(As<float>(static_cast<const std::byte*>(args[at])), As<float>(weights->data()),
                   bias.defined() ? bias.data<float>().data() : nullptr, As<float>(args[y]));
        });
    return p;
  }

  Result<DepthwisePlan> PlanFor(const Dims& src, const Dims& dst) const {
    const Dims& w = weights_->dims();
    const bool transposed = IsTransposedConvolution(node_);
    INFER_ASSIGN(const Spatial s,
                 SpatialOf(node_, Dims(w.begin() + 2, w.end()), src, dst, transposed));
    DepthwisePlan plan;
    plan.loop = &simd::TheDepthwise();
    plan.appended = appended_;
    plan.channels = dst[1];
    plan.repeat = dst[1] / src[1];
    plan.row_taps = s.kernel.back();
    plan.walk = WindowWalk::Of(s, transposed, src, dst, dst[1], dst[1]);
    return plan;
  }

  /// [channels][taps] as [taps][channels].
  static std::shared_ptr<const Buffer> Pack(const Tensor& weights) {
    const Dims& w = weights.dims();
    const int64_t channels = w[0] * w[1], taps = weights.num_elements() / channels;
    auto buffer = Buffer::Allocate(static_cast<size_t>(channels * taps) * sizeof(float));
    const auto from = weights.data<float>();
    float* to = As<float>(buffer->mutable_data());
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t t = 0; t < taps; ++t)
        to[t * channels + c] = from[static_cast<size_t>(c * taps + t)];
    return buffer;
  }

  const Node& node_;
  int x_, w_, b_;
  Epilogue epilogue_;
  Appended appended_;
  std::shared_ptr<WeightSource> weights_;
  Tensor bias_;
};

std::unique_ptr<Kernel> MakeDepthwise(const StepCall& call) {
  return std::make_unique<DepthwiseKernel>(call);
}

}  // namespace

KernelList DepthwiseKernels() {
  return {{"Conv", "", "depthwise", RefuseDepthwise, MakeDepthwise},
          {"ConvTranspose", "", "depthwise", RefuseDepthwise, MakeDepthwise}};
}

}  // namespace infer
