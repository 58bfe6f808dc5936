#pragma once
/// Constant data kept once per layout that some shape plan wants.
#include <map>
#include <mutex>

#include "runtime/cpu/onednn.h"

namespace infer {

class PackedCache {
 public:
  /// `data` seen through spec.dims and spec.strides, in layout `to`. The original buffer where that
  /// is it already.
  Result<std::shared_ptr<const Buffer>> Get(const onednn::Spec& spec, const Tensor& data,
                                            const Layout& to) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const Buffer>> by_layout_;
};

}  // namespace infer
