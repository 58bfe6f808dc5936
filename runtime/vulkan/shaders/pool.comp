#version 450
#include "common.glsl"
// Maximum or mean of windows over three spatial axes.
layout(local_size_x = 64) in;
layout(constant_id = 0) const int AVERAGE = 0;
layout(constant_id = 1) const int COUNT_PADDING = 0;
layout(push_constant) uniform Push {
  uint n;
  uint in_d[3], out_d[3], k_d[3];
  uint step[3];  // stride | dilation << 16
  int pad[3], pad_end[3];
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };

void main() {
  uint i = LinearGroup() * 64u + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uint rest = i;
  int o[3], begin[3];
  for (int d = 2; d >= 0; --d) {
    o[d] = int(rest % p.out_d[d]);
    rest /= p.out_d[d];
    begin[d] = o[d] * int(p.step[d] & 0xffffu) - p.pad[d];
  }
  uint base = rest * p.in_d[0] * p.in_d[1] * p.in_d[2];
  float best = -kInf, sum = 0.0;
  uint count = 0u;
  for (int k0 = 0; k0 < int(p.k_d[0]); ++k0)
    for (int k1 = 0; k1 < int(p.k_d[1]); ++k1)
      for (int k2 = 0; k2 < int(p.k_d[2]); ++k2) {
        int i0 = begin[0] + k0 * int(p.step[0] >> 16);
        int i1 = begin[1] + k1 * int(p.step[1] >> 16);
        int i2 = begin[2] + k2 * int(p.step[2] >> 16);
        bool inside = i0 >= 0 && i0 < int(p.in_d[0]) && i1 >= 0 && i1 < int(p.in_d[1]) &&
                      i2 >= 0 && i2 < int(p.in_d[2]);
        // Of padding counts what was asked for, not what ceil_mode adds.
        bool counts = inside || (COUNT_PADDING != 0 && i0 < int(p.in_d[0]) + p.pad_end[0] &&
                                 i1 < int(p.in_d[1]) + p.pad_end[1] &&
                                 i2 < int(p.in_d[2]) + p.pad_end[2]);
        if (counts) ++count;
        if (!inside) continue;
        float v = x[base + (uint(i0) * p.in_d[1] + uint(i1)) * p.in_d[2] + uint(i2)];
        best = MaxNaN(v, best);
        if (IsNaN(v)) best = v;
        sum += v;
      }
  y[i] = AVERAGE != 0 ? sum / float(count) : best;
}
