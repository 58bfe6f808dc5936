#version 450
#include "common.glsl"
#include "codes.glsl"
// depthwise.comp of codes: rows of results are whole words.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;  // invocations: planes x out_h x across
  uint channels, per_in;  // of the result; results of one channel of the operand
  uint in_h, in_w, out_h, out_w, across;
  uint k_h, stride_h;
  int pad_h, pad_w;
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
layout(constant_id = 7) const int K_W = 3;
layout(constant_id = 8) const int STRIDE_W = 1;
#include "qtail.glsl"

void main() {
  uint i = LinearGroup() * 64u + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uint ox = i % p.across * 4u, rest = i / p.across;
  uint oy = rest % p.out_h, plane = rest / p.out_h;
  uint channel = plane % p.channels;
  uint base = plane / p.per_in * p.in_h * p.in_w;
  uint w_base = channel * ((p.k_h * uint(K_W) + 3u) / 4u) * 4u;
  int sum[4] = int[4](0, 0, 0, 0);
  int first = int(ox) * STRIDE_W - p.pad_w;
  for (uint kh = 0u; kh < p.k_h; ++kh) {
    int iy = int(oy * p.stride_h + kh) - p.pad_h;
    if (iy < 0 || iy >= int(p.in_h)) continue;
    int v[32];
    for (int j = 0; j < 3 * STRIDE_W + K_W; ++j) {
      int ix = first + j;
      v[j] = 0;
      if (ix >= 0 && ix < int(p.in_w))
        v[j] = Less(CODE_AT(x, base + uint(iy) * p.in_w + uint(ix)), FLIP_X, p.x_zero);
    }
    for (int kw = 0; kw < K_W; ++kw) {
      int f = int(CODE_AT(w, w_base + kh * uint(K_W) + uint(kw)) ^ 0x80u) - 128;
      for (int j = 0; j < 4; ++j) sum[j] += f * v[j * STRIDE_W + kw];
    }
  }
  uint at = (plane * p.out_h + oy) * p.out_w + ox;
  uint word = 0u;
  for (uint j = 0u; j < 4u; ++j) {
    uint made = Finished(sum[j], channel, at + j);
    if (FORM == 0)
      y[at + j] = made;
    else
      word |= made << (8u * j);
  }
  if (FORM != 0) y[at / 4u] = word;
}
