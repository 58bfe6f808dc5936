#version 450
#include "common.glsl"
// GridSample of two axes (lib/ops/move/grid_sampler.h has the definition). One invocation has one
// element of the result.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n, channels, samples;  // samples: of one channel, the extents of the result behind it
  uint extent[2];             // height and width of the operand
  uint points;                // taps along an axis: 1 nearest, 2 linear, 4 cubic
  uint padding;               // 0 zeros, 1 border, 2 reflection
  uint corners;               // -1 and 1 are the centres of the corners, not their edges
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Grid { float grid[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };

// v reflected at low and high until it lies between them. Both are multiples of 1/2.
float Reflected(float v, float low, float high) {
  float range = high - low;
  if (range <= 0.0) return low;
  if (abs(v) >= 4194304.0) {  // a multiple of 1/2 of too many digits: in halves, as integers
    uint period = uint(4.0 * range), halves = uint(abs(v) * 2.0);
    uint shift = uint(-2.0 * low);  // |v - low| is |v| + |low| above, |v| - |low| below
    halves = (v > 0.0 ? halves + shift : halves - shift) % period;
    float d = 0.5 * float(halves);
    return low + (d > range ? 2.0 * range - d : d);
  }
  precise float d = abs(v - low);
  d = d - floor(d / (2.0 * range)) * (2.0 * range);
  return low + abs(d > range ? 2.0 * range - d : d);
}

// (g * a + b) / 2, rounded once: a difference in the last place may be another pixel. Extents have
// at most 12 bits here; g in two parts of 12, so that both products are exact.
float Halved(float g, float a, float b) {
  precise float spread = g * 4097.0, high = spread - (spread - g), low = g - high;
  precise float exact = high * a, sum = exact + b, back = sum - exact;
  precise float lost = (exact - (sum - back)) + (b - back);
  precise float v = sum + (lost + low * a);
  return v * 0.5;
}

// Taps of coordinate g: positions, -1 for a zero outside, and weights.
void TapsOf(float g, uint extent, out int at[4], out float weight[4]) {
  float size = float(extent);
  bool corners = p.corners != 0u;
  float low = corners ? 0.0 : -0.5, high = corners ? size - 1.0 : size - 0.5;
  float v = abs(g) < 1e9 ? Halved(g, corners ? size - 1.0 : size, size - 1.0) : g;
  if (!(abs(v) < 1e9)) v = v > 0.0 ? 1e9 : -1e9;  // far outside; NaN, too
  if (p.points == 1u) v = roundEven(v);
  if (v < low || v > high) {
    if (p.padding == 1u) v = clamp(v, 0.0, size - 1.0);
    if (p.padding == 2u) v = Reflected(v, low, high);
  }
  float base = p.points == 1u ? trunc(v) : floor(v), t = v - base;
  int most = int(extent) - 1;
  for (uint k = 0u; k < 4u; ++k) {
    at[k] = -1;
    weight[k] = 0.0;
    if (k >= p.points) continue;
    int offset = p.points == 1u ? 0 : int(k) - int(p.points) / 2 + 1;
    float d = abs(t - float(offset));
    if (p.points == 1u) weight[k] = 1.0;
    else if (p.points == 2u) weight[k] = max(0.0, 1.0 - d);
    else if (d <= 1.0) weight[k] = (1.25 * d - 2.25) * d * d + 1.0;
    else weight[k] = d < 2.0 ? ((-0.75 * d + 3.75) * d - 6.0) * d + 3.0 : 0.0;
    int i = int(base) + offset;
    if (i < 0 || i > most) {
      if (p.padding == 0u) continue;
      if (p.padding == 2u) i = int(Reflected(float(i), low, high));
    }
    at[k] = clamp(i, 0, most);
  }
}

void main() {
  uint i = LinearGroup() * 64u + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uint sample_ = i % p.samples, plane = i / p.samples;
  uint position = (plane / p.channels * p.samples + sample_) * 2u;
  int rows[4], columns[4];
  float of_row[4], of_column[4];
  TapsOf(grid[position + 1u], p.extent[0], rows, of_row);
  TapsOf(grid[position], p.extent[1], columns, of_column);
  float sum = 0.0;
  for (uint r = 0u; r < p.points; ++r)
    for (uint c = 0u; c < p.points; ++c) {
      float w = of_row[r] * of_column[c];
      if (rows[r] < 0 || columns[c] < 0 || w == 0.0) continue;
      sum += w * x[(plane * p.extent[0] + uint(rows[r])) * p.extent[1] + uint(columns[c])];
    }
  y[i] = sum;
}
