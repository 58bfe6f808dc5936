#pragma once
/// Equations of Einsum, read once for all that asks about them.
#include <string>
#include <vector>

#include "lib/support/status.h"

namespace infer {

/// A term per operand and that of the result, a character per axis: letters as written; axes of
/// "..." are the characters 1, 2, ... (outermost first).
struct EinsumEquation {
  std::vector<std::string> terms;
  std::string out;
};

/// `ranks` of all operands. InvalidModel where the equation is no such or does not fit them.
Result<EinsumEquation> ParseEinsum(std::string text, const std::vector<int>& ranks);

}  // namespace infer
