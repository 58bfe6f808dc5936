#include "lib/support/hash.h"

#include <cstring>

namespace infer {
namespace {

uint64_t Load(const uint8_t* p, size_t n) {
  uint64_t v = 0;
  std::memcpy(&v, p, n);
  return v;
}

}  // namespace

uint64_t HashBytes(const void* data, size_t size, uint64_t seed) {
  const auto* p = static_cast<const uint8_t*>(data);
  // Two independent chains hide the multiplier's latency (about 16 bytes per 5 cycles).
  uint64_t a = seed ^ 0x8ebc6af09c88c6e3ull, b = seed ^ 0x589965cc75374cc3ull;
  size_t n = size;
  for (; n >= 16; n -= 16, p += 16) {
    a = Hasher::Mix(a ^ Load(p, 8), 0x1d8e4e27c47d124full);
    b = Hasher::Mix(b ^ Load(p + 8, 8), 0xeb44accab455d165ull);
  }
  if (n >= 8) {
    a = Hasher::Mix(a ^ Load(p, 8), 0x1d8e4e27c47d124full);
    n -= 8, p += 8;
  }
  if (n > 0) b = Hasher::Mix(b ^ Load(p, n), 0xeb44accab455d165ull);
  return Hasher::Mix(a ^ size, b | 1);
}

}  // namespace infer
