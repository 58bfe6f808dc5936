#pragma once
/// How many zeros weights have, before anything is counted.
#include <cstdint>

#include "lib/support/function_ref.h"

namespace infer {

/// The share of zeros below which no sparse form gains, so that nothing is counted.
constexpr double kLeastZeros = 0.3;

/// The share of some of `count` elements here and there that are zero: much cheaper than counting.
double ShareOfSample(int64_t count, FunctionRef<bool(int64_t)> is_zero);

}  // namespace infer
