#version 450
#include "common.glsl"
#include "codes.glsl"
// Quantized convolution over three spatial axes, four results per invocation, which are one word of
// codes or four numbers: for groups of few channels (depthwise), few columns, and three axes.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;                  // results
  uint per_in, in_channels, per_out, out_channels;
  uint in_d[3], out_d[3];
  uint window;             // three extents of 10 bits
  uint step[3];            // stride | dilation << 16
  int pad[3];
  float tail[4];
  int x_zero;
  float to_quanta, lo, y_lo;
  int r_zero;
  float r_scale, between_scale, y_scale;
} p;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) readonly buffer W { uint w[]; };  // [channel][k / 4] of four s8
layout(binding = 2) readonly buffer C { float channels[]; };
layout(binding = 3) readonly buffer R { uint residual[]; };
layout(binding = 4) writeonly buffer Y { uint y[]; };
#include "qtail.glsl"

int From(int axis, int o, int k) {
  int i = o * int(p.step[axis] & 0xffffu) + k * int(p.step[axis] >> 16) - p.pad[axis];
  return i >= 0 && i < int(p.in_d[axis]) ? i : -1;
}
int WeightAt(uint at) { return int(CODE_AT(w, at) ^ 0x80u) - 128; }

uint Result(uint i) {
  uint rest = i;
  int o2 = int(rest % p.out_d[2]);
  rest /= p.out_d[2];
  int o1 = int(rest % p.out_d[1]);
  rest /= p.out_d[1];
  int o0 = int(rest % p.out_d[0]);
  rest /= p.out_d[0];
  uint m = rest % p.out_channels, sample_n = rest / p.out_channels;
  uint k_0 = p.window & 1023u, k_1 = (p.window >> 10) & 1023u, k_2 = p.window >> 20;
  uint taps = k_0 * k_1 * k_2, plane = p.in_d[0] * p.in_d[1] * p.in_d[2];
  uint x_base = (sample_n * p.in_channels + m / p.per_out * p.per_in) * plane;
  uint w_base = m * ((p.per_in * taps + 3u) / 4u) * 4u;
  int sum = 0;
  for (int k0 = 0; k0 < int(k_0); ++k0) {
    int i0 = From(0, o0, k0);
    if (i0 < 0) continue;
    for (int k1 = 0; k1 < int(k_1); ++k1) {
      int i1 = From(1, o1, k1);
      if (i1 < 0) continue;
      for (int k2 = 0; k2 < int(k_2); ++k2) {
        int i2 = From(2, o2, k2);
        if (i2 < 0) continue;
        uint x_at = x_base + (uint(i0) * p.in_d[1] + uint(i1)) * p.in_d[2] + uint(i2);
        uint w_at = w_base + (uint(k0) * k_1 + uint(k1)) * k_2 + uint(k2);
        for (uint c = 0u; c < p.per_in; ++c)
          sum += Less(CODE_AT(x, x_at + c * plane), FLIP_X, p.x_zero) * WeightAt(w_at + c * taps);
      }
    }
  }
  return Finished(sum, m, i);
}

void main() {
  uint first = (LinearGroup() * 64u + gl_LocalInvocationID.x) * 4u;
  if (first >= p.n) return;
  uint word = 0u;
  for (uint j = 0u; j < 4u; ++j) {
    if (first + j >= p.n) break;
    uint made = Result(first + j);
    if (FORM == 0)
      y[first + j] = made;
    else
      word |= made << (8u * j);
  }
  if (FORM != 0) y[first / 4u] = word;
}
