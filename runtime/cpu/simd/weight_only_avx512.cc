/// Weight-only products for AVX-512 without VNNI; compile flags are set in runtime/CMakeLists.txt.
#define INFER_WEIGHT_ONLY_NAME "avx512"
#define INFER_WEIGHT_ONLY_TABLE Avx512WeightOnly
#include "runtime/cpu/simd/weight_only.inc"
