#include "runtime/cpu/packed.h"

namespace infer {

Result<std::pair<std::shared_ptr<const Buffer>, bool>> PackedCache::Get(const onednn::Spec& spec,
                                                                        const Tensor& data,
                                                                        const Layout& to) const {
  using Out = std::pair<std::shared_ptr<const Buffer>, bool>;
  if (to.plain() && (spec.strides.empty() || spec.strides == Strides(spec.dims)))
    return Out{data.buffer(), false};
  std::lock_guard lock(mutex_);
  auto& kept = by_layout_[to.code];
  if (kept) return Out{kept, false};
  onednn::Spec from = spec;
  from.any = false;
  INFER_ASSIGN(kept, onednn::Pack(from, data.raw(), to));
  return Out{kept, true};
}

}  // namespace infer
