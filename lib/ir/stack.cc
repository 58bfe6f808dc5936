#include "lib/ir/stack.h"

#include <algorithm>
#include <cstring>

#include "lib/support/strings.h"

namespace infer {
namespace {

/// Parts for which a stack of unknown height has room at first.
constexpr int64_t kFirstParts = 8;

/// `count` elements of `from`, which is of the type of `to`, from element `first` on.
void CopyElements(const Tensor& from, int64_t first, Tensor& to, int64_t to_first, int64_t count) {
  if (from.dtype() == DType::kString) {
    std::copy_n(from.strings().begin() + first, count, to.mutable_strings().begin() + to_first);
  } else if (IsPacked(from.dtype())) {
    for (int64_t i = 0; i < count; ++i) to.Set(to_first + i, from.At(first + i));
  } else if (count > 0) {
    const int64_t width = BitWidth(from.dtype()) / 8;
    std::memcpy(to.mutable_raw() + to_first * width, from.raw() + first * width,
                static_cast<size_t>(count * width));
  }
}

}  // namespace

void SliceAt(const Tensor& t, int axis, int64_t index, Datum& slice) {
  Dims dims = t.dims();
  const int64_t extent = dims[static_cast<size_t>(axis)];
  dims.erase(dims.begin() + axis);
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < t.rank(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : t.dim(i);
  Tensor& out = WritableAs(slice, t.dtype(), dims);
  for (int64_t o = 0; o < outer; ++o)
    CopyElements(t, (o * extent + index) * inner, out, o * inner, inner);
}

Status Stack::Begin(const Tensor& first) {
  INFER_ASSIGN(const int axis, NormalizeAxis(axis_, first.rank() + 1));
  axis_ = axis;
  for (int i = 0; i < first.rank(); ++i) (i < axis ? outer_ : inner_) *= first.dim(i);
  dtype_ = first.dtype();
  part_dims_ = first.dims();
  Resize(exact_ ? most_ : std::min(most_, kFirstParts));
  return {};
}

void Stack::Resize(int64_t capacity) {
  Dims dims = part_dims_;
  dims.insert(dims.begin() + axis_, capacity);
  Tensor larger(dtype_, std::move(dims));
  if (size_ > 0) CopyElements(all_, 0, larger, 0, size_ * inner_);
  all_ = std::move(larger);
  capacity_ = capacity;
}

Status Stack::Add(const Tensor& part) {
  if (size_ == 0) INFER_TRY(Begin(part));
  if (part.dtype() != dtype_ || part.dims() != part_dims_)
    return InvalidModel(Cat("scan output changes from ",
                            ToString(TensorType{dtype_, Shape(part_dims_)}), " to ",
                            ToString(part.type())));
  if (size_ == capacity_) Resize(capacity_ > most_ / 2 ? most_ : 2 * capacity_);
  const int64_t at = backwards_ ? capacity_ - 1 - size_ : size_;
  for (int64_t o = 0; o < outer_; ++o)
    CopyElements(part, o * inner_, all_, (o * capacity_ + at) * inner_, inner_);
  ++size_;
  return {};
}

Tensor Stack::Take() {
  if (size_ < capacity_) Resize(size_);
  return std::move(all_);
}

}  // namespace infer
