// The loops of elements.inc for avx2.
#define INFER_ELEMENTS_TABLE Avx2Elements
#include "runtime/cpu/simd/elements.inc"
