#pragma once
/// Pooling of planes [d, h, w] as ONNX has them, a box of results at a time: rows of the operand
/// along w first, then those rows down h and d. Compiled once per instruction set (pools.inc); all
/// give the same bits. Maxima are those of the reference kernels, and NaN where a window begins
/// with one.
#include <cstdint>

namespace infer::simd {

/// No vector has more floats.
constexpr int64_t kPoolVector = 16;

/// The taps of one result along one axis that lie in the operand: first + k * dilation, k < count.
struct PoolSpan {
  int64_t first = 0, count = 1;
};

/// One axis of a pooling: result o reads o * stride - pad + k * dilation for k < kernel.
struct PoolGrid {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  const PoolSpan* spans = nullptr;  ///< [out]
  /// [out + kPoolVector], whose product over the axes divides a sum; not of maxima.
  const float* divisors = nullptr;
};

/// Results first .. first + count - 1 of each axis.
struct PoolBox {
  int64_t first[3] = {0, 0, 0}, count[3] = {1, 1, 1};
};

/// Floats of the rows combined along w, and of padded rows that a table keeps on its stack.
constexpr int64_t kPoolRows = 1 << 14, kPoolLines = 1 << 12;
/// Combined rows of `results` results take so many floats each; padded rows so many.
constexpr int64_t PoolPitch(int64_t results) {
  return (results + kPoolVector - 1) / kPoolVector * kPoolVector;
}
constexpr int64_t PoolLine(const PoolGrid& w, int64_t results) {
  return PoolPitch(PoolPitch(results) * w.stride + (w.kernel - 1) * w.dilation + kPoolVector);
}

/// Planes one behind the other; behind the first number of the first lie `readable` floats.
struct PoolPlanes {
  int64_t count = 1, readable = 0;
};

struct Pools {
  /// Writes the box of each plane of y from x.
  /// Pre: the rows that the box reads, each of PoolPitch(count[2]), take at most kPoolRows floats,
  /// and PoolLine(axes[2], count[2]) <= kPoolLines.
  using BoxFn = void (*)(const PoolPlanes& planes, const PoolGrid (&axes)[3], const PoolBox& box,
                         const float* x, float* y);
  BoxFn max, average;
};

/// Chosen like TheLoops().
const Pools& ThePools();

}  // namespace infer::simd
