/// The loops for generic; compile flags are set in runtime/CMakeLists.txt.
#define INFER_LOOPS_NAME "generic"
#define INFER_LOOPS_TABLE GenericLoops
#include "runtime/cpu/simd/loops.inc"
