/// 14 rows by two vectors of columns in 28 accumulators: 970 of 1024 GOP/s with a and b in L2.
/// Compile flags come with the file's name (runtime/cpu/simd/CMakeLists.txt).
#include <immintrin.h>

#include <utility>

#include "runtime/cpu/simd/bytes.h"

namespace infer::simd {
namespace {

#define INFER_INLINE [[gnu::always_inline]] inline
#define INFER_INLINED __attribute__((always_inline))

/// f(0) .. f(n - 1) with constants: an array that only they index lies in registers, whereas gcc
/// leaves one that an unrolled loop indexes in memory.
template <int n, typename F>
INFER_INLINE void Each(const F& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) INFER_INLINED {
    (f(std::integral_constant<int, i>()), ...);
  }(std::make_integer_sequence<int, n>());
}

using Form = ByteFinish::Form;

inline __m512 Clamp(__m512 v, __m512 lo, __m512 hi) {
  return _mm512_min_ps(_mm512_max_ps(v, lo), hi);
}

inline __m512 Float(__m512i v) { return _mm512_castsi512_ps(v); }
inline __m512i Bits(__m512 v) { return _mm512_castps_si512(v); }

/// Of kRows rows; in registers as long as all that takes it is inlined and unrolled.
template <int kRows>
using Sums = __m512i[kRows][2];

/// One quad of k: rows at a + r * stride, through a base for every third row, from which the
/// scales of an address reach the others.
template <int kRows>
INFER_INLINE void Quad(Sums<kRows>& sum, const uint8_t* const (&base)[(kRows + 2) / 3],
                       int64_t stride, const int8_t* b, int64_t at) {
  const __m512i w0 = _mm512_load_si512(b), w1 = _mm512_load_si512(b + 64);
  Each<kRows>([&](auto r) INFER_INLINED {
    int32_t quad;
    __builtin_memcpy(&quad, base[r / 3] + r % 3 * stride + at, 4);
    const __m512i x = _mm512_set1_epi32(quad);
    sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], x, w0);
    sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], x, w1);
  });
}

/// Numbers of 0 .. 255 as bytes: two rows at a time, so that one shuffle orders what the packing
/// mixes.
template <int kRows>
INFER_INLINE void StoreBytes(const Sums<kRows>& sum, const ByteCall& c) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(c.finish->flip));
  Each<(kRows + 1) / 2>([&](auto i) INFER_INLINED {
    constexpr int r = 2 * i, next = r + 1 < kRows ? r + 1 : r;
    const __m512i words[2] = {_mm512_packs_epi32(sum[r][0], sum[r][1]),
                              _mm512_packs_epi32(sum[next][0], sum[next][1])};
    const __m512i bytes = _mm512_xor_si512(
        _mm512_permutexvar_epi32(order, _mm512_packus_epi16(words[0], words[1])), flip);
    std::byte* d = c.d + r * c.d_stride;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(d), _mm512_castsi512_si256(bytes));
    if constexpr (next != r)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + c.d_stride),
                          _mm512_extracti64x4_epi64(bytes, 1));
  });
}

/// The other operand, less its zero point.
template <bool kPlain>
INFER_INLINE __m512 Other(const std::byte* d, __m128i flip, __m512i zero) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(d));
  if constexpr (kPlain) return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
  return _mm512_cvtepi32_ps(
      _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_xor_si128(bytes, flip)), zero));
}

template <int kRows, bool kPlain>
INFER_INLINE void AddOther(Sums<kRows>& sum, const ByteCall& c) {
  constexpr int kEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const ByteFinish& f = *c.finish;
  const __m512 lo = _mm512_set1_ps(f.lo), hi = _mm512_set1_ps(f.hi);
  const __m512 scale = _mm512_set1_ps(f.sum_scale), other_scale = _mm512_set1_ps(f.other_scale);
  const __m512i other_zero = _mm512_set1_epi32(f.other_zero);
  const __m128i flip = _mm_set1_epi8(static_cast<char>(f.flip));
  Each<2 * kRows>([&](auto i) INFER_INLINED {
    constexpr int r = i / 2, j = i % 2;
    const __m512 v = _mm512_roundscale_ps(Clamp(Float(sum[r][j]), lo, hi), kEven);
    const __m512 other = Other<kPlain>(c.d + r * c.d_stride + j * 16, flip, other_zero);
    sum[r][j] = Bits(_mm512_fmadd_ps(other, other_scale, _mm512_mul_ps(v, scale)));
  });
}

