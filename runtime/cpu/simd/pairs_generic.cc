/// The pairs for generic; compile flags are set in runtime/CMakeLists.txt.
#define INFER_PAIRS_NAME "generic"
#define INFER_PAIRS_TABLE GenericPairs
#define INFER_PAIRS_LANES 4
#define INFER_PAIRS_ROWS 4
#include "runtime/cpu/simd/pairs.inc"
