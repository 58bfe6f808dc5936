#include "lib/onnx/shared_constants.h"

namespace infer::onnx_io {

const std::string* SharedConstants::Find(const Tensor& t) const {
  const auto it = by_hash_.find(HashOf(t));
  if (it == by_hash_.end()) return nullptr;
  for (const auto& [other, name] : it->second)
    if (BitEqual(*other, t)) return &name;
  return nullptr;
}

void SharedConstants::Add(const Tensor& t, const std::string& name) {
  if (!Find(t)) by_hash_[HashOf(t)].emplace_back(&t, name);
}

}  // namespace infer::onnx_io
