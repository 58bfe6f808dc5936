#version 450
#include "common.glsl"
// A strided copy: element (i0, i1, ...) goes from x[from + sum i s] to y[to + sum i t].
#if WIDTH == 1
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_8bit_storage : require
#define ELEMENT uint8_t
#elif WIDTH == 2
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_16bit_storage : require
#define ELEMENT uint16_t
#elif WIDTH == 4
#define ELEMENT uint
#else
#define ELEMENT uvec2
#endif
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n, from, to;
  uint dims[7];
  int s[7];
  int t[7];
} p;
layout(binding = 0) readonly buffer X { ELEMENT x[]; };
layout(binding = 1) writeonly buffer Y { ELEMENT y[]; };

void main() {
  uint first = LinearGroup() * 256u + gl_LocalInvocationID.x;
  for (uint k = 0u; k < 4u; ++k) {
    uint i = first + k * 64u;
    if (i >= p.n) return;
    uint rest = i;
    int from = int(p.from), to = int(p.to);
    for (int d = 6; d >= 0; --d) {
      int c = int(rest % p.dims[d]);
      rest /= p.dims[d];
      from += c * p.s[d];
      to += c * p.t[d];
    }
    y[to] = x[from];
  }
}
