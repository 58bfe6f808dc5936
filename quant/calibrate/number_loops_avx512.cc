/// The loops for avx512; compile flags are set in quant/CMakeLists.txt.
#define INFER_NUMBER_LOOPS_NAME "avx512"
#define INFER_NUMBER_LOOPS_TABLE Avx512NumberLoops
#include "quant/calibrate/number_loops.inc"
