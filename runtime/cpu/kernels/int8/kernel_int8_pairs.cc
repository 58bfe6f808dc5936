/// Integer kernels of DQ -> Conv | MatMul | Gemm [-> activations] [-> Q] by pairs of 16-bit
/// products, where oneDNN has none that are exact.
#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/int8/int8_product.h"
#include "runtime/cpu/kernels/int8/pair_product.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

using simd::AfterSum;
using StepKind = AfterSum::Step::Kind;

std::optional<AfterSum::Step> StepOf(const Node& n) {
  const auto eltwise = onednn::EltwiseOf(n);
  if (!eltwise) return {};
  if (IsRelu(n)) return AfterSum::Step{StepKind::kLeaky};
  if (n.Is("LeakyRelu")) return AfterSum::Step{StepKind::kLeaky, n.Attr<float>("alpha")};
  if (ClampOf(n)) return AfterSum::Step{StepKind::kClip, eltwise->alpha, eltwise->beta};
  if (n.Is("Abs")) return AfterSum::Step{StepKind::kAbs};
  return {};
}

/// The pairs' own reasons; that oneDNN has the product is none.
std::string RefuseAsPairs(const StepCall& call) {
  if (std::string why = RefuseProductGroup(call); !why.empty()) return why;
  const auto group = DecodeQuantGroup(call);
  if (group->residual && group->residual->linear) return "QLinearAdd rounds otherwise";
  for (const Node* a : group->activations)
    if (!StepOf(*a)) return Cat(a->op(), " cannot be folded");
  return "";
}

/// Each channel of the operand is by itself, with one result or several.
bool HasChannelsApart(const Node& n, const Tensor& w) {
  return IsConvolution(n) && w.dim(1) == 1 && n.Attr<int64_t>("group") > 1;
}

std::string RefusePairs(const StepCall& call) {
  if (onednn::HasExactInt8() && !PairsGatherNothing(call))
    return "oneDNN's products are exact on this ISA";
  return RefuseAsPairs(call);
}

}  // namespace

bool PairsGatherNothing(const StepCall& call) {
  if (!RefuseAsPairs(call).empty()) return false;
  return IsConvolution(call.main()) && call.main().Attr<int64_t>("group") > 1;
}

