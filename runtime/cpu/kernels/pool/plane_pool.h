#pragma once
/// Pooling of planes, [planes, d, h, w] as ONNX has them: rows of the window first, along whole
/// rows of the operand, then its columns. For layouts that oneDNN pools by plain loops.
#include <array>
#include <cstdint>

namespace infer {

/// One axis of a pooling: result o reads o * stride - pad + k * dilation for k in [0, kernel).
struct PoolAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;

  int64_t at(int64_t o) const { return o * stride - pad; }
  /// Numbers from the first to the last that a result reads.
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  /// The taps [first, end) of result o that lie in the operand.
  int64_t first_tap(int64_t o) const;
  int64_t end_tap(int64_t o) const;
};

struct PlanePool {
  enum class Kind : uint8_t { kMax, kAverage, kAverageWithPadding };

  /// Numbers of a row, with its padding, that are combined while they are in L1.
  static constexpr int64_t kPart = 2048;

  Kind kind = Kind::kMax;
  int64_t planes = 1;
  std::array<PoolAxis, 3> axes;  ///< one point where there is no axis

  bool fits() const { return axes[2].reach() <= kPart; }
  /// Every average is its sum in the order of the window by rows, divided once. Pre: fits(), and no
  /// window lies in the padding alone.
  void Run(const float* x, float* y) const;

 private:
  /// Results [first, first + count) of row `row`, of all planes.
  void Part(const float* plane, int64_t row, int64_t first, int64_t count, float* y) const;
  /// The window's rows combined, of the padded row's numbers from `left` on.
  void CombineRows(const float* plane, int64_t row, int64_t left, int64_t width, float* to) const;
  void Divide(int64_t row, int64_t first, int64_t count, float* y) const;
  int64_t RowTaps(int64_t row) const;
};

}  // namespace infer
