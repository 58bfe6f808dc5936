#pragma once
/// Where the elements of a tensor lie in a buffer after transposes, reshapes and slices that nobody
/// copies. An axis may be several factors, each with its stride, so that axes can be joined that do
/// not lie together (sample and head).
#include <vector>

#include "lib/tensor/shape.h"

namespace infer {

class StridedView {
 public:
  struct Factor {
    int64_t size, stride;
  };
  static StridedView Dense(const Dims& dims);

  Dims dims() const;
  size_t rank() const { return axes_.size(); }
  void Permute(const std::vector<int64_t>& perm);
  /// False, and nothing changes: no view has these extents. Pre: as many elements.
  bool Reshape(const Dims& dims);
  /// Elements start, start + step, ... of an axis, `count` of them. False: the axis has factors.
  bool Slice(size_t axis, int64_t start, int64_t step, int64_t count);
  /// As NumPy broadcasts. False: it does not.
  bool Expand(const Dims& dims);
  /// Pre: its extent is 1.
  void Drop(size_t axis) { axes_.erase(axes_.begin() + static_cast<std::ptrdiff_t>(axis)); }

  /// The stride of an axis that is one factor; 0 where its extent is 1. False: it has several.
  bool StrideOf(size_t axis, int64_t& stride) const;
  /// Where the first element stands for each index of the first axes, which broadcast to `leads`.
  std::vector<int64_t> Offsets(size_t axes, const Dims& leads) const;

 private:
  using Axis = std::vector<Factor>;  // outermost first, no size of 1
  static Axis Merged(const Axis& factors);
  std::vector<Axis> axes_;
  int64_t offset_ = 0;
};

}  // namespace infer
