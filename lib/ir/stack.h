#pragma once
/// Slices that Loop and Scan give to an iteration, and stacks of what iterations give.
#include "lib/support/status.h"
#include "lib/tensor/datum.h"

namespace infer {

/// `slice` becomes slice `index` of `t` along `axis`, without that axis; what it holds is written
/// over where nobody else holds it.
void SliceAt(const Tensor& t, int axis, int64_t index, Datum& slice);

/// Equally shaped tensors along a new axis. Each is copied to its place when it comes.
class Stack {
 public:
  /// Of no more than `most` parts along axis 0, whose memory doubles when it is full.
  explicit Stack(int64_t most) : most_(most) {}
  /// Of exactly `length` parts along `axis` (negative: from the end); `backwards`: the last comes
  /// first.
  Stack(int64_t length, int64_t axis, bool backwards)
      : most_(length), axis_(axis), backwards_(backwards), exact_(true) {}
  /// InvalidModel where the axis does not exist, or the type is not that of the part before.
  Status Add(const Tensor& part);
  int64_t size() const { return size_; }
  /// The stack. Pre: it has parts (of an exact one, all).
  Tensor Take();

 private:
  Status Begin(const Tensor& first);
  void Resize(int64_t capacity);

  int64_t most_;
  int64_t axis_ = 0;
  bool backwards_ = false, exact_ = false;
  int64_t size_ = 0, capacity_ = 0;
  DType dtype_ = DType::kUndefined;  // of each part
  Dims part_dims_;
  int64_t outer_ = 1, inner_ = 1;  // elements of a part before and behind the axis
  Tensor all_;
};

}  // namespace infer
