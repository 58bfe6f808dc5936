#version 450
#include "common.glsl"
// y = f(a, b) with broadcasting: strides of 0 along axes that repeat. With BYTES, results are bool;
// with LOGIC, operands are bool, too.
#if defined(BYTES) || defined(LOGIC)
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_8bit_storage : require
#endif
#ifdef LOGIC
#define IN uint8_t
#else
#define IN float
#endif
#if defined(BYTES) || defined(LOGIC)
#define OUT uint8_t
#else
#define OUT float
#endif
layout(local_size_x = 64) in;
layout(constant_id = 0) const int OP = 0;
layout(constant_id = 1) const int FLAT = 0;
layout(push_constant) uniform Push {
  uint n;
  uint dims[5];
  uint sa[5];
  uint sb[5];
} p;
layout(binding = 0) readonly buffer A { IN a[]; };
layout(binding = 1) readonly buffer B { IN b[]; };
layout(binding = 2) writeonly buffer Y { OUT y[]; };

OUT Combine(IN l, IN r) {
#if defined(LOGIC)
  bool u = l != uint8_t(0), v = r != uint8_t(0);
  switch (OP) {
    case 1: return uint8_t(u && v);
    case 2: return uint8_t(u || v);
    case 3: return uint8_t(u != v);
    default: return uint8_t(!u);
  }
#elif defined(BYTES)
  bool none = IsNaN(l) || IsNaN(r);
  switch (OP) {
    case 1: return uint8_t(!none && l == r);
    case 2: return uint8_t(!none && l < r);
    case 3: return uint8_t(!none && l <= r);
    case 4: return uint8_t(!none && l > r);
    default: return uint8_t(!none && l >= r);
  }
#else
  return Arithmetic(OP, l, r);
#endif
}

void main() {
  uint first = LinearGroup() * 256u + gl_LocalInvocationID.x;
  for (uint k = 0u; k < 4u; ++k) {
    uint i = first + k * 64u;
    if (i >= p.n) return;
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
    y[i] = Combine(a[at_a], b[at_b]);
  }
}
