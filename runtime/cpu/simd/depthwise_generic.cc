/// Depthwise loops for the baseline; compile flags are set in runtime/CMakeLists.txt.
#define INFER_DEPTHWISE_NAME "generic"
#define INFER_DEPTHWISE_TABLE GenericDepthwise
#include "runtime/cpu/simd/depthwise.inc"
