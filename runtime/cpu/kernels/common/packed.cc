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

}  // namespace infer
