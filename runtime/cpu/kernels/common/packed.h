#pragma once
/// Constant data kept once per layout that some shape plan wants.
#include <map>
#include <mutex>

#include "runtime/cpu/onednn/onednn.h"

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

/// Weights [output, channel, rows, columns] of a convolution as [output, rows, columns, channel];
/// f32.
Tensor ChannelsInnermost(const Tensor& weights);

/// Constant data of one more form, made when first wanted.
class PackedOnce {
 public:
  /// `make()` gives the buffer.
  template <typename F>
  std::shared_ptr<const Buffer> Get(const F& make) const {
    std::lock_guard lock(mutex_);
    if (!kept_) kept_ = make();
    return kept_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Buffer> kept_;
};

}  // namespace infer
