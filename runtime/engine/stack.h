#pragma once
/// Requests side by side along their batch axes, and results apart again.
#include <span>
#include <vector>

#include "lib/tensor/tensor.h"

namespace infer::engine {

/// One behind the other along `axis`, in memory of its own. Pre: not empty, one type, all other
/// extents equal, elements of whole bytes.
Tensor Stack(std::span<const Tensor* const> parts, int axis);

/// Indices [begin, begin + count) along `axis`, in memory of its own. Pre: in range.
Tensor Part(const Tensor& whole, int axis, int64_t begin, int64_t count);

/// Zeros behind the last index, up to `extent`, along each of `axes`. Pre: no element type of
/// strings, the extents along `axes` are not larger.
Tensor PaddedWithZeros(const Tensor& t, std::span<const int> axes, int64_t extent);

}  // namespace infer::engine
