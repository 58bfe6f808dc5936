#version 450
#include "common.glsl"
// Y[outer, count, inner] = X[outer, at[count], inner], in words. Of an X that no buffer holds (outer is
// 1 then) a dispatch sees some rows, and writes what is looked up among them.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;  // words of Y
  uint inner, count, extent;
  uint first, rows;  // of X, of this part
} p;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) readonly buffer I { uint at[]; };  // within the extent
layout(binding = 2) writeonly buffer Y { uint y[]; };

void main() {
  uint begin = LinearGroup() * 256u + gl_LocalInvocationID.x;
  for (uint k = 0u; k < 4u; ++k) {
    uint i = begin + k * 64u;
    if (i >= p.n) return;
    uint e = i % p.inner, row = at[i / p.inner % p.count], o = i / (p.inner * p.count);
    if (row < p.first || row - p.first >= p.rows) continue;
    y[i] = x[(o * p.extent + row - p.first) * p.inner + e];
  }
}
