#pragma once
/// LabelEncoder's list of keys and values, read once for a node.
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "lib/ops/ml/ml_scores.h"

namespace infer {

struct LabelTable {
  DType key = DType::kUndefined;
  Tensor values, otherwise;  ///< `otherwise` has one element
  /// The place of a key among the values: by text, or by number (KeyOf).
  std::unordered_map<std::string, int64_t> texts;
  std::unordered_map<int64_t, int64_t> numbers;

  /// A key that is the same for labels that are taken for equal: integers as they are, floats by
  /// value, with one zero and one NaN.
  static int64_t KeyOf(int64_t v) { return v; }
  static int64_t KeyOf(double v) {
    const double one = std::isnan(v) ? std::nan("") : v + 0.0;
    int64_t bits;
    std::memcpy(&bits, &one, sizeof bits);
    return bits;
  }
  /// The place of a number's value; -1: it is not listed.
  int64_t PlaceOf(int64_t key) const {
    const auto found = numbers.find(key);
    return found == numbers.end() ? -1 : found->second;
  }
};
Result<std::shared_ptr<const void>> PrepareLabels(const OpCall& call);

}  // namespace infer
