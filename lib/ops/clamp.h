#pragma once
/// An activation that holds its operand within bounds.
#include <limits>

namespace infer {

/// y = min(max(x, low), high), element by element; NaN stays.
struct Clamp {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  /// max(x, 0) alone.
  bool is_relu() const { return low == 0 && high == std::numeric_limits<double>::infinity(); }
};

}  // namespace infer
