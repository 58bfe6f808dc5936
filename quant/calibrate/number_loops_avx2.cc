/// The loops for avx2; compile flags are set in quant/CMakeLists.txt.
#define INFER_NUMBER_LOOPS_NAME "avx2"
#define INFER_NUMBER_LOOPS_TABLE Avx2NumberLoops
#include "quant/calibrate/number_loops.inc"
