#include "runtime/engine/stack.h"

#include <cstring>

namespace infer::engine {
namespace {

/// A tensor as runs of bytes, one for each index before the axis.
struct Runs {
  int64_t count, bytes;
};

Runs RunsOf(const Tensor& t, int axis) {
  int64_t count = 1;
  for (int i = 0; i < axis; ++i) count *= t.dim(i);
  return {count, count > 0 ? t.byte_size() / count : 0};
}

void CopyRuns(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride,
              int64_t bytes, int64_t count) {
  for (int64_t i = 0; bytes > 0 && i < count; ++i)
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(bytes));
}

}  // namespace

Tensor Stack(std::span<const Tensor* const> parts, int axis) {
  Dims dims = parts[0]->dims();
  int64_t& rows = dims[static_cast<size_t>(axis)] = 0;
  for (const Tensor* p : parts) rows += p->dim(axis);
  Tensor whole(parts[0]->dtype(), std::move(dims));
  const int64_t stride = RunsOf(whole, axis).bytes;
  std::byte* to = whole.num_elements() > 0 ? whole.mutable_raw() : nullptr;
  for (const Tensor* p : parts) {
    const Runs runs = RunsOf(*p, axis);
    CopyRuns(to, stride, p->raw(), runs.bytes, runs.bytes, runs.count);
    to += runs.bytes;
  }
  return whole;
}

Tensor Part(const Tensor& whole, int axis, int64_t begin, int64_t count) {
  Dims dims = whole.dims();
  dims[static_cast<size_t>(axis)] = count;
  Tensor part(whole.dtype(), std::move(dims));
  if (part.num_elements() == 0) return part;
  const Runs runs = RunsOf(part, axis);
  const int64_t row = runs.bytes / count;
  CopyRuns(part.mutable_raw(), runs.bytes, whole.raw() + begin * row, RunsOf(whole, axis).bytes,
           runs.bytes, runs.count);
  return part;
}

Tensor PaddedWithZeros(const Tensor& t, std::span<const int> axes, int64_t extent) {
  Tensor padded = t;
  for (int axis : axes) {
    Dims dims = padded.dims();
    dims[static_cast<size_t>(axis)] = extent;
    Tensor longer = Tensor::Zeros(padded.dtype(), std::move(dims));
    const Runs from = RunsOf(padded, axis);
    if (longer.num_elements() > 0)
      CopyRuns(longer.mutable_raw(), RunsOf(longer, axis).bytes, padded.raw(), from.bytes,
               from.bytes, from.count);
    padded = std::move(longer);
  }
  return padded;
}

}  // namespace infer::engine
