#pragma once
/// Seeded random numbers with the same sequence on every platform (PCG32; O'Neill, "PCG: A Family
/// of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number Generation",
/// HMC-CS-2014-0905). std:: distributions are not used: they differ between libraries.
#include <cstdint>

namespace infer {

class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 1) : increment_((stream << 1) | 1) {
    NextU32();
    state_ += seed;
    NextU32();
  }
  uint32_t NextU32() {
    const uint64_t old = state_;
    state_ = old * 6364136223846793005ull + increment_;
    const auto shifted = static_cast<uint32_t>(((old >> 18) ^ old) >> 27);
    const auto rot = static_cast<uint32_t>(old >> 59);
    return (shifted >> rot) | (shifted << ((32 - rot) & 31));
  }
  uint64_t NextU64() { return (static_cast<uint64_t>(NextU32()) << 32) | NextU32(); }
  /// Uniform in [0, bound). Pre: bound > 0. The bias of the multiply-shift is below 2^-32 * bound.
  uint32_t Below(uint32_t bound) {
    return static_cast<uint32_t>((static_cast<uint64_t>(NextU32()) * bound) >> 32);
  }
  /// Uniform in [0, 1).
  double Uniform() { return NextU32() * 0x1p-32; }
  double Uniform(double lo, double hi) { return lo + (hi - lo) * Uniform(); }
  /// Standard normal (Box-Muller; the second value of each pair is kept).
  double Normal();

 private:
  uint64_t state_ = 0, increment_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace infer
