#version 450
#include "common.glsl"
// Resize of the last two or three axes by tables that the host makes: for each position of an axis
// the first of two neighbours, the second, and the share of the second. Nearest has a share of 0.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;
  uint in_d[3], out_d[3];
  float scale[3], offset[3];  // position in the operand = o * scale + offset
  uint rounding;              // 0 linear; nearest: 1 prefer floor, 2 prefer ceil, 3 floor, 4 ceil
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };

void main() {
  uint i = LinearGroup() * 64u + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uint rest = i;
  uint low[3], high[3];
  float share[3];
  for (int d = 2; d >= 0; --d) {
    uint o = rest % p.out_d[d];
    rest /= p.out_d[d];
    precise float at = float(o) * p.scale[d];
    at = at + p.offset[d];
    float most = float(p.in_d[d] - 1u);
    share[d] = 0.0;
    if (p.in_d[d] == p.out_d[d] && p.scale[d] == 1.0 && p.offset[d] == 0.0) {
      low[d] = high[d] = o;
    } else if (p.rounding == 0u) {
      at = clamp(at, 0.0, most);
      low[d] = uint(floor(at));
      high[d] = min(low[d] + 1u, p.in_d[d] - 1u);
      share[d] = at - floor(at);
    } else {
      float r = p.rounding == 1u ? ceil(at - 0.5) : p.rounding == 2u ? floor(at + 0.5)
              : p.rounding == 3u ? floor(at) : ceil(at);
      low[d] = high[d] = uint(clamp(r, 0.0, most));
    }
  }
  uint base = rest * p.in_d[0] * p.in_d[1] * p.in_d[2];
  float sum = 0.0;
  for (uint corner = 0u; corner < 8u; ++corner) {
    float weight = 1.0;
    uint at[3];
    for (int d = 0; d < 3; ++d) {
      bool second = (corner >> d & 1u) != 0u;
      weight *= second ? share[d] : 1.0 - share[d];
      at[d] = second ? high[d] : low[d];
    }
    if (weight != 0.0) sum += weight * x[base + (at[0] * p.in_d[1] + at[1]) * p.in_d[2] + at[2]];
  }
  y[i] = sum;
}
