// The loops of elements.inc for avx512.
#define INFER_ELEMENTS_TABLE Avx512Elements
#include "runtime/cpu/simd/elements.inc"
