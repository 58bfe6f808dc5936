#pragma once
/// Means of 8-bit codes from their sums.
#include <array>
#include <cmath>

#include "runtime/cpu/kernels/int8/byte_pool.h"
#include "runtime/cpu/simd/byte_sums.h"

namespace infer {

/// The mean as the graph makes it (ByteAverage): each code a real number in f32, their sum in
/// double, the mean in f32, its quantization. Sums of codes bound that mean to some 1e-5 of a step;
/// where both bounds round to one code it is the result, else the real numbers are added.
class ByteMean {
 public:
  ByteMean(const ByteScale& from, const ByteScale& to, bool rounds_last);

  uint8_t flip() const { return flip_; }
  /// Of a byte as it lies in memory.
  double Real(std::byte code) const { return real_[static_cast<uint8_t>(code)]; }

  /// y[i], i < n: the mean of `elements` bytes of which sums[i] is the sum (simd::ByteSums, by
  /// `flip`), divided by `divisor`. `exact(i)` gives the sum of their real numbers.
  /// Pre: n <= kTile.
  static constexpr int64_t kTile = 256;
  template <typename Exact>
  void Write(const uint32_t* sums, int64_t n, int64_t elements, int64_t divisor, std::byte* y,
             Exact exact) const {
    float low[kTile], high[kTile];
    std::byte other[kTile];
    const double parts = static_cast<double>(elements) / static_cast<double>(divisor);
    simd::TheByteSums().bounds(sums, n, elements * zero_, scale_ / static_cast<double>(divisor),
                               parts * error_, low, high);
    Quantize(low, n, y);
    Quantize(high, n, other);
    for (int64_t i = 0; i < n; ++i) {
      if (y[i] == other[i]) continue;
      const auto mean = static_cast<float>(exact(i) / static_cast<double>(divisor));
      Quantize(&mean, 1, y + i);
    }
  }

 private:
  void Quantize(const float* real, int64_t n, std::byte* y) const;

  ByteScale to_;
  bool rounds_last_;
  uint8_t flip_;
  int64_t zero_;  ///< among bytes as they are added
  double scale_;
  double error_;  ///< of a code's real number at most; infinite where one overflows
  std::array<double, 256> real_;
};

}  // namespace infer
