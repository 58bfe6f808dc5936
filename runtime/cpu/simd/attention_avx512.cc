/// The loops of attention for avx512; compile flags are set in runtime/CMakeLists.txt.
#define INFER_ATTENTION_NAME "avx512"
#define INFER_ATTENTION_TABLE Avx512AttentionLoops
#define INFER_ATTENTION_LANES 16
#define INFER_ATTENTION_ROWS 14
#include "runtime/cpu/simd/attention.inc"
