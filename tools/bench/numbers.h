#pragma once
/// Numbers that make arithmetic slower than usual, or its results worthless.
#include <span>
#include <string>

#include "lib/tensor/datum.h"

namespace infer::bench {

struct NumberCounts {
  int64_t elements = 0;   ///< of floats; other types have nothing to count
  int64_t denormals = 0;  ///< below the smallest normal number of their own type, and not 0
  int64_t nans = 0, infinities = 0, zeros = 0;
};
/// Of all float tensors, inside sequences, optionals and maps too.
NumberCounts CountNumbers(std::span<const Datum> values);

}  // namespace infer::bench
