#version 450
#include "common.glsl"
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_8bit_storage : require
// y = c ? a : b of elements of four bytes, with broadcasting.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;
  uint dims[5];
  uint sc[5];
  uint sa[5];
  uint sb[5];
} p;
layout(binding = 0) readonly buffer C { uint8_t c[]; };
layout(binding = 1) readonly buffer A { uint a[]; };
layout(binding = 2) readonly buffer B { uint b[]; };
layout(binding = 3) writeonly buffer Y { uint y[]; };

void main() {
  uint first = LinearGroup() * 256u + gl_LocalInvocationID.x;
  for (uint k = 0u; k < 4u; ++k) {
    uint i = first + k * 64u;
    if (i >= p.n) return;
    uint rest = i, at_c = 0u, at_a = 0u, at_b = 0u;
    for (int d = 4; d >= 0; --d) {
      uint q = rest % p.dims[d];
      rest /= p.dims[d];
      at_c += q * p.sc[d];
      at_a += q * p.sa[d];
      at_b += q * p.sb[d];
    }
    y[i] = c[at_c] != uint8_t(0) ? a[at_a] : b[at_b];
  }
}
