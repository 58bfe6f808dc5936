#include "runtime/cpu/kernels/common/packed.h"

namespace infer {

Result<std::shared_ptr<const Buffer>> PackedCache::Get(const onednn::Spec& spec, const Tensor& data,
                                                       const Layout& to) const {
  if (to.plain() && (spec.strides.empty() || spec.strides == Strides(spec.dims)))
    return std::shared_ptr<const Buffer>(data.buffer());
  std::lock_guard lock(mutex_);
  auto& kept = by_layout_[to.code];
  if (kept) return kept;
  onednn::Spec from = spec;
  from.any = from.bf16 = false;
  INFER_ASSIGN(kept, onednn::Pack(from, data.raw(), to));
  return kept;
}

Tensor ChannelsInnermost(const Tensor& weights) {
  const Dims& d = weights.dims();
  const int64_t taps = d[2] * d[3];
  if (taps == 1) return weights;
  Tensor t(DType::kF32, {d[0], d[2], d[3], d[1]});
  const float* from = weights.data<float>().data();
  float* to = t.mutable_data<float>().data();
  for (int64_t o = 0; o < d[0]; ++o)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t c = 0; c < d[1]; ++c) *to++ = from[(o * d[1] + c) * taps + tap];
  return t;
}

}  // namespace infer
