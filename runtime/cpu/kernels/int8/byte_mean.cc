#include "runtime/cpu/kernels/int8/byte_mean.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {

ByteMean::ByteMean(const ByteScale& from, const ByteScale& to, bool rounds_last)
    : to_(to),
      rounds_last_(rounds_last),
      flip_(from.dtype == DType::kI8 ? 0x80 : 0),
      zero_(from.zero + flip_),
      scale_(static_cast<double>(from.scale)) {
  std::array<uint8_t, 256> codes;
  std::array<float, 256> real;
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  const simd::Loops& loops = simd::TheLoops();
  if (from.dtype == DType::kU8)
    loops.dequantize_u8(codes.data(), real.data(), 256, from.scale, from.zero);
  else
    loops.dequantize_s8(As<int8_t>(std::as_bytes(std::span(codes)).data()), real.data(), 256,
                        from.scale, from.zero);
  std::copy(real.begin(), real.end(), real_.begin());
  // Half a unit in the last place of the largest, and some for what sums in double round.
  const double most = std::abs(*std::max_element(
      real_.begin(), real_.end(), [](double a, double b) { return std::abs(a) < std::abs(b); }));
  error_ = std::isfinite(most) ? most * 0x1.2p-24 + std::numeric_limits<float>::denorm_min()
                               : std::numeric_limits<double>::infinity();
}

void ByteMean::Quantize(const float* real, int64_t n, std::byte* y) const {
  const simd::Loops& loops = simd::TheLoops();
  if (rounds_last_) {
    const float lo = LowestCode(to_.dtype), hi = lo + 255, zero = static_cast<float>(to_.zero);
    for (int64_t i = 0; i < n; ++i) {
      const float code = std::nearbyint(real[i] / to_.scale + zero);
      const float q = std::isnan(code) ? zero : std::clamp(code, lo, hi);
      y[i] = static_cast<std::byte>(static_cast<int32_t>(q));
    }
  } else if (to_.dtype == DType::kU8) {
    loops.quantize_u8(real, As<uint8_t>(y), n, to_.scale, to_.zero);
  } else {
    loops.quantize_s8(real, As<int8_t>(y), n, to_.scale, to_.zero);
  }
}

}  // namespace infer
