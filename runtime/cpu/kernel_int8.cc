/// Integer kernels of DQ -> Conv | MatMul | Gemm [-> activations] [-> Q] through oneDNN.
///
/// With x = (q_x - z_x) s_x and w = q_w s_w (per output channel), y = s_x s_w (sum (q_x - z_x) q_w
/// + b / (s_x s_w)): an exact s32 sum, one f32 scale per channel, the activations in f32, then the
/// rounding to the result's scale and zero point. Against the QDQ graph only the order of the last
/// f32 operations differs: one quantum, where the exact result is within some 1e-5 of a half.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "lib/support/strings.h"
#include "runtime/cpu/epilogue.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/launch.h"
#include "runtime/cpu/packed.h"
#include "runtime/cpu/quant_group.h"
#include "runtime/cpu/spatial.h"

namespace infer {
namespace {

using onednn::Arg;
using onednn::Binding;
using onednn::PostOp;

constexpr float kInf = std::numeric_limits<float>::infinity();

bool IsConv(const Node& n) { return n.Is("Conv"); }

/// Weights as s8 with zero point 0; undefined when some does not fit.
Tensor SymmetricWeights(const QuantInput& w, int64_t channels, bool channels_first) {
  const Tensor& q = *w.constant;
  Tensor out(DType::kI8, q.dims());
  const int64_t n = q.num_elements(), inner = channels ? n / channels : 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t c = channels_first ? i / inner : i % channels;
    const auto z = w.params.zero_points[w.params.per_tensor() ? 0 : static_cast<size_t>(c)];
    const int64_t v = q.IntAt(i) - z;
    if (v < -128 || v > 127) return {};
    out.SetInt(i, v);
  }
  return out;
}

/// 255 (|w1| + |w2|) <= 32767 for any two weights of one channel: no pair that an instruction may
/// add in 16 bits overflows.
bool PairsFit16Bits(const Tensor& w, int64_t channels, bool channels_first) {
  const int64_t n = w.num_elements(), inner = n / std::max<int64_t>(channels, 1);
  for (int64_t c = 0; c < channels; ++c) {
    int first = 0, second = 0;
    for (int64_t i = 0; i < inner; ++i) {
      const int v = std::abs(static_cast<int>(w.data<int8_t>()[static_cast<size_t>(
          channels_first ? c * inner + i : i * channels + c)]));
      if (v > first) {
        second = first;
        first = v;
      } else {
        second = std::max(second, v);
      }
    }
    if (255 * (first + second) > 32767) return false;
  }
  return true;
}

/// Where the output channels of B stand: MatMul and Gemm [K, N], with transB [N, K].
bool ChannelsFirst(const Node& n) {
  return IsConv(n) || (n.Is("Gemm") && n.Attr<int64_t>("transB") != 0);
}

/// What follows the product of a group with a residual, in f32 and in units of the result.
struct SumIn8Bits {
  explicit SumIn8Bits(const QuantGroup& g)
      : lo(static_cast<float>(Lowest(g.residual->between) - g.residual->between.zero_point())),
        hi(lo + 255),
        scale(g.residual->between.scale() / g.output->scale()),
        other_scale(g.residual->other.params.scale() / g.output->scale()) {}
  static int32_t Lowest(const QuantParams8& p) { return p.dtype == DType::kU8 ? 0 : -128; }

