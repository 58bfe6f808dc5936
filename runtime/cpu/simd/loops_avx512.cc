/// The loops for avx512; compile flags are set in runtime/CMakeLists.txt.
#define INFER_LOOPS_NAME "avx512"
#define INFER_LOOPS_TABLE Avx512Loops
#include "runtime/cpu/simd/loops.inc"