namespace {

class PairKernel final : public Kernel {
 public:
  explicit PairKernel(const StepCall& call)
      : node_(call.main()), group_(*DecodeQuantGroup(call)), is_conv_(IsConvolution(node_)) {
    const Tensor& w = *group_.inputs[1]->constant;
    product_.pairs = &simd::ThePairs();
    product_.columns = w.dim(ChannelsFirst(node_) ? 0 : -1);
    product_.depth = w.num_elements() / std::max<int64_t>(product_.columns, 1);
    if (is_conv_) {
      product_.groups = node_.Attr<int64_t>("group");
      product_.depth = w.dim(1) * product_.groups;
      if (HasChannelsApart(node_, w)) {
        product_.repeat = product_.columns / product_.groups;
        product_.groups = product_.depth = product_.columns;
      }
      for (int i = 2; i < w.rank(); ++i)
        product_.window[static_cast<size_t>(5 - w.rank() + i - 2)] = w.dim(i);
    }
    product_.is_signed = group_.inputs[0]->params.dtype == DType::kI8;
    product_.zero = group_.inputs[0]->params.zero_point();
    SetAfter(call);
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const int x = group_.inputs[0]->operand;
    const Dims& dims = in[static_cast<size_t>(x)].dims;
    if (dims.empty()) return Unsupported("a scalar operand");
    INFER_ASSIGN(const PlacedPairs placed, Place(dims, out[0].dims));
    const auto w = weights_.Get([&] { return PackWeights(); });
    const int other = group_.residual ? group_.residual->other.operand : -1;
    Prepared p;
    p.name = Cat("own:pairs:", product_.pairs->isa);
    p.scratch_bytes = placed.scratch_bytes();
    p.weight_bytes = static_cast<int64_t>(w->size() + bias_->size() + scale_->size());
    p.in_layouts.resize(in.size());
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x)] = false;
    if (is_conv_) {
      const DType type = in[static_cast<size_t>(x)].dtype;
      p.in_layouts[static_cast<size_t>(x)] = onednn::ChannelsLast(type, dims);
      p.out_layouts = {onednn::ChannelsLast(out[0].dtype, out[0].dims)};
    }
    if (other >= 0) {
      p.unused[static_cast<size_t>(other)] = false;
      p.in_layouts[static_cast<size_t>(other)] =
          onednn::ChannelsLast(in[static_cast<size_t>(other)].dtype, out[0].dims);
    }
    // An image is widened before its result is written.
    p.in_place = true;
    const size_t y = in.size();
    p.launch = LaunchOf([=, bias = bias_, scale = scale_](std::byte* const* args) {
      placed.Run(args[x], w->data(), other >= 0 ? args[other] : nullptr, args[y], args[y + 1]);
    });
    return p;
  }

 private:
  Result<PlacedPairs> Place(const Dims& src, const Dims& dst) const {
    if (!is_conv_) {
      const int64_t rows = NumElements(src) / src.back();
      if (src.back() != product_.depth || NumElements(dst) != rows * product_.columns)
        return Unsupported("extents do not fit");
      return PlacedPairs::Make(product_, 1, {rows}, {rows}, Spatial{{1}, {1}, {1}, {0}, {0}});
    }
    const Dims kernel(product_.window.end() - static_cast<int64_t>(src.size() - 2),
                      product_.window.end());
    INFER_ASSIGN(const Spatial spatial, SpatialOf(node_, kernel, src, dst, false));
    return PlacedPairs::Make(product_, src[0], Dims(src.begin() + 2, src.end()),
                             Dims(dst.begin() + 2, dst.end()), spatial);
  }

  std::shared_ptr<const Buffer> PackWeights() const {
    const bool first = ChannelsFirst(node_);
    const Tensor w = SymmetricWeights(*group_.inputs[1], product_.columns, first);
    const int64_t window = NumElements(product_.window);
    const int64_t n_stride = first ? w.num_elements() / product_.columns : 1;
    return product_.Pack(w.data<int8_t>().data(), n_stride, first ? window : product_.columns);
  }

  void SetAfter(const StepCall& call) {
    AfterSum& after = product_.after;
    const auto push = [&](AfterSum::Step s) { after.steps[after.step_count++] = s; };
    const ProductScales scales = ScalesOf(call, group_, product_.columns);
    if (scales.bounds)
      push({StepKind::kClip, scales.bounds->first, scales.bounds->second});
    else
      for (const Node* a : group_.activations) push(*StepOf(*a));
    if (scales.to_quanta != 1) push({StepKind::kScale, scales.to_quanta});
    if (group_.residual) {
      const SumIn8Bits sum(group_);
      const QuantParams8& other = group_.residual->other.params;
      after.adds = true;
      after.relu = group_.residual->relu;
      after.between_lo = sum.lo;
      after.between_hi = sum.hi;
      after.between_scale = group_.residual->between.scale();
      after.other_scale = other.scale();
      after.other_signed = other.dtype == DType::kI8;
      after.other_zero = other.zero_point();
      after.y_scale = group_.output->scale();
    }
    if (group_.output) {
      after.type = group_.output->dtype == DType::kI8 ? AfterSum::Type::kI8 : AfterSum::Type::kU8;
      after.zero = group_.output->zero_point();
      after.lo = static_cast<float>(SumIn8Bits::Lowest(*group_.output) - after.zero);
      after.hi = after.lo + 255;
    }
    if (is_conv_) SetDilations();
    const Tensor& bias = scales.bias;
    bias_ = product_.PadColumns([&](int64_t c) {
      return bias.defined() ? bias.data<float>()[static_cast<size_t>(c)] : 0.0f;
    });
    scale_ = product_.PadColumns([&](int64_t c) {
      return scales.scales[scales.scales.size() == 1 ? 0 : static_cast<size_t>(c)];
    });
    after.bias = As<float>(bias_->data());
    after.scale = As<float>(scale_->data());
  }

  void SetDilations() {
    const int rank = group_.inputs[1]->constant->rank() - 2;
    const auto window =
        ReadWindow(node_.def(), node_.attrs(), rank, Dims(static_cast<size_t>(rank), -1));
    INFER_CHECK(window.ok());  // inference has read it
    const auto axes = static_cast<size_t>(rank);
    for (size_t i = 0; i < axes; ++i) product_.dilations[3 - axes + i] = window->axes[i].dilation;
  }

  const Node& node_;
  QuantGroup group_;
  bool is_conv_;
  PairProduct product_;
  std::shared_ptr<const Buffer> bias_, scale_;
  PackedOnce weights_;
};

std::unique_ptr<Kernel> MakePairs(const StepCall& call) {
  return std::make_unique<PairKernel>(call);
}

}  // namespace

KernelList Int8PairKernels() {
  return {{"Conv", "", "int8:pairs", RefusePairs, MakePairs},
          {"MatMul", "", "int8:pairs", RefusePairs, MakePairs},
          {"Gemm", "", "int8:pairs", RefusePairs, MakePairs}};
}

}  // namespace infer
