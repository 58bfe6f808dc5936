/// Weight-only products for AVX-512 with VNNI; compile flags are set in runtime/CMakeLists.txt.
#define INFER_WEIGHT_ONLY_NAME "vnni"
#define INFER_WEIGHT_ONLY_TABLE VnniWeightOnly
#include "runtime/cpu/simd/weight_only.inc"