  float lo, hi;              ///< bounds of the product's quanta
  float scale, other_scale;  ///< of them and of the other operand's
};

/// The sum rounds each of the 65,536 pairs of quanta as the QDQ graph does, step by step in f32.
bool SumRoundsAsTheGraph(const QuantGroup& g) {
  const SumIn8Bits sum(g);
  const QuantParams8 &a = g.residual->between, &b = g.residual->other.params, &y = *g.output;
  const int32_t lo = SumIn8Bits::Lowest(y);
  const auto quantum = [&](float v) {
    return std::clamp(std::nearbyint(g.residual->relu ? std::max(v, 0.0f) : v),
                      static_cast<float>(lo - y.zero_point()),
                      static_cast<float>(lo + 255 - y.zero_point()));
  };
  for (int i = 0; i < 256; ++i) {
    const auto u = static_cast<float>(SumIn8Bits::Lowest(a) + i - a.zero_point());
    const float left = u * a.scale(), folded = u * sum.scale;
    for (int j = 0; j < 256; ++j) {
      const auto v = static_cast<float>(SumIn8Bits::Lowest(b) + j - b.zero_point());
      const float right = v * b.scale();
      if (quantum((left + right) / y.scale()) != quantum(std::fma(v, sum.other_scale, folded)))
        return false;
    }
  }
  return true;
}

std::string RefuseResidual(const StepCall& call, const QuantGroup& g) {
  const QuantInput& other = g.residual->other;
  if (!IsConv(call.main())) return "a residual of a product that is no convolution";
  if (!other.params.per_tensor() || other.params.dtype != g.output->dtype || other.constant)
    return "what is added has another type";
  if (other.value == g.inputs[0]->value) return "the operand itself is added";
  if (!SameShape(*other.value, *call.step.nodes.back()->output(0))) return "it broadcasts";
  return SumRoundsAsTheGraph(g) ? "" : "the sum would round otherwise";
}

std::string RefuseProduct(const StepCall& call) {
  auto group = DecodeQuantGroup(call);
  if (!group.ok()) return group.status().message();
  const Node& n = call.main();
  if (group->inputs.size() < 2 || !group->inputs[0] || !group->inputs[1])
    return "an operand is not quantized";
  const QuantInput& x = *group->inputs[0];
  const QuantInput& w = *group->inputs[1];
  if (!x.params.per_tensor() || x.params.dtype == DType::kI32) return "activations per channel";
  if (!w.constant || w.params.dtype == DType::kI32) return "weights are not 8-bit constants";
  const int rank = w.constant->rank();
  if (IsConv(n) ? rank < 3 || rank > 5 : rank != 2) return "the rank of the weights";
  const bool first = ChannelsFirst(n);
  const int64_t channels = w.constant->dim(first ? 0 : -1);
  if (!w.params.per_tensor()) {
    const int64_t axis = w.params.axis < 0 ? w.params.axis + rank : w.params.axis;
    if (axis != (first ? 0 : rank - 1)) return "weights are not scaled by output channel";
    if (static_cast<int64_t>(w.params.scales.size()) != channels) return "scales do not fit";
  }
  if (n.Is("Gemm") &&
      (n.Attr<float>("alpha") != 1 || n.Attr<float>("beta") != 1 || n.Attr<int64_t>("transA") != 0))
    return "alpha, beta or transA";
  if (const Value* b = n.input(2)) {
    const Tensor* c = group->inputs[2] ? group->inputs[2]->constant : call.constant(b);
    if (!c || c->num_elements() != channels) return "the bias is not one constant per channel";
    if (group->inputs[2] && !group->inputs[2]->params.per_tensor() &&
        static_cast<int64_t>(group->inputs[2]->params.scales.size()) != channels)
      return "the scales of the bias";
  }
  for (const Node* a : group->activations)
    if (!onednn::EltwiseOf(*a)) return Cat(a->op(), " cannot be folded");
  const Tensor s8 = SymmetricWeights(w, channels, first);
  if (!s8.defined()) return "weights minus zero point do not fit 8 bits";
  const bool depthwise = IsConv(n) && w.constant->dim(1) == 1 && n.Attr<int64_t>("group") > 1;
  if (!onednn::HasExactInt8() && IsConv(n) && x.params.dtype == DType::kI8)
    return "oneDNN halves the weights on this ISA (no VNNI, and the operand is signed)";
  if (!onednn::HasExactInt8() && !depthwise && !PairsFit16Bits(s8, channels, first))
    return "saturates on this ISA (no VNNI, and 255 (|w1| + |w2|) exceeds 32767)";
  return group->residual ? RefuseResidual(call, *group) : "";
}

class ProductKernel final : public Kernel {
 public:
  explicit ProductKernel(const StepCall& call)
      : node_(call.main()), group_(*DecodeQuantGroup(call)) {
    const QuantInput& w = *group_.inputs[1];
    const bool first = ChannelsFirst(node_);
    channels_ = w.constant->dim(first ? 0 : -1);
    weights_ = SymmetricWeights(w, channels_, first);
    SetScales(call);
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Operand& x = in[static_cast<size_t>(group_.inputs[0]->operand)];
    return IsConv(node_) ? PrepareConv(in, x, out[0]) : PrepareMatMul(in, x, out[0]);
  }

