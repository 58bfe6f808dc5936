// Whether vgatherdps with a displacement gives what the table holds. qemu 7.2's emulation leaves
// the displacement out, and oneDNN's tanh reads its table so. Exit 0: it does; 1: it does not.
#include <immintrin.h>

int main() {
  float table[16], got[8];
  for (int i = 0; i < 16; ++i) table[i] = static_cast<float>(i);
  const __m256i index = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(-1)), out = _mm256_setzero_ps();
  asm volatile("vgatherdps %1, 32(%2,%3,4), %0"
               : "+&x"(out), "+&x"(mask)
               : "r"(table), "x"(index)
               : "memory");
  _mm256_storeu_ps(got, out);
  for (int i = 0; i < 8; ++i)
    if (got[i] != table[8 + 7 - i]) return 1;
  return 0;
}
