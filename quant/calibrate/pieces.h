#pragma once
/// The elements of a value in whatever layout it lies, without what pads it.
#include <algorithm>
#include <span>

#include "runtime/api/program.h"

namespace infer {

/// Calls f(std::span<const float>) with pieces that hold every element once, in no order. Pre: f32.
template <typename F>
void ForEachPiece(const RawValue& v, const F& f) {
  const auto* x = reinterpret_cast<const float*>(v.data);
  const int64_t all = NumElements(v.dims), block = v.channel_block;
  if (all == 0) return;
  const auto piece = [](const float* at, int64_t n) {
    return std::span<const float>(at, static_cast<size_t>(n));
  };
  const int64_t channels = block == 0 ? 0 : v.dims[1];
  if (block == 0 || channels % block == 0) return f(piece(x, all));
  const int64_t spatial = all / (v.dims[0] * channels), rest = channels % block;
  const int64_t full = channels / block * block * spatial, sample = full + block * spatial;
  constexpr int64_t kMost = 4096;
  float packed[kMost];
  for (int64_t n = 0; n < v.dims[0]; ++n, x += sample) {
    if (full > 0) f(piece(x, full));
    int64_t k = 0;
    for (int64_t s = 0; s < spatial; ++s, k += rest) {
      if (k + rest > kMost) {
        f(piece(packed, k));
        k = 0;
      }
      std::copy_n(x + full + s * block, rest, packed + k);
    }
    f(piece(packed, k));
  }
}

/// Element [n, c, s] of a value of f32, where s counts over the dimensions behind c. Pre: rank
/// >= 2.
inline int64_t RawOffset(const RawValue& v, int64_t spatial, int64_t n, int64_t c, int64_t s) {
  const int64_t channels = v.dims[1], b = v.channel_block;
  if (b == 0) return (n * channels + c) * spatial + s;
  const int64_t blocks = (channels + b - 1) / b;
  return ((n * blocks + c / b) * spatial + s) * b + c % b;
}

}  // namespace infer