 private:
  /// Output scales, bias in units of the sum, and the activations with what they need around them.
  void SetScales(const StepCall& call) {
    const QuantParams8& w = group_.inputs[1]->params;
    const float x_scale = group_.inputs[0]->params.scale();
    std::vector<double> unit;
    for (float s : w.scales) unit.push_back(static_cast<double>(s) * x_scale);
    if (node_.input(2)) SetBias(call, unit);
    std::vector<PostOp> ops;
    bool scales_through = true;  // f(k x) = k f(x) for k > 0: the output scale may come first
    for (const Node* a : group_.activations) {
      ops.push_back(*onednn::EltwiseOf(*a));
      scales_through &= a->Is("Relu") || a->Is("LeakyRelu");
    }
    const QuantParams8* first = group_.residual ? &group_.residual->between
                                : group_.output ? &*group_.output
                                                : nullptr;
    const double to_quanta = first ? 1.0 / first->scale() : 1.0;
    if (scales_through)
      for (double& u : unit) u *= to_quanta;
    else if (first)
      ops.push_back(onednn::Linear(static_cast<float>(to_quanta), 0));
    if (group_.residual) {
      const SumIn8Bits sum(group_);
      ops.push_back(onednn::RoundHalfEven());
      ops.push_back(onednn::Clip(sum.lo, sum.hi));
      ops.push_back(onednn::Linear(sum.scale, 0));
      ops.push_back({.kind = PostOp::Kind::kSum,
                     .scale = sum.other_scale,
                     .zero_point = group_.residual->other.params.zero_point()});
      if (group_.residual->relu) ops.push_back(onednn::Clip(0, kInf));
    }
    // oneDNN adds the zero point in f32 and rounds the sum: an odd one sends halves the other way,
    // and any takes bits from a result that is small beside it.
    if (group_.output && group_.output->zero_point() != 0) ops.push_back(onednn::RoundHalfEven());
    attributes_.post_ops = std::move(ops);
    for (double u : unit) attributes_.output_scales.push_back(static_cast<float>(u));
    attributes_.src_zero_point = group_.inputs[0]->params.zero_point();
    if (group_.output) attributes_.dst_zero_point = group_.output->zero_point();
  }

  void SetBias(const StepCall& call, const std::vector<double>& unit) {
    const auto& q = group_.inputs[2];
    const Tensor& c = q ? *q->constant : *call.constant(node_.input(2));
    bias_ = Tensor(DType::kF32, {channels_});
    for (int64_t i = 0; i < channels_; ++i) {
      const auto k = static_cast<size_t>(i);
      double v = c.At(i);
      if (q)
        v = (v - q->params.zero_points[q->params.per_tensor() ? 0 : k]) *
            static_cast<double>(q->params.scales[q->params.per_tensor() ? 0 : k]);
      bias_.Set(i, v / unit[unit.size() == 1 ? 0 : k]);
    }
  }

  DType OutputType() const { return group_.output ? group_.output->dtype : DType::kF32; }

