#version 450
#include "common.glsl"
// Codes, one to a word, to codes, four to a word: for devices without bytes in buffers.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push { uint n; } p;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };

void main() {
  uint first = (LinearGroup() * 64u + gl_LocalInvocationID.x) * 4u;
  if (first >= p.n) return;
  uint word = 0u;
  for (uint j = 0u; j < 4u && first + j < p.n; ++j) word |= x[first + j] << (8u * j);
  y[first / 4u] = word;
}
