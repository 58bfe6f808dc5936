#version 450
#include "common.glsl"
// y = f(x), element by element.
layout(local_size_x = 64) in;
layout(constant_id = 0) const int OP = 0;
layout(push_constant) uniform Push {
  uint n;
  float a, b;
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };

void main() {
  uint first = LinearGroup() * 256u + gl_LocalInvocationID.x;
  for (uint k = 0u; k < 4u; ++k) {
    uint i = first + k * 64u;
    if (i < p.n) y[i] = Apply(OP, x[i], p.a, p.b);
  }
}
