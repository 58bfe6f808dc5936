/// Depthwise loops for avx512; compile flags are set in runtime/CMakeLists.txt.
#define INFER_DEPTHWISE_NAME "avx512"
#define INFER_DEPTHWISE_TABLE Avx512Depthwise
#include "runtime/cpu/simd/depthwise.inc"
