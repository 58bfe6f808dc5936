#pragma once
/// One pass over numbers that says what is finite, and between which bounds.
#include <cstdint>
#include <span>

#include "quant/scheme/quant_params.h"

namespace infer {

struct Scan {
  Interval range;          ///< of the finite elements; [0, 0] when there is none
  int64_t finite = 0;      ///< elements
  int64_t non_finite = 0;  ///< NaN and infinities
  /// What both saw.
  void Add(const Scan& o);
};
/// By the lanes of the thread.
Scan ScanValues(std::span<const float> values);

}  // namespace infer
