#pragma once
/// MaxPool of planes with the places of the maxima, row of results by row.
#include <array>
#include <cstdint>

namespace infer {

/// One axis of a pooling: result o reads o * stride - pad + k * dilation for k in [0, kernel).
struct PoolAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;

  int64_t at(int64_t o) const { return o * stride - pad; }
  /// The taps [first, end) of result o that lie in the operand.
  int64_t first_tap(int64_t o) const;
  int64_t end_tap(int64_t o) const;
};

struct PlanePlaces {
  int64_t planes = 1;
  std::array<PoolAxis, 3> axes;  ///< one point where there is no axis
  bool column_major = false;     ///< places count with the first axis fastest (storage_order 1)

  /// Places are counted in 32 bits within a plane.
  bool fits() const;
  /// y, places: [planes, out], either may be nullptr. The first of equal maxima gives its place in
  /// x, counted over all planes; a NaN stays where it is the first. A window of padding alone gives
  /// -infinity and -1.
  void Run(const float* x, float* y, int64_t* places) const;

 private:
  /// Results that are found at once.
  static constexpr int64_t kResults = 256;
  void Part(const float* x, int64_t plane, int64_t row, int64_t first, int64_t count, float* y,
            int64_t* places) const;
  int64_t PlaceOf(int64_t at) const;
};

}  // namespace infer
