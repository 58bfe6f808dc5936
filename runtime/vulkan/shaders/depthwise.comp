#version 450
#include "common.glsl"
// Depthwise convolution over two axes, every channel by itself, without dilation: four results
// side by side per invocation, which share pixels and weights.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;  // invocations: planes x out_h x across
  uint channels, per_in;  // of the result; results of one channel of the operand
  uint in_h, in_w, out_h, out_w, across;
  uint k_h, stride_h;
  int pad_h, pad_w;
  float tail[6];
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer W { float w[]; };
layout(binding = 2) readonly buffer B { float bias[]; };
layout(binding = 3) readonly buffer R { float residual[]; };
layout(binding = 4) writeonly buffer Y { float y[]; };
layout(constant_id = 3) const int HAS_BIAS = 0;
layout(constant_id = 4) const int K_W = 3;
layout(constant_id = 5) const int STRIDE_W = 1;
#define RESIDUAL(at) residual[at]
#define TAIL_PARAMETER(i) p.tail[i]
#include "tail.glsl"

void main() {
  uint i = LinearGroup() * 64u + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uint ox = i % p.across * 4u, rest = i / p.across;
  uint oy = rest % p.out_h, plane = rest / p.out_h;
  uint channel = plane % p.channels;
  uint base = plane / p.per_in * p.in_h * p.in_w;
  float sum[4] = float[4](0.0, 0.0, 0.0, 0.0);
  int first = int(ox) * STRIDE_W - p.pad_w;
  for (uint kh = 0u; kh < p.k_h; ++kh) {
    int iy = int(oy * p.stride_h + kh) - p.pad_h;
    if (iy < 0 || iy >= int(p.in_h)) continue;
    float v[32];
    for (int j = 0; j < 3 * STRIDE_W + K_W; ++j) {
      int ix = first + j;
      v[j] = ix >= 0 && ix < int(p.in_w) ? x[base + uint(iy) * p.in_w + uint(ix)] : 0.0;
    }
    for (int kw = 0; kw < K_W; ++kw) {
      float f = w[(channel * p.k_h + kh) * uint(K_W) + uint(kw)];
      for (int j = 0; j < 4; ++j) sum[j] += f * v[j * STRIDE_W + kw];
    }
  }
  float b = HAS_BIAS != 0 ? bias[channel] : 0.0;
  uint at = (plane * p.out_h + oy) * p.out_w + ox;
  for (uint j = 0u; j < 4u; ++j)
    if (ox + j < p.out_w) y[at + j] = Tail(sum[j] + b, at + j);
}