  Result<Prepared> PrepareConv(std::span<const Operand> in, const Operand& x,
                               const Operand& out) const {
    const Dims& w = weights_.dims();
    const Dims kernel(w.begin() + 2, w.end());
    const int64_t groups = node_.Attr<int64_t>("group");
    INFER_ASSIGN(const Spatial spatial, SpatialOf(node_, kernel, x.dims, out.dims, false));
    onednn::ConvSpec s;
    s.src = {x.dtype, x.dims, {}, {}, true};
    s.dst = {OutputType(), out.dims, {}, {}, true};
    s.weights = {DType::kI8, w};
    if (groups > 1) {
      s.weights.dims[0] /= groups;
      s.weights.dims.insert(s.weights.dims.begin(), groups);
    }
    s.weights.any = true;
    if (bias_.defined()) s.bias = {DType::kF32, {channels_}};
    s.strides = spatial.strides;
    s.dilations = spatial.dilations;
    s.pads_begin = spatial.pads_begin;
    s.pads_end = spatial.pads_end;
    INFER_ASSIGN(const onednn::Made made, onednn::MakeConv(s, attributes_));
    INFER_ASSIGN(Prepared p, Bind(in, s.weights, made));
    p.in_layouts[static_cast<size_t>(group_.inputs[0]->operand)] = made.src;
    p.out_layouts = {made.dst};
    if (group_.residual) {
      p.accumulate = group_.residual->other.operand;
      p.unused[static_cast<size_t>(p.accumulate)] = false;
      p.in_layouts[static_cast<size_t>(p.accumulate)] = made.dst;
    }
    return p;
  }

  Result<Prepared> PrepareMatMul(std::span<const Operand> in, const Operand& x,
                                 const Operand& out) const {
    if (x.dims.size() < 2) return Unsupported("a vector operand");
    onednn::MatMulSpec s;
    const int64_t k = x.dims.back(), m = NumElements(x.dims) / k;
    s.src = {x.dtype, {m, k}};
    s.dst = {OutputType(), {m, channels_}};
    if (NumElements(out.dims) != m * channels_) return Unsupported("extents do not fit");
    s.weights = {DType::kI8, {k, channels_}};
    if (ChannelsFirst(node_)) s.weights.strides = {1, k};
    s.weights.any = true;
    if (bias_.defined()) s.bias = {DType::kF32, {1, channels_}};
    INFER_ASSIGN(const onednn::Made made, onednn::MakeMatMul(s, attributes_));
    return Bind(in, s.weights, made);
  }

  Result<Prepared> Bind(std::span<const Operand> in, const onednn::Spec& weights,
                        const onednn::Made& made) const {
    INFER_ASSIGN(auto packed, packed_.Get(weights, weights_, made.weights));
    const int x = group_.inputs[0]->operand, n = static_cast<int>(in.size());
    Prepared p;
    p.name = made.name;
    p.scratch_bytes = made.scratch_bytes;
    p.weight_bytes = static_cast<int64_t>(packed->size());
    p.in_layouts.resize(in.size());
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x)] = false;
    std::vector<Binding> bindings = {{Arg::kSrc, x}, {Arg::kWeights, -1, packed}, {Arg::kDst, n}};
    if (bias_.defined()) bindings.push_back({Arg::kBias, -1, bias_.buffer()});
    p.launch = MakeLaunch(made, std::move(bindings), n + 1);
    return p;
  }

  const Node& node_;
  QuantGroup group_;
  int64_t channels_ = 0;
  Tensor weights_, bias_;
  onednn::Attributes attributes_;
  PackedCache packed_;
};

std::unique_ptr<Kernel> MakeProduct(const StepCall& call) {
  return std::make_unique<ProductKernel>(call);
}

}  // namespace

KernelList Int8ProductKernels() {
  return {{"Conv", "", "int8:onednn", RefuseProduct, MakeProduct},
          {"MatMul", "", "int8:onednn", RefuseProduct, MakeProduct},
          {"Gemm", "", "int8:onednn", RefuseProduct, MakeProduct}};
}

}  // namespace infer
