#pragma once
/// y[i] = table[x[i]] over bytes: any element-wise operator between two quantizations of 8 bits.
#include <cstdint>

namespace infer::simd {

/// `table` has 256 entries; y may be x.
using LookUpFn = void (*)(const uint8_t* x, uint8_t* y, int64_t n, const uint8_t* table);

/// With AVX-512 VBMI 64 bytes at a time out of registers, else one by one.
LookUpFn TheLookUp();

void LookUpVbmi(const uint8_t* x, uint8_t* y, int64_t n, const uint8_t* table);

}  // namespace infer::simd
