#pragma once
/// Operators and 16-bit floats: which must stay f32, and which numbers a type holds.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

/// Why `node` stays f32 whatever its numbers are; "" when it need not.
std::string NeedsF32(const Node& node, DType to);
/// Its results can be much larger than its operands.
bool ResultsGrow(const Node& node);
/// Its results are bounded or scaled to a known size whatever its operands are.
bool ResultsBounded(const Node& node);
/// Multiplies and sums, or reads a table: worth a cast on each side.
bool IsHeavy(const Node& node);

/// Operands and results of `node` (indices) that change their type when the node does: every f32
/// operand whose type variable takes `to` (older opsets have one variable where newer ones have
/// several), and the results of these variables. Empty: the operator has no such form.
struct Retyped {
  std::vector<size_t> operands, results;
  bool empty() const { return operands.empty() && results.empty(); }
};
Retyped RetypedWith(const Node& node, DType to);

/// Watches numbers that are to be rounded to f16 or bf16. Infinities and NaN fit every type.
class RoundingCheck {
 public:
  explicit RoundingCheck(DType to) : to_(to) {}
  void See(std::span<const float> values);
  bool overflows(double room) const;
  /// "overflow f16 (up to 1e+06)", "become subnormal in f16 (...)", or "" when they fit. `room`:
  /// factor below the type's largest number that is left for numbers not seen.
  std::string Why(double room) const;

 private:
  DType to_;
  double most_ = 0, power_ = 0, error_ = 0;  // largest magnitude; sums of squares
  int64_t count_ = 0, small_ = 0;            // all; below the smallest normal number
};

}  // namespace infer
