#version 450
#include "common.glsl"
#include "codes.glsl"
// QuantizeLinear and DequantizeLinear of 8 bits, with one scale or one for each position along an
// axis; four elements per invocation.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;
  uint inner, count;  // elements of one scale in a row; scales
} p;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) readonly buffer S { float scale[]; };
layout(binding = 2) readonly buffer Z { uint zero[]; };
layout(binding = 3) writeonly buffer Y { uint y[]; };
layout(constant_id = 0) const int QUANTIZE = 0;
layout(constant_id = 1) const int FLIP = 0;
layout(constant_id = 2) const int HAS_ZERO = 0;

void main() {
  uint first = (LinearGroup() * 64u + gl_LocalInvocationID.x) * 4u;
  if (first >= p.n) return;
  uint word = 0u;
  for (uint j = 0u; j < 4u; ++j) {
    uint i = first + j;
    if (i >= p.n) break;
    uint c = p.count == 1u ? 0u : i / p.inner % p.count;
    // Among codes less their lowest value.
    int z = HAS_ZERO != 0 ? int(CODE_AT(zero, c) ^ uint(FLIP)) : FLIP;
    if (QUANTIZE != 0) {
      float q = Quanta(uintBitsToFloat(x[i]), scale[c]);
      word |= CodeOf(q, float(-z), FLIP) << (8u * j);
    } else {
      precise float v = float(Less(CODE_AT(x, i), FLIP, z)) * scale[c];
      y[i] = floatBitsToUint(v);
    }
  }
  if (QUANTIZE != 0) y[first / 4u] = word;
}
