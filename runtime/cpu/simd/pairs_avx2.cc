/// The pairs for avx2; compile flags are set in runtime/CMakeLists.txt.
#define INFER_PAIRS_NAME "avx2"
#define INFER_PAIRS_TABLE Avx2Pairs
#define INFER_PAIRS_LANES 8
#define INFER_PAIRS_ROWS 6
#include "runtime/cpu/simd/pairs.inc"
