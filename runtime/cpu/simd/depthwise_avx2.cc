/// Depthwise loops for avx2; compile flags are set in runtime/CMakeLists.txt.
#define INFER_DEPTHWISE_NAME "avx2"
#define INFER_DEPTHWISE_TABLE Avx2Depthwise
#include "runtime/cpu/simd/depthwise.inc"
