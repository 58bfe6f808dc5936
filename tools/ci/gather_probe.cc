// Whether vgatherdps under a mask gives what the table holds. qemu 7.2's emulation does not, and oneDNN's tanh reads
// its table so. Exit 0: it does; 1: it does not.
#include <immintrin.h>

int main() {
  float table[8], got[8];
  for (int i = 0; i < 8; ++i) table[i] = static_cast<float>(i + 1);
  const __m256i index = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const __m256 all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  _mm256_storeu_ps(got, _mm256_mask_i32gather_ps(_mm256_setzero_ps(), table, index, all, 4));
  for (int i = 0; i < 8; ++i)
    if (got[i] != table[7 - i]) return 1;
  return 0;
}
