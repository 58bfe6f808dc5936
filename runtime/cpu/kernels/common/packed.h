#pragma once
/// Forms of constant data, each kept once.
#include <mutex>

#include "lib/support/strings.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/plan_ir/weight_source.h"

namespace infer {

/// The elements of `source` seen through spec.dims and spec.strides, in layout `to`. Where oneDNN
/// has a way back they can be made again of it.
Result<WeightSource::Form> PackedFor(WeightSource& source, const onednn::Spec& spec,
                                     const Layout& to);

/// A form that hangs on attributes of `node`, by `pack`, a function of the elements.
template <typename F>
Result<WeightSource::Form> PackedOf(WeightSource& source, std::string_view name, const Node& node,
                                    const F& pack) {
  const auto call = [&](const Tensor& elements) -> Result<WeightSource::Form> {
    return pack(elements);
  };
  return source.Get(Cat(name, ":", reinterpret_cast<uintptr_t>(&node)), call);
}

/// Weights [output, channel, rows, columns] of a convolution as [output, rows, columns, channel];
/// f32.
Tensor ChannelsInnermost(const Tensor& weights);
/// The weights that it made so, of extents `dims` as they were.
Tensor ChannelsOutermost(const float* innermost, const Dims& dims);

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
