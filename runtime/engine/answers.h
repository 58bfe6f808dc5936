#pragma once
/// Facts that routes read in answers: how sure a classifier is, and how two answers differ.
#include <optional>
#include <vector>

#include "lib/tensor/datum.h"

namespace infer::engine {

/// How sure a classifier is: the largest probability along the last axis, the lowest of all rows.
/// `logits`: the numbers are made probabilities by Softmax first. Nothing where it is no tensor of
/// floating-point numbers with elements, or holds no probabilities: each in [0, 1], a row's sum
/// within 1 % of 1.
std::optional<double> Confidence(const Datum& output, bool logits);

struct Difference {
  bool comparable = true;  ///< the same number of tensors, types and extents
  int64_t rows = 0;        ///< of the first output, along its last axis
  int64_t other_top1 = 0;  ///< rows whose largest element lies elsewhere
  /// The largest difference of two elements of an output, by its largest magnitude in `a`.
  double worst = 0;
};
Difference Compare(const std::vector<Datum>& a, const std::vector<Datum>& b);

}  // namespace infer::engine
