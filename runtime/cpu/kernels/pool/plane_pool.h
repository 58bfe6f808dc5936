#pragma once
/// MaxPool and AveragePool of planes, [planes, d, h, w] as ONNX has them, in boxes of results whose
/// rows stay in the caches (runtime/cpu/simd/pools.h).
///
/// Beside oneDNN, which turns planes into blocks of channels and back, and ONNX Runtime 1.30, one
/// thread of an Intel Xeon (AVX-512): docs/performance.md.
#include <array>
#include <cstdint>
#include <vector>

#include "lib/ops/conv/conv_geometry.h"
#include "runtime/cpu/simd/pools.h"

namespace infer {

class PlanePool {
 public:
  enum class Kind : uint8_t { kMax, kAverage, kAverageWithPadding };

  /// Of extents `in` and `out` [N, C, d...] with up to three axes d. Unsupported where a row of one
  /// result takes more than the caches have, or an axis has more than 2^20 elements.
  static Result<PlanePool> Of(Kind kind, const Window& window, const Dims& in, const Dims& out);

  void Run(const float* x, float* y) const;

 private:
  struct Axis {
    simd::PoolGrid grid;
    std::vector<simd::PoolSpan> spans;
    std::vector<float> divisors;
  };
  bool SetBoxes();

  Kind kind_ = Kind::kMax;
  int64_t planes_ = 1;
  std::array<Axis, 3> axes_;         ///< one point where there is no axis
  std::array<int64_t, 3> box_ = {};  ///< results of a box
};

}  // namespace infer
