/// AVX-512 with VNNI; compile flags are set in runtime/CMakeLists.txt. Internal linkage only, as in
/// loops.inc.
#include <immintrin.h>

#include "runtime/cpu/simd/byte_attention.h"

namespace infer::simd {
namespace {

template <int kRows, int kVectors>
void Multiply(const ByteProduct& c) {
  __m512i sum[kRows][kVectors];
#pragma GCC unroll 32
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_si512();
  const uint8_t* a = c.a;
  const int32_t* b = c.panel;
  for (int64_t k = 0; k < c.quads; ++k) {
    __m512i w[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) w[v] = _mm512_loadu_si512(b + 16 * v);
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      __builtin_memcpy(&four, a + r * c.a_stride, 4);
      const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], x, w[v]);
    }
    a += 4;
    b += kByteWidth;
  }
#pragma GCC unroll 32
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      _mm512_storeu_si512(c.d + r * c.d_stride + 16 * v, sum[r][v]);
}

template <int kRows>
void MultiplyRows(int rows, const ByteProduct& c) {
  if constexpr (kRows > 1)
    if (rows < kRows) return MultiplyRows<kRows - 1>(rows, c);
  c.narrow ? Multiply<kRows, 1>(c) : Multiply<kRows, 2>(c);
}

void Widen(int32_t* s, const int32_t* columns, int32_t row, int64_t n) {
  const __m512i add = _mm512_set1_epi32(row);
  for (int64_t i = 0; i < n; i += 16) {
    const __m512i sum =
        _mm512_add_epi32(_mm512_loadu_si512(s + i), _mm512_loadu_si512(columns + i));
    _mm512_storeu_ps(s + i, _mm512_cvtepi32_ps(_mm512_add_epi32(sum, add)));
  }
}

int32_t Round(const float* e, int64_t n, float factor, uint8_t* p) {
  const __m512 f = _mm512_set1_ps(factor), most = _mm512_set1_ps(255);
  __m512i sum = _mm512_setzero_si512();
  for (int64_t i = 0; i < n; i += 16) {
    // The smaller of (x, 255), or 255 where x is not a number: then the mask gives 0.
    const __m512 x = _mm512_mul_ps(_mm512_loadu_ps(e + i), f);
    const __mmask16 number = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);
    const __m512i q = _mm512_maskz_cvtps_epi32(number, _mm512_min_ps(x, most));
    sum = _mm512_add_epi32(sum, q);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + i), _mm512_cvtepi32_epi8(q));
  }
  return _mm512_reduce_add_epi32(sum);
}

void Interleave(const uint8_t* const* rows, int64_t n, uint8_t flip, int32_t* to) {
  const __m512i flips = _mm512_set1_epi8(static_cast<char>(flip));
  for (int64_t j = 0; j < kByteWidth; j += 16) {
    const int64_t left = n - j;
    const __mmask16 there = left >= 16  ? static_cast<__mmask16>(0xffff)
                            : left <= 0 ? static_cast<__mmask16>(0)
                                        : static_cast<__mmask16>((1u << left) - 1);
    __m512i four = _mm512_setzero_si512();
    for (int r = 3; r >= 0; --r) {
      const __m512i bytes = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(there, rows[r] + j));
      four = _mm512_or_si512(_mm512_slli_epi32(four, 8), bytes);
    }
    _mm512_storeu_si512(to + j, _mm512_maskz_mov_epi32(there, _mm512_xor_si512(four, flips)));
  }
}

void Finish(const int32_t* d, int32_t zero, float factor, int64_t n, float* y) {
  const __m512i z = _mm512_set1_epi32(zero);
  const __m512 f = _mm512_set1_ps(factor);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512i v = _mm512_sub_epi32(_mm512_loadu_si512(d + i), z);
    _mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_cvtepi32_ps(v), f));
  }
  for (; i < n; ++i) y[i] = static_cast<float>(d[i] - zero) * factor;
}

const ByteAttentionLoops kTable = {
    [](int rows, const ByteProduct& call) { MultiplyRows<kByteRows>(rows, call); },
    Widen,
    Round,
    Interleave,
    Finish,
};

}  // namespace

const ByteAttentionLoops& VnniByteAttentionLoops() { return kTable; }

}  // namespace infer::simd
