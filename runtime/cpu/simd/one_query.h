#pragma once
/// Attention of one query to a cache of keys and values: bound by reading both once; and the
/// rotation of heads by their position. Compiled once per instruction set (one_query.inc) and
/// chosen at run time. No allocation, no threads here.
#include <cstdint>

namespace infer::simd {

struct OneQuery {
  const char* isa;
  /// scores[j] = scale * sum_e q[e] * k[j * row + e]
  void (*scores)(const float* q, const float* k, int64_t row, int64_t keys, int64_t depth,
                 float scale, float* scores);
  /// y[e] = sum_j p[j] * v[j * row + e]
  void (*mix)(const float* p, const float* v, int64_t row, int64_t keys, int64_t values, float* y);
  /// Pair d of `half` pairs (a, b) of x becomes (a cos[d] - b sin[d], a sin[d] + b cos[d]):
  /// elements 2 d and 2 d + 1 when interleaved, d and half + d otherwise. y may be x.
  void (*rotate)(const float* x, const float* cos, const float* sin, int64_t half, bool interleaved,
                 float* y);
};

/// The best table that this machine and INFER_MAX_ISA allow.
const OneQuery& TheOneQuery();

}  // namespace infer::simd
