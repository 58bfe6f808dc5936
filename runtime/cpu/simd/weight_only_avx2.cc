/// Weight-only products for AVX2 and FMA; compile flags are set in runtime/CMakeLists.txt.
#define INFER_WEIGHT_ONLY_NAME "avx2"
#define INFER_WEIGHT_ONLY_TABLE Avx2WeightOnly
#include "runtime/cpu/simd/weight_only.inc"
