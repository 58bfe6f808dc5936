#pragma once
/// 64-bit non-cryptographic hashing for fingerprints and caches. The value is stable across
/// machines and releases of one fingerprint version; it is no defence against an adversary
/// (model identity in reports is SHA-256, see support/file.h).
#include <cstdint>
#include <string_view>

namespace infer {

__extension__ typedef unsigned __int128 Uint128;  // ISO C++ has no 128-bit product

uint64_t HashBytes(const void* data, size_t size, uint64_t seed = 0);

/// Accumulates a hash over a sequence of values. Each piece is length-delimited, so ("ab","c") and
/// ("a","bc") differ.
class Hasher {
 public:
  Hasher& Add(uint64_t v) {
    state_ = Mix(state_ ^ v, 0x9e3779b97f4a7c15ull);
    return *this;
  }
  Hasher& Add(std::string_view s) { return Add(HashBytes(s.data(), s.size(), s.size())); }
  uint64_t value() const { return Mix(state_, 0xd6e8feb86659fd93ull); }

  static uint64_t Mix(uint64_t a, uint64_t b) {
    const Uint128 p = static_cast<Uint128>(a ^ 0xa0761d6478bd642full) * b;
    return static_cast<uint64_t>(p) ^ static_cast<uint64_t>(p >> 64);
  }

 private:
  uint64_t state_ = 0x2545f4914f6cdd1dull;
};

}  // namespace infer
