/// The loops of attention for avx2; compile flags are set in runtime/CMakeLists.txt.
#define INFER_ATTENTION_NAME "avx2"
#define INFER_ATTENTION_TABLE Avx2AttentionLoops
#define INFER_ATTENTION_LANES 8
#define INFER_ATTENTION_ROWS 6
#include "runtime/cpu/simd/attention.inc"
