/// The table in four registers: two two-register permutations by the lower 7 bits of the index, and
/// a choice by the 8th. Compile flags come with the file's name (runtime/cpu/simd/CMakeLists.txt).
#include <immintrin.h>

#include "runtime/cpu/simd/look_up.h"

namespace infer::simd {

void LookUpVbmi(const uint8_t* x, uint8_t* y, int64_t n, const uint8_t* table) {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64);
  const __m512i t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 in = n - i >= 64 ? ~0ull : (1ull << (n - i)) - 1;
    const __m512i index = _mm512_maskz_loadu_epi8(in, x + i);
    const __m512i low = _mm512_permutex2var_epi8(t0, index, t1);
    const __m512i high = _mm512_permutex2var_epi8(t2, index, t3);
    _mm512_mask_storeu_epi8(y + i, in,
                            _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high));
  }
}

}  // namespace infer::simd
