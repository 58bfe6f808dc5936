#version 450
#include "common.glsl"
#include "codes.glsl"
// Addition or multiplication of codes with broadcasting, each step rounded as the graph does; four
// results per invocation.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;
  uint dims[5];
  uint sa[5];
  uint sb[5];
  int a_zero, b_zero;
  float a_scale, b_scale, y_scale, lo;
} p;
layout(binding = 0) readonly buffer A { uint a[]; };
layout(binding = 1) readonly buffer B { uint b[]; };
layout(binding = 2) writeonly buffer Y { uint y[]; };
layout(constant_id = 0) const int MULTIPLY = 0;
layout(constant_id = 1) const int RELU = 0;
layout(constant_id = 2) const int FLIP_A = 0;
layout(constant_id = 3) const int FLIP_B = 0;
layout(constant_id = 4) const int FLIP_Y = 0;
layout(constant_id = 5) const int FLAT = 0;

void main() {
  uint first = (LinearGroup() * 64u + gl_LocalInvocationID.x) * 4u;
  if (first >= p.n) return;
  uint word = 0u;
  for (uint j = 0u; j < 4u; ++j) {
    uint i = first + j;
    if (i >= p.n) break;
    uint at_a = i, at_b = i;
    if (FLAT == 0) {
      uint rest = i;
      at_a = 0u;
      at_b = 0u;
      for (int d = 4; d >= 0; --d) {
        uint c = rest % p.dims[d];
        rest /= p.dims[d];
        at_a += c * p.sa[d];
        at_b += c * p.sb[d];
      }
    }
    precise float u = float(Less(CODE_AT(a, at_a), FLIP_A, p.a_zero)) * p.a_scale;
    precise float v = float(Less(CODE_AT(b, at_b), FLIP_B, p.b_zero)) * p.b_scale;
    precise float whole = 0.0;
    if (MULTIPLY != 0)
      whole = u * v;
    else
      whole = u + v;
    if (RELU != 0 && whole < 0.0) whole = 0.0;
    word |= CodeOf(Quanta(whole, p.y_scale), p.lo, FLIP_Y) << (8u * j);
  }
  y[first / 4u] = word;
}
