// Whether vgatherdps takes its indices from ymm4. qemu 7.2 takes that register's number for "no
// index", as it is where the index is no vector, and oneDNN's tanh reads its table so. Exit 0: it
// does; 1: it does not.
#include <immintrin.h>

__attribute__((target("avx2"))) int main() {
  float table[8], got[8];
  for (int i = 0; i < 8; ++i) table[i] = static_cast<float>(i);
  const __m256i index = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(-1)), out = _mm256_setzero_ps();
  asm volatile("vmovdqa %3, %%ymm4\n vgatherdps %1, (%2,%%ymm4,4), %0"
               : "+&x"(out), "+&x"(mask)
               : "r"(table), "x"(index)
               : "memory", "xmm4");
  _mm256_storeu_ps(got, out);
  for (int i = 0; i < 8; ++i)
    if (got[i] != table[7 - i]) return 1;
  return 0;
}
