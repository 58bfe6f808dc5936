/// The pairs for avx512; compile flags are set in runtime/CMakeLists.txt.
#define INFER_PAIRS_NAME "avx512"
#define INFER_PAIRS_TABLE Avx512Pairs
#define INFER_PAIRS_LANES 16
#define INFER_PAIRS_ROWS 12
#include "runtime/cpu/simd/pairs.inc"
