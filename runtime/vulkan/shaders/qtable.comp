#version 450
#include "common.glsl"
#include "codes.glsl"
// Any function of codes by its 256 results; four per invocation.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push { uint n; } p;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) readonly buffer T { uint table[]; };
layout(binding = 2) writeonly buffer Y { uint y[]; };

void main() {
  uint first = (LinearGroup() * 64u + gl_LocalInvocationID.x) * 4u;
  if (first >= p.n) return;
  uint word = 0u;
  for (uint j = 0u; j < 4u && first + j < p.n; ++j) {
    uint code = CODE_AT(x, first + j);
    word |= CODE_AT(table, code) << (8u * j);
  }
  y[first / 4u] = word;
}
