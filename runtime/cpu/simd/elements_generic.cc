// The loops of elements.inc for generic.
#define INFER_ELEMENTS_TABLE GenericElements
#include "runtime/cpu/simd/elements.inc"
