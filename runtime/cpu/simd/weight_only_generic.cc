/// Weight-only products for the baseline; compile flags are set in runtime/CMakeLists.txt.
#define INFER_WEIGHT_ONLY_NAME "generic"
#define INFER_WEIGHT_ONLY_TABLE GenericWeightOnly
#include "runtime/cpu/simd/weight_only.inc"
