/// The loops for generic; compile flags are set in quant/CMakeLists.txt.
#define INFER_NUMBER_LOOPS_NAME "generic"
#define INFER_NUMBER_LOOPS_TABLE GenericNumberLoops
#include "quant/calibrate/number_loops.inc"
