/// Integer kernels of DQ -> Conv | MatMul | Gemm [-> activations] [-> Q] through oneDNN.
#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/isa.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/kernels/int8/int8_product.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

using onednn::Arg;
using onednn::Binding;
using onednn::PostOp;

bool IsDepthwise(const Node& n, const Tensor& w) {
  return IsConvolution(n) && w.dim(1) == 1 && n.Attr<int64_t>("group") > 1;
}

constexpr std::string_view kSaturates =
    "saturates on this ISA (no VNNI, and 255 (|w1| + |w2|) exceeds 32767)";

/// The activations, with what they need around them.
std::vector<PostOp> PostOpsOf(const QuantGroup& group, const ProductScales& scales) {
  std::vector<PostOp> ops;
  if (scales.bounds && !group.residual)
    ops.push_back(onednn::Clip(scales.bounds->first, scales.bounds->second));
  if (!scales.bounds)
    for (const Node* act : group.activations) ops.push_back(*onednn::EltwiseOf(*act));
  if (scales.to_quanta != 1) ops.push_back(onednn::Linear(scales.to_quanta, 0));
  if (group.residual) {
    const SumIn8Bits sum(group);
    // Bounds are whole numbers: they hold behind the rounding as well as before it.
    const auto [lo, hi] = scales.bounds.value_or(std::pair(sum.lo, sum.hi));
    ops.push_back(onednn::RoundHalfEven());
    ops.push_back(onednn::Clip(std::max(lo, sum.lo), std::min(hi, sum.hi)));
    ops.push_back(onednn::Linear(sum.scale, 0));
    ops.push_back({.kind = PostOp::Kind::kSum,
                   .scale = sum.other_scale,
                   .zero_point = group.residual->other.params.zero_point()});
    // A clip here gives wrong numbers in oneDNN 2.6 where both zero points are other than 0.
    if (group.residual->relu) ops.push_back(onednn::Relu());
  }
  // oneDNN adds the zero point in f32 and rounds the sum: an odd one sends halves the other way,
  // and any takes bits from a result that is small beside it.
  if (group.output && group.output->zero_point() != 0) ops.push_back(onednn::RoundHalfEven());
  return ops;
}

int64_t ChannelsOf(const Node& n, const QuantGroup& group) {
  return group.inputs[1]->constant->dim(ChannelsFirst(n) ? 0 : -1);
}

/// Below VNNI oneDNN adds pairs of products in 16 bits, and saturates; not where channels are by
/// themselves, as long as that has a kernel of its own (ProductKernel::PrepareConv).
std::string RefuseProduct(const StepCall& call) {
  if (!kIsX86) return "oneDNN has it on x86-64 only";
  if (std::string why = RefuseProductGroup(call); !why.empty()) return why;
  const auto group = DecodeQuantGroup(call);
  const Node& n = call.main();
  if (!onednn::KeepsParameters(PostOpsOf(*group, ScalesOf(call, *group, ChannelsOf(n, *group)))))
    return std::string(onednn::kLosesParameters);
  if (onednn::HasExactInt8()) return "";
  const QuantInput& w = *group->inputs[1];
  if (IsConvolution(n) && group->inputs[0]->params.dtype == DType::kI8)
    return "oneDNN halves the weights on this ISA (no VNNI, and the operand is signed)";
  if (group->residual) return "rounds the addition twice on this ISA";
  const bool first = ChannelsFirst(n);
  const int64_t channels = ChannelsOf(n, *group);
  if (!IsDepthwise(n, *w.constant) &&
      !PairsFit16Bits(SymmetricWeights(w, channels, first), channels, first))
    return std::string(kSaturates);
  return "";
}

class ProductKernel final : public Kernel {
 public:
  explicit ProductKernel(const StepCall& call)
      : node_(call.main()), group_(*DecodeQuantGroup(call)) {
    const QuantInput& w = *group_.inputs[1];
    pairs_gather_nothing_ = PairsGatherNothing(call);
    channels_ = ChannelsOf(node_, group_);
    first_ = ChannelsFirst(node_);
    source_ = call.source(w.value);
    SetScales(call);
  }

  bool packs(int operand) const override { return operand == group_.inputs[1]->operand; }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Operand& x = in[static_cast<size_t>(group_.inputs[0]->operand)];
    return IsConvolution(node_) ? PrepareConv(in, x, out[0]) : PrepareMatMul(in, x, out[0]);
  }

 private:
  void SetScales(const StepCall& call) {
    ProductScales scales = ScalesOf(call, group_, channels_);
    attributes_.post_ops = PostOpsOf(group_, scales);
    bias_ = scales.bias;
    attributes_.output_scales = std::move(scales.scales);
    attributes_.src_zero_point = group_.inputs[0]->params.zero_point();
    if (group_.output) attributes_.dst_zero_point = group_.output->zero_point();
  }

  DType OutputType() const { return group_.output ? group_.output->dtype : DType::kF32; }

  Result<Prepared> PrepareConv(std::span<const Operand> in, const Operand& x,
                               const Operand& out) const {
    const Dims& w = source_->dims();
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
    const bool gathers = made.name.find("gemm") != std::string::npos;
    if (gathers && pairs_gather_nothing_)
      return Unsupported("oneDNN gathers the windows of each group, which pairs need not");
    if (!onednn::HasExactInt8() && gathers) {
      INFER_ASSIGN(const Tensor elements, source_->Elements());
      if (!PairsFit16Bits(CodesOf(elements), channels_, true))
        return Unsupported(std::string(kSaturates));
    }
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
    if (x.dims.empty()) return Unsupported("a scalar operand");
    onednn::MatMulSpec s;
    const int64_t k = x.dims.back(), m = NumElements(x.dims) / k;
    s.src = {x.dtype, {m, k}};
    s.dst = {OutputType(), {m, channels_}};
    if (NumElements(out.dims) != m * channels_) return Unsupported("extents do not fit");
    s.weights = {DType::kI8, {k, channels_}};
    if (first_) s.weights.strides = {1, k};
    s.weights.any = true;
    if (bias_.defined()) s.bias = {DType::kF32, {1, channels_}};
    INFER_ASSIGN(const onednn::Made made, onednn::MakeMatMul(s, attributes_));
    return Bind(in, s.weights, made);
  }

  Result<Prepared> Bind(std::span<const Operand> in, const onednn::Spec& weights,
                        const onednn::Made& made) const {
    INFER_ASSIGN(const auto packed, Packed(weights, made.weights));
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

  Tensor CodesOf(const Tensor& elements) const {
    return SymmetricWeights(*group_.inputs[1], elements, channels_, first_);
  }

  Result<WeightSource::Form> Packed(const onednn::Spec& spec, const Layout& to) const {
    if (AreSymmetric(*group_.inputs[1])) return PackedFor(*source_, spec, to);
    onednn::Spec plain = spec;
    plain.any = false;
    return source_->Get(
        Cat("symmetric:", reinterpret_cast<uintptr_t>(&node_), ToString(spec.dims), to.code),
        [&](const Tensor& elements) -> Result<WeightSource::Form> {
          const Tensor codes = CodesOf(elements);
          if (to.plain() && (spec.strides.empty() || spec.strides == Strides(spec.dims)))
            return WeightSource::Form(codes.buffer());
          return onednn::Pack(plain, codes.raw(), to);
        });
  }

  const Node& node_;
  QuantGroup group_;
  int64_t channels_ = 0;
  bool pairs_gather_nothing_ = false;
  bool first_ = false;  ///< channels stand first in the weights
  std::shared_ptr<WeightSource> source_;
  Tensor bias_;
  onednn::Attributes attributes_;
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