template <int kRows>
INFER_INLINE void Finish(Sums<kRows>& sum, const ByteCall& c) {
  const ByteFinish& f = *c.finish;
  if (f.form == Form::kInts)
    return Each<2 * kRows>([&](auto i) INFER_INLINED {
      constexpr int r = i / 2, j = i % 2;
      _mm512_storeu_si512(c.d + r * c.d_stride + j * 64, sum[r][j]);
    });
  const __m512 bias[2] = {_mm512_loadu_ps(c.bias), _mm512_loadu_ps(c.bias + 16)};
  const __m512 scale[2] = {_mm512_loadu_ps(c.scale), _mm512_loadu_ps(c.scale + 16)};
  Each<2 * kRows>([&](auto i) INFER_INLINED {
    constexpr int r = i / 2, j = i % 2;
    const __m512 v = _mm512_add_ps(_mm512_cvtepi32_ps(sum[r][j]), bias[j]);
    sum[r][j] = Bits(_mm512_mul_ps(v, scale[j]));
  });
  if (f.clips) {
    const __m512 lo = _mm512_set1_ps(f.clip_lo), hi = _mm512_set1_ps(f.clip_hi);
    const __m512 then = _mm512_set1_ps(f.clip_scale);
    Each<2 * kRows>([&](auto i) INFER_INLINED {
      constexpr int r = i / 2, j = i % 2;
      sum[r][j] = Bits(_mm512_mul_ps(Clamp(Float(sum[r][j]), lo, hi), then));
    });
  }
  if (f.form == Form::kFloat && c.plus) {
    const __m512 plus[2] = {_mm512_loadu_ps(c.plus), _mm512_loadu_ps(c.plus + 16)};
    Each<2 * kRows>([&](auto i) INFER_INLINED {
      constexpr int r = i / 2, j = i % 2;
      sum[r][j] = Bits(_mm512_add_ps(Float(sum[r][j]), plus[j]));
    });
  }
  if (f.form == Form::kFloat)
    return Each<2 * kRows>([&](auto i) INFER_INLINED {
      constexpr int r = i / 2, j = i % 2;
      _mm512_storeu_ps(c.d + r * c.d_stride + j * 64, Float(sum[r][j]));
    });
  const bool adds = f.form == Form::kResidual;
  if (adds) {
    if (f.flip == 0 && f.other_zero == 0)
      AddOther<kRows, true>(sum, c);
    else
      AddOther<kRows, false>(sum, c);
  }
  const __m512 lo = _mm512_set1_ps(adds ? f.sum_lo : f.lo);
  const __m512 hi = _mm512_set1_ps(adds ? f.sum_hi : f.hi);
  const __m512i zero = _mm512_set1_epi32(f.zero);
  Each<2 * kRows>([&](auto i) INFER_INLINED {
    constexpr int r = i / 2, j = i % 2;
    sum[r][j] = _mm512_add_epi32(_mm512_cvtps_epi32(Clamp(Float(sum[r][j]), lo, hi)), zero);
  });
  StoreBytes<kRows>(sum, c);
}

template <int kRows>
void Multiply(const ByteCall& c) {
  constexpr int kBases = (kRows + 2) / 3;
  Sums<kRows> sum;
  const __m512i start[2] = {_mm512_loadu_si512(c.start), _mm512_loadu_si512(c.start + 16)};
  Each<2 * kRows>([&](auto i) INFER_INLINED { sum[i / 2][i % 2] = start[i % 2]; });
  // What the sums end in may lie in L3; they take longer than it takes to come.
  Each<kRows>([&](auto r) INFER_INLINED { __builtin_prefetch(c.d + r * c.d_stride, 1, 3); });
  const uint8_t* base[kBases];
  Each<kBases>([&](auto i) INFER_INLINED { base[i] = c.a + 3 * i * c.a_stride; });
  const int8_t* b = c.b;
  const std::byte* ahead = c.ahead;
  const int64_t stride = c.a_stride;
  int64_t quads = c.quads;
  for (; quads >= 4; quads -= 4) {
    for (int i = 0; i < c.ahead_lines; ++i, ahead += 64) _mm_prefetch(ahead, _MM_HINT_T1);
    Each<4>([&](auto q) INFER_INLINED { Quad<kRows>(sum, base, stride, b + q * 128, q * 4); });
    Each<kBases>([&](auto i) INFER_INLINED { base[i] += 16; });
    b += 512;
  }
  for (; quads > 0; --quads) {
    Quad<kRows>(sum, base, stride, b, 0);
    Each<kBases>([&](auto i) INFER_INLINED { base[i] += 4; });
    b += 128;
  }
  Finish<kRows>(sum, c);
}

template <int kRows>
void MultiplyRows(int rows, const ByteCall& c) {
  if constexpr (kRows > 1)
    if (rows < kRows) return MultiplyRows<kRows - 1>(rows, c);
  Multiply<kRows>(c);
}

}  // namespace

void MultiplyBytesVnni(int rows, const ByteCall& call) { MultiplyRows<kByteTileRows>(rows, call); }

}  // namespace infer::simd
