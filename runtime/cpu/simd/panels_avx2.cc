/// The panels for avx2; compile flags are set in runtime/CMakeLists.txt.
#define INFER_PANELS_NAME "avx2"
#define INFER_PANELS_TABLE Avx2Panels
#define INFER_PANELS_LANES 8
#define INFER_PANELS_ROWS 12
#define INFER_PANELS_WIDE_ROWS 6
#include "runtime/cpu/simd/panels.inc"
