/// The loops for avx2; compile flags are set in runtime/CMakeLists.txt.
#define INFER_LOOPS_NAME "avx2"
#define INFER_LOOPS_TABLE Avx2Loops
#include "runtime/cpu/simd/loops.inc"
