/// 14 rows by two vectors of columns in 28 accumulators: 970 of 1024 GOP/s with a and b in L2.
/// Compile flags come with the file's name (runtime/cpu/simd/CMakeLists.txt).
#include <immintrin.h>

#include <utility>

#include "runtime/cpu/simd/bytes.h"

namespace infer::simd {
namespace {

#include "runtime/cpu/simd/byte_finish.inc"

/// One quad of k: rows at a + r * stride, through a base for every third row, from which the
/// scales of an address reach the others.
template <int kRows>
INFER_INLINE void Quad(Sums<kRows, 2>& sum, const uint8_t* const (&base)[(kRows + 2) / 3],
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

template <int kRows>
void Multiply(const ByteCall& c) {
  constexpr int kBases = (kRows + 2) / 3;
  // Sums of few rows would wait for each other: those of every second or fourth quad are apart.
  constexpr int kParts = kRows == 1 ? 4 : kRows <= 3 ? 2 : 1;
  Sums<kRows, 2> parts[kParts] = {};
  Sums<kRows, 2>& sum = parts[0];
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
    Each<4>([&](auto q) INFER_INLINED {
      Quad<kRows>(parts[q % kParts], base, stride, b + q * 128, q * 4);
    });
    Each<kBases>([&](auto i) INFER_INLINED { base[i] += 16; });
    b += 512;
  }
  for (; quads > 0; --quads) {
    Quad<kRows>(sum, base, stride, b, 0);
    Each<kBases>([&](auto i) INFER_INLINED { base[i] += 4; });
    b += 128;
  }
  Each<2 * kRows>([&](auto i) INFER_INLINED {
    Each<kParts - 1>([&](auto part) INFER_INLINED {
      sum[i / 2][i % 2] = _mm512_add_epi32(sum[i / 2][i % 2], parts[part + 1][i / 2][i % 2]);
    });
  });
  Finish<kRows, 2>(sum, c);
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
