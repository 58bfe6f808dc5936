/// The panels for avx512; compile flags are set in runtime/CMakeLists.txt.
#define INFER_PANELS_NAME "avx512"
#define INFER_PANELS_TABLE Avx512Panels
#define INFER_PANELS_LANES 16
#define INFER_PANELS_ROWS 28
#define INFER_PANELS_WIDE_ROWS 14
#include "runtime/cpu/simd/panels.inc"
