/// 28 rows by one vector of columns in 28 accumulators: a listed quad of weights is one vector, by
/// four bytes of each row. Compile flags come with the file's name
/// (runtime/cpu/simd/CMakeLists.txt).
#include <immintrin.h>

#include <utility>

#include "runtime/cpu/simd/bytes.h"

namespace infer::simd {
namespace {

#include "runtime/cpu/simd/byte_finish.inc"

template <int kRows>
void Multiply(const SparseByteCall& c) {
  Sums<kRows, 1> sum;
  const __m512i start = _mm512_loadu_si512(c.start);
  Each<kRows>([&](auto r) INFER_INLINED { sum[r][0] = start; });
  const int8_t* w = c.w;
  const uint32_t *at = c.at, *const end = c.at + c.count;
  for (; at < end; ++at, w += 64) {
    const uint8_t* const x = c.x + *at * c.step;
    const __m512i weights = _mm512_load_si512(w);
    Each<kRows>([&](auto r) INFER_INLINED {
      int32_t quad;
      __builtin_memcpy(&quad, x + r * kByteQuad, 4);
      sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], _mm512_set1_epi32(quad), weights);
    });
  }
  Finish<kRows, 1>(sum, c);
}

/// Of one row, whose quads may lie side by side: four sums, so that none waits for the one before.
void MultiplyOne(const SparseByteCall& c) {
  constexpr int kChains = 4;
  __m512i sum[kChains] = {_mm512_loadu_si512(c.start)};
  const auto add = [&](auto chain, int64_t i) INFER_INLINED {
    int32_t quad;
    __builtin_memcpy(&quad, c.x + c.at[i] * c.step, 4);
    sum[chain] =
        _mm512_dpbusd_epi32(sum[chain], _mm512_set1_epi32(quad), _mm512_load_si512(c.w + i * 64));
  };
  int64_t i = 0;
  for (; i + kChains <= c.count; i += kChains)
    Each<kChains>([&](auto chain) INFER_INLINED { add(chain, i + chain); });
  for (; i < c.count; ++i) add(Index<0>(), i);
  Sums<1, 1> all = {
      {_mm512_add_epi32(_mm512_add_epi32(sum[0], sum[1]), _mm512_add_epi32(sum[2], sum[3]))}};
  Finish<1, 1>(all, c);
}

/// A row of results: 16 numbers of 32 bits, or 16 bytes.
INFER_INLINE void CopyRow(bool wide, const std::byte* from, std::byte* to) {
  if (wide)
    _mm512_storeu_si512(to, _mm512_loadu_si512(from));
  else
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

/// Rows in steps of four; where some of them were not asked for, all go through a tile.
template <int kRows>
void MultiplyRows(int rows, const SparseByteCall& c) {
  if constexpr (kRows > 4)
    if (rows <= kRows - 4) return MultiplyRows<kRows - 4>(rows, c);
  if (rows == kRows) return Multiply<kRows>(c);
  const bool wide = c.finish->result_bytes() > 1;
  const int64_t bytes = kSparseByteColumns * c.finish->result_bytes();
  alignas(64) std::byte tile[kRows * kSparseByteColumns * 4] = {};
  if (c.finish->form == Form::kResidual)
    for (int r = 0; r < rows; ++r) CopyRow(wide, c.d + r * c.d_stride, tile + r * bytes);
  SparseByteCall call = c;
  call.d = tile;
  call.d_stride = bytes;
  Multiply<kRows>(call);
  for (int r = 0; r < rows; ++r) CopyRow(wide, tile + r * bytes, c.d + r * c.d_stride);
}

void MultiplySparse(int rows, const SparseByteCall& call) {
  if (rows == 1) return MultiplyOne(call);
  MultiplyRows<kSparseByteRows>(rows, call);
}

/// Turns 16 rows of 16 quads: pairs, pairs of pairs, then lanes of 128 bits.
INFER_INLINE void TurnQuads(__m512i (&v)[16]) {
  __m512i t[16];
  Each<8>([&](auto i) INFER_INLINED {
    t[2 * i] = _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
  });
  // v[4 g + q]: quad q of each lane, rows 4 g .. 4 g + 3.
  Each<4>([&](auto g) INFER_INLINED {
    v[4 * g] = _mm512_unpacklo_epi64(t[4 * g], t[4 * g + 2]);
    v[4 * g + 1] = _mm512_unpackhi_epi64(t[4 * g], t[4 * g + 2]);
    v[4 * g + 2] = _mm512_unpacklo_epi64(t[4 * g + 1], t[4 * g + 3]);
    v[4 * g + 3] = _mm512_unpackhi_epi64(t[4 * g + 1], t[4 * g + 3]);
  });
  Each<4>([&](auto q) INFER_INLINED {
    t[q] = _mm512_shuffle_i32x4(v[q], v[4 + q], 0x44);
    t[4 + q] = _mm512_shuffle_i32x4(v[q], v[4 + q], 0xee);
    t[8 + q] = _mm512_shuffle_i32x4(v[8 + q], v[12 + q], 0x44);
    t[12 + q] = _mm512_shuffle_i32x4(v[8 + q], v[12 + q], 0xee);
  });
  Each<4>([&](auto q) INFER_INLINED {
    v[q] = _mm512_shuffle_i32x4(t[q], t[8 + q], 0x88);
    v[4 + q] = _mm512_shuffle_i32x4(t[q], t[8 + q], 0xdd);
    v[8 + q] = _mm512_shuffle_i32x4(t[4 + q], t[12 + q], 0x88);
    v[12 + q] = _mm512_shuffle_i32x4(t[4 + q], t[12 + q], 0xdd);
  });
}

/// 16 rows from `first` on, up to 64 bytes of each from `k` on.
INFER_INLINE void TurnRows(const uint8_t* const (&rows)[kSparseByteRows], int first, int64_t k,
                           int64_t depth, __m512i flip, uint8_t* to) {
  const int64_t left = depth - k;
  const auto some = static_cast<__mmask64>(left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1);
  __m512i v[16];
  Each<16>([&](auto r) INFER_INLINED {
    v[r] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, rows[first + r] + k), flip);
  });
  TurnQuads(v);
  const int64_t quads = left >= 64 ? 16 : (left + 3) / 4;
  Each<16>([&](auto q) INFER_INLINED {
    if (q < quads)
      _mm512_storeu_si512(to + int64_t{q} * kSparseByteStep + int64_t{first} * kByteQuad, v[q]);
  });
}

void Turn(const uint8_t* const (&rows)[kSparseByteRows], int count, int64_t depth, uint8_t flip,
          uint8_t* to) {
  const __m512i flips = _mm512_set1_epi8(static_cast<char>(flip));
  for (int64_t k = 0; k < depth; k += 64, to += int64_t{16} * kSparseByteStep) {
    TurnRows(rows, 0, k, depth, flips, to);
    // Four rows once more.
    if (count > 16) TurnRows(rows, kSparseByteRows - 16, k, depth, flips, to);
  }
}

}  // namespace

const SparseBytes kSparseBytesVnni = {MultiplySparse, Turn};

}  // namespace infer::simd
