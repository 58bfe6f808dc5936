#include "runtime/cpu/kernels/int8/byte_group.h"

#include <algorithm>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "runtime/cpu/onednn/onednn.h"

namespace infer {

std::string RefuseByteFinish(const StepCall& call) {
  if (std::string why = RefuseProductGroup(call); !why.empty()) return why;
  const auto group = DecodeQuantGroup(call);
  if (group->activations.size() > 1) return "two activations";
  for (const Node* a : group->activations)
    if (!ClampOf(*a)) return Cat(a->op(), " has no form in the product");
  return "";
}

int32_t UnsignedZero(const QuantParams8& p) {
  return p.zero_point() + (p.dtype == DType::kI8 ? 128 : 0);
}

simd::ByteFinish ByteFinishOf(const QuantGroup& group, const ProductScales& scales) {
  simd::ByteFinish f;
  bool relu = false;
  for (const Node* a : group.activations) {
    relu = IsRelu(*a);
    const Clamp clamp = *ClampOf(*a);
    f.clips = (!relu || !group.output) && !scales.bounds;
    f.clip_lo = static_cast<float>(clamp.low);
    f.clip_hi = static_cast<float>(clamp.high);
    f.clip_scale = scales.to_quanta;
  }
  if (!group.output) return f;
  const QuantParams8& first = group.residual ? group.residual->between : *group.output;
  const auto bounds = [](const QuantParams8& p, bool not_negative, float& lo, float& hi) {
    lo = static_cast<float>(SumIn8Bits::Lowest(p) - p.zero_point());
    hi = lo + 255;
    if (not_negative) lo = std::max(lo, 0.0f);
  };
  using Form = simd::ByteFinish::Form;
  f.form = group.residual ? Form::kResidual : Form::kBytes;
  bounds(first, relu, f.lo, f.hi);
  if (scales.bounds) {
    f.lo = std::clamp(scales.bounds->first, f.lo, f.hi);
    f.hi = std::clamp(scales.bounds->second, f.lo, f.hi);
  }
  f.zero = UnsignedZero(*group.output);
  f.flip = group.output->dtype == DType::kI8 ? 128 : 0;
  if (group.residual) {
    const SumIn8Bits sum(group);
    f.sum_scale = sum.scale;
    f.other_scale = sum.other_scale;
    f.other_zero = UnsignedZero(group.residual->other.params);
    bounds(*group.output, group.residual->relu, f.sum_lo, f.sum_hi);
  }
  return f;
}

}  // namespace infer
