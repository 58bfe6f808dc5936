#pragma once
/// Conversions between float and the narrow float formats: IEEE binary16, bfloat16, OCP FP8
/// (E4M3FN, E5M2) and their FNUZ variants, FP4 E2M1 and the power-of-two scale E8M0. Arithmetic on
/// narrow types is done in float and rounded once (round to nearest, ties to even).
/// Sources: IEEE 754-2019; OCP "8-bit Floating Point Specification (OFP8)" 1.0; OCP "Microscaling
/// Formats (MX)" 1.0; ONNX "Float stored in 8 bits" for saturation rules.
#include <bit>
#include <cstdint>

#include "lib/tensor/dtype.h"

namespace infer {

float F16ToFloat(uint16_t h);
uint16_t FloatToF16(float v);
inline float BF16ToFloat(uint16_t b) {
  return std::bit_cast<float>(static_cast<uint32_t>(b) << 16);
}
uint16_t FloatToBF16(float v);

/// Storage classes with implicit conversion to float, so that templates can be written once.
struct Half {
  uint16_t bits;
  operator float() const { return F16ToFloat(bits); }  // NOLINT: implicit on purpose
};
struct BFloat16 {
  uint16_t bits;
  operator float() const { return BF16ToFloat(bits); }  // NOLINT: implicit on purpose
};

/// The value of code `bits` of an fp8, fp4 or e8m0 type. Pre: t is one of them.
float MiniFloatToFloat(DType t, uint8_t bits);
/// Rounds to the nearest code, ties to even. With `saturate`, values beyond the largest finite one
/// (and infinities) become it; without, they become infinity or NaN as the format has.
uint8_t FloatToMiniFloat(DType t, float v, bool saturate = true);

}  // namespace infer
