#version 450
#include "common.glsl"
// y[i] = x[table[i]], or what fills where the table says -1; elements of four bytes.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n, fill;
} p;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) readonly buffer T { int table[]; };
layout(binding = 2) writeonly buffer Y { uint y[]; };

void main() {
  uint first = LinearGroup() * 256u + gl_LocalInvocationID.x;
  for (uint k = 0u; k < 4u; ++k) {
    uint i = first + k * 64u;
    if (i >= p.n) return;
    int at = table[i];
    y[i] = at < 0 ? p.fill : x[at];
  }
}
