#include "tools/common/peak_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "lib/support/isa.h"

namespace infer {
namespace {

// What the compiler must take to be changed, it can neither fold nor hoist.
template <typename V>
[[gnu::always_inline]] inline void Keep(V& v) {
#if defined(__x86_64__)
  asm volatile("" : "+x"(v));
#else
  asm volatile("" : "+w"(v));
#endif
}

// Sixteen sums: two units of four cycles' latency need eight.
constexpr int kSums = 16;
constexpr int kInner = 64;

using F32x4 [[gnu::vector_size(16)]] = float;
using S32x4 [[gnu::vector_size(16)]] = int32_t;
using S16x8 [[gnu::vector_size(16)]] = int16_t;

void F32Generic(int64_t rounds) {
  F32x4 sums[8] = {};
  F32x4 a = {1, 1, 1, 1}, b = a;
  Keep(a);
  for (int64_t i = 0; i < rounds * kInner; ++i) {
    Keep(b);
#pragma GCC unroll 8
    for (F32x4& s : sums) s = s + a * b;
  }
  for (F32x4& s : sums) Keep(s);
}

void Int8Generic(int64_t rounds) {
  S16x8 sums[8] = {};
  S16x8 a = {1, 1, 1, 1, 1, 1, 1, 1}, b = a;
  Keep(a);
  for (int64_t i = 0; i < rounds * kInner; ++i) {
    Keep(b);
#pragma GCC unroll 8
    for (S16x8& s : sums) s = static_cast<S16x8>(s + a * b);
  }
  for (S16x8& s : sums) Keep(s);
}

void ReadGeneric(const std::byte* p, int64_t bytes) {
  S32x4 sums[4] = {};
  for (int64_t i = 0; i < bytes; i += 64)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) sums[k] |= *reinterpret_cast<const S32x4*>(p + i + 16 * k);
  for (S32x4& s : sums) Keep(s);
}

#if defined(__x86_64__)

#define INFER_AVX2 __attribute__((target("avx2,fma")))
#define INFER_AVX512 __attribute__((target("avx512f,avx512bw")))
#define INFER_VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))

INFER_AVX2 void F32Avx2(int64_t rounds) {
  __m256 sums[12];
  for (__m256& s : sums) s = _mm256_setzero_ps();
  __m256 a = _mm256_set1_ps(1);
  asm volatile("" : "+x"(a));
  __m256 b = a;
  for (int64_t i = 0; i < rounds * kInner; ++i) {
    asm volatile("" : "+x"(b));
#pragma GCC unroll 12
    for (__m256& s : sums) s = _mm256_fmadd_ps(a, b, s);
  }
  for (__m256& s : sums) asm volatile("" : "+x"(s));
}

/// Below VNNI exact sums take pairs of s16.
INFER_AVX2 void Int8Avx2(int64_t rounds) {
  __m256i sums[8];
  for (__m256i& s : sums) s = _mm256_setzero_si256();
  __m256i a = _mm256_set1_epi16(1);
  asm volatile("" : "+x"(a));
  for (int64_t i = 0; i < rounds * kInner; ++i) {
#pragma GCC unroll 8
    for (__m256i& s : sums) {
      __m256i b = a;
      asm volatile("" : "+x"(b));
      s = _mm256_add_epi32(s, _mm256_madd_epi16(a, b));
    }
  }
  for (__m256i& s : sums) asm volatile("" : "+x"(s));
}

INFER_AVX2 void ReadAvx2(const std::byte* p, int64_t bytes) {
  __m256i sums[8];
  for (__m256i& s : sums) s = _mm256_setzero_si256();
  for (int64_t i = 0; i < bytes; i += 256)
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k)
      sums[k] = _mm256_or_si256(
          sums[k], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i + 32 * k)));
  for (__m256i& s : sums) asm volatile("" : "+x"(s));
}

INFER_AVX512 void F32Avx512(int64_t rounds) {
  __m512 sums[kSums];
  for (__m512& s : sums) s = _mm512_setzero_ps();
  __m512 a = _mm512_set1_ps(1);
  asm volatile("" : "+v"(a));
  __m512 b = a;
  for (int64_t i = 0; i < rounds * kInner; ++i) {
    asm volatile("" : "+v"(b));
#pragma GCC unroll 16
    for (__m512& s : sums) s = _mm512_fmadd_ps(a, b, s);
  }
  for (__m512& s : sums) asm volatile("" : "+v"(s));
}

INFER_AVX512 void Int8Avx512(int64_t rounds) {
  __m512i sums[8];
  for (__m512i& s : sums) s = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi16(1);
  asm volatile("" : "+v"(a));
  for (int64_t i = 0; i < rounds * kInner; ++i) {
#pragma GCC unroll 8
    for (__m512i& s : sums) {
      __m512i b = a;
      asm volatile("" : "+v"(b));
      s = _mm512_add_epi32(s, _mm512_madd_epi16(a, b));
    }
  }
  for (__m512i& s : sums) asm volatile("" : "+v"(s));
}

INFER_VNNI void Int8Vnni(int64_t rounds) {
  __m512i sums[kSums];
  for (__m512i& s : sums) s = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi8(1);
  asm volatile("" : "+v"(a));
  __m512i b = a;
  for (int64_t i = 0; i < rounds * kInner; ++i) {
    asm volatile("" : "+v"(b));
#pragma GCC unroll 16
    for (__m512i& s : sums) s = _mm512_dpbusd_epi32(s, a, b);
  }
  for (__m512i& s : sums) asm volatile("" : "+v"(s));
}

INFER_AVX512 void ReadAvx512(const std::byte* p, int64_t bytes) {
  __m512i sums[8];
  for (__m512i& s : sums) s = _mm512_setzero_si512();
  for (int64_t i = 0; i < bytes; i += 512)
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k)
      sums[k] = _mm512_or_si512(sums[k], _mm512_loadu_si512(p + i + 64 * k));
  for (__m512i& s : sums) asm volatile("" : "+v"(s));
}

#endif

}  // namespace

PeakLoops BestPeakLoops() {
#if defined(__x86_64__)
  if (HasIsa(Isa::kAvx512)) {
    PeakLoops loops = {kInner * kSums * 16 * 2.0, kInner * 8 * 32 * 2.0, F32Avx512, Int8Avx512,
                       ReadAvx512};
    if (HasIsa(Isa::kVnni)) {
      loops.int8_ops = kInner * kSums * 64 * 2.0;
      loops.int8 = Int8Vnni;
    }
    return loops;
  }
  if (HasIsa(Isa::kAvx2))
    return {kInner * 12 * 8 * 2.0, kInner * 8 * 16 * 2.0, F32Avx2, Int8Avx2, ReadAvx2};
#endif
  return {kInner * 8 * 4 * 2.0, kInner * 8 * 8 * 2.0, F32Generic, Int8Generic, ReadGeneric};
}

}  // namespace infer
