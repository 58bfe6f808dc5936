#pragma once
/// Shared by the files of normalizations: statistics in double, two-pass, and their epsilon.
#include "lib/ops/op_def.h"

namespace infer {

struct Moments {
  double mean = 0, variance = 0;
};

template <typename T>
Moments MomentsOf(const T* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i]) - mean;
    squares += d * d;
  }
  return {mean, squares / static_cast<double>(n)};
}

/// Elements of the axes from `begin` to before `end`.
inline int64_t ElementsBetween(const Dims& dims, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t i = begin; i < end; ++i) n *= dims[i];
  return n;
}

inline AttrDef EpsilonAttr() { return {"epsilon", AttrKind::kFloat, 1e-5f}; }

}  // namespace infer
