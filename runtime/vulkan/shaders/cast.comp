#version 450
#include "common.glsl"
// Elements of one type become those of another, by arithmetic on their bits alone: a driver's own
// conversions may round otherwise, and take numbers below the normal ones for zero. An invocation
// writes whole words, so that bytes in buffers are no condition.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;
} p;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
// As KindOf (kernels/cast.cc) numbers them.
const int kF32 = 0, kF16 = 1, kI32 = 2, kU8 = 3, kI8 = 4, kBool = 5, kI64 = 6;
layout(constant_id = 0) const int FROM = 0;
layout(constant_id = 1) const int TO = 0;

uvec2 Negated(uvec2 v) { return uvec2(~v.x + 1u, ~v.y + (v.x == 0u ? 1u : 0u)); }

// The bits of an f32.
uint FromHalf(uint h) {
  uint sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
  if (exponent == 0x1fu) return sign | 0x7f800000u | (mantissa << 13);
  if (exponent != 0u) return sign | ((exponent + 112u) << 23) | (mantissa << 13);
  if (mantissa == 0u) return sign;
  uint top = uint(findMSB(mantissa));
  return sign | ((top + 103u) << 23) | ((mantissa << (23u - top)) & 0x7fffffu);
}

uint ToHalf(uint bits) {
  uint sign = (bits >> 16) & 0x8000u, a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u | ((a >> 13) & 0x1ffu);
  if (a >= 0x477ff000u) return sign | 0x7c00u;
  if (a >= 0x38800000u) return sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13);
  if (a < 0x33000000u) return sign;
  // Below the normal numbers: multiples of 2^-24.
  uint m = (a & 0x7fffffu) | 0x800000u, shift = 126u - (a >> 23);
  uint whole = m >> shift, rest = m & ((1u << shift) - 1u), tie = 1u << (shift - 1u);
  return sign | (whole + (rest > tie || (rest == tie && (whole & 1u) != 0u) ? 1u : 0u));
}

// A whole number of 64 bits, toward zero, as far as they go.
uvec2 ToInteger(uint bits) {
  uint exponent = (bits >> 23) & 0xffu, m = (bits & 0x7fffffu) | 0x800000u;
  bool negative = bits >> 31 != 0u;
  if ((bits & 0x7fffffffu) > 0x7f800000u || exponent < 127u) return uvec2(0u);
  if (exponent >= 190u)
    return negative ? uvec2(0u, 0x80000000u) : uvec2(0xffffffffu, 0x7fffffffu);
  uvec2 v;
  if (exponent <= 150u) {
    v = uvec2(m >> (150u - exponent), 0u);
  } else {
    uint shift = exponent - 150u;
    v = shift < 32u ? uvec2(m << shift, m >> (32u - shift)) : uvec2(0u, m << (shift - 32u));
  }
  return negative ? Negated(v) : v;
}

bool BitOf(uvec2 v, uint at) {
  return (at < 32u ? v.x >> at & 1u : v.y >> (at - 32u) & 1u) != 0u;
}

// The nearest f32, ties to even.
uint FromInteger(uvec2 v) {
  uint sign = v.y & 0x80000000u;
  if (sign != 0u) v = Negated(v);
  if ((v.x | v.y) == 0u) return 0u;
  uint top = v.y != 0u ? 32u + uint(findMSB(v.y)) : uint(findMSB(v.x));
  uint m;
  if (top <= 23u) {
    m = v.x << (23u - top);
  } else {
    uint shift = top - 23u;
    m = shift < 32u ? (v.x >> shift) | (v.y << (32u - shift)) : v.y >> (shift - 32u);
    uint below = shift - 1u;  // bits under the first that is cut off
    bool more = below < 32u ? (v.x & ((1u << below) - 1u)) != 0u
                            : v.x != 0u || (v.y & ((1u << (below - 32u)) - 1u)) != 0u;
    if (BitOf(v, below) && (more || (m & 1u) != 0u)) m += 1u;
  }
  return sign | (((top + 127u) << 23) + (m - 0x800000u));
}

bool IsReal(int kind) { return kind == kF32 || kind == kF16; }

// Of a real number the bits of an f32, of others the whole number.
uvec2 Load(uint i) {
  if (FROM == kI64) return uvec2(x[2u * i], x[2u * i + 1u]);
  if (FROM == kF32) return uvec2(x[i], 0u);
  if (FROM == kF16) return uvec2(FromHalf((x[i / 2u] >> (16u * (i % 2u))) & 0xffffu), 0u);
  if (FROM == kI32) return uvec2(x[i], uint(int(x[i]) >> 31));
  uint byte = (x[i / 4u] >> (8u * (i % 4u))) & 0xffu;
  if (FROM == kI8 && byte >= 128u) return uvec2(byte | 0xffffff00u, 0xffffffffu);
  return uvec2(byte, 0u);
}

// What is outside of [lowest, highest] becomes the nearer of the two.
uint Clamped(uvec2 v, int lowest, int highest) {
  bool negative = v.y >> 31 != 0u;
  if (negative && (v.y != 0xffffffffu || int(v.x) < lowest || int(v.x) >= 0)) return uint(lowest);
  if (!negative && (v.y != 0u || v.x > uint(highest))) return uint(highest);
  return v.x;
}

uvec2 Converted(uvec2 v) {
  if (IsReal(TO)) {
    uint bits = IsReal(FROM) ? v.x : FromInteger(v);
    return uvec2(TO == kF16 ? ToHalf(bits) : bits, 0u);
  }
  if (TO == kBool) {
    bool is_zero = IsReal(FROM) ? (v.x & 0x7fffffffu) == 0u : (v.x | v.y) == 0u;
    return uvec2(is_zero ? 0u : 1u, 0u);
  }
  if (!IsReal(FROM)) return v;  // low bits are kept
  v = ToInteger(v.x);
  if (TO == kI32) v.x = Clamped(v, -2147483647 - 1, 2147483647);
  if (TO == kU8) v.x = Clamped(v, 0, 255);
  if (TO == kI8) v.x = Clamped(v, -128, 127);
  return v;
}

void main() {
  const uint in_a_word = TO == kF16 ? 2u : TO == kU8 || TO == kI8 || TO == kBool ? 4u : 1u;
  const uint bits = 32u / in_a_word;
  uint first = LinearGroup() * 256u + gl_LocalInvocationID.x;
  for (uint k = 0u; k < 4u; ++k) {
    uint at = first + k * 64u;
    if (at * in_a_word >= p.n) return;
    if (TO == kI64) {
      uvec2 v = Converted(Load(at));
      y[2u * at] = v.x;
      y[2u * at + 1u] = v.y;
      continue;
    }
    uint word = 0u;
    for (uint j = 0u; j < in_a_word; ++j) {
      uint i = at * in_a_word + j;
      if (i >= p.n) break;
      uint v = Converted(Load(i)).x;
      word |= in_a_word == 1u ? v : (v & ((1u << bits) - 1u)) << (j * bits);
    }
    y[at] = word;
  }
}
