#include "lib/tensor/float_types.h"

#include <cmath>
#include <limits>

#include "lib/support/status.h"

namespace infer {
namespace {

/// A sign-magnitude format: 1 sign bit, `exponent` bits, `mantissa` bits.
struct Format {
  int exponent, mantissa, bias;
  bool has_infinity;          // IEEE-like: the largest exponent means inf/NaN
  bool negative_zero_is_nan;  // FNUZ
  float max;
};

Format FormatOf(DType t) {
  switch (t) {
    case DType::kF8E4M3FN: return {4, 3, 7, false, false, 448.f};
    case DType::kF8E4M3FNUZ: return {4, 3, 8, false, true, 240.f};
    case DType::kF8E5M2: return {5, 2, 15, true, false, 57344.f};
    case DType::kF8E5M2FNUZ: return {5, 2, 16, false, true, 57344.f};
    case DType::kF4E2M1: return {2, 1, 1, false, false, 6.f};
    default: INFER_CHECK(false && "not a mini float");
  }
}

uint8_t NanCode(DType t, bool negative) {
  switch (t) {
    case DType::kF8E4M3FN:
    case DType::kF8E5M2: return negative ? 0xff : 0x7f;
    case DType::kF4E2M1: return 0x8;  // no NaN: -0, as ONNX's cases have it
    default: return 0x80;
  }
}

uint8_t FloatToE8M0(float v) {
  if (std::isnan(v) || v < 0) return 0xff;
  if (v == 0) return 0;
  if (std::isinf(v)) return 0xfe;
  int e = 0;
  const float m = std::frexp(v, &e);  // v = m * 2^e, m in [0.5, 1)
  int code = e - 1 + 127 + (m >= 0.75f ? 1 : 0);
  return static_cast<uint8_t>(code < 0 ? 0 : code > 254 ? 254 : code);
}

}  // namespace

float F16ToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1f;
  const uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float v = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -v : v;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t FloatToF16(float v) {
  const uint32_t x = std::bit_cast<uint32_t>(v);
  const auto sign = static_cast<uint16_t>((x >> 16) & 0x8000u);
  const uint32_t a = x & 0x7fffffffu;
  if (a > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((a >> 13) & 0x1ffu));
  if (a >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to >= 65536
  if (a < 0x38800000u) {  // subnormal: the float addition rounds to nearest even
    const float r = std::bit_cast<float>(a) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(r) - 0x3f000000u));
  }
  const uint32_t odd = (a >> 13) & 1;
  return static_cast<uint16_t>(sign | ((a - 0x38000000u + 0xfffu + odd) >> 13));
}

uint16_t FloatToBF16(float v) {
  const uint32_t x = std::bit_cast<uint32_t>(v);
  if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((x >> 16) | 0x40u);
  return static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1)) >> 16);
}

float MiniFloatToFloat(DType t, uint8_t bits) {
  if (t == DType::kF8E8M0)
    return bits == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.f, bits - 127);
  const Format f = FormatOf(t);
  const int width = 1 + f.exponent + f.mantissa;
  const bool negative = (bits >> (width - 1)) & 1;
  const int magnitude = bits & ((1 << (width - 1)) - 1);
  const int e = magnitude >> f.mantissa, m = magnitude & ((1 << f.mantissa) - 1);
  const int e_max = (1 << f.exponent) - 1;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (f.negative_zero_is_nan && negative && magnitude == 0) return nan;
  if (f.has_infinity && e == e_max)
    return m != 0 ? nan : (negative ? -1.f : 1.f) * std::numeric_limits<float>::infinity();
  if (t == DType::kF8E4M3FN && magnitude == 0x7f) return nan;
  const float v =
      e == 0 ? std::ldexp(static_cast<float>(m), 1 - f.bias - f.mantissa)
             : std::ldexp(static_cast<float>((1 << f.mantissa) + m), e - f.bias - f.mantissa);
  return negative ? -v : v;
}

uint8_t FloatToMiniFloat(DType t, float v, bool saturate) {
  if (t == DType::kF8E8M0) return FloatToE8M0(v);
  const Format f = FormatOf(t);
  const int width = 1 + f.exponent + f.mantissa;
  const bool negative = std::signbit(v);
  const auto sign = static_cast<uint8_t>(negative ? 1 << (width - 1) : 0);
  if (std::isnan(v)) return NanCode(t, negative);
  const float a = std::abs(v);
  // Magnitude in units of the last place of its binade, rounded to even by nearbyint.
  int e = 0;
  std::frexp(a, &e);
  e = std::max(e - 1, 1 - f.bias);  // exponent of the binade; subnormals share the lowest
  const float units = std::isinf(a) ? a : std::nearbyint(std::ldexp(a, f.mantissa - e));
  const float rounded = std::ldexp(units, e - f.mantissa);
  if (rounded > f.max) {
    const auto max_code = static_cast<uint8_t>(t == DType::kF8E4M3FN ? 0x7e
                                               : t == DType::kF8E5M2 ? 0x7b
                                                                     : (1 << (width - 1)) - 1);
    if (saturate || t == DType::kF4E2M1) return sign | max_code;
    return f.has_infinity ? static_cast<uint8_t>(sign | 0x7c) : NanCode(t, negative);
  }
  if (rounded == 0) return f.negative_zero_is_nan ? 0 : sign;
  auto n = static_cast<int>(units);
  if (n >= (2 << f.mantissa)) {  // rounded up into the next binade
    n >>= 1;
    ++e;
  }
  const int hidden = 1 << f.mantissa;
  const int code = n < hidden ? n : ((e + f.bias) << f.mantissa) + (n - hidden);
  return static_cast<uint8_t>(sign | code);
}

}  // namespace infer
