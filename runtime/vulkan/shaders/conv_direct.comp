#version 450
#include "common.glsl"
// Convolution, or its transpose, over three spatial axes, one result per invocation: for groups of
// few channels (depthwise) and for what conv.comp does not take.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;                        // results
  uint in_channels, out_channels, groups;
  uint in_d[3], out_d[3], k_d[3];
  uint step[3];                  // stride | dilation << 16
  int pad[3];
  float tail[6];
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer W { float w[]; };
layout(binding = 2) readonly buffer B { float bias[]; };
layout(binding = 3) readonly buffer R { float residual[]; };
layout(binding = 4) writeonly buffer Y { float y[]; };
layout(constant_id = 3) const int HAS_BIAS = 0;
layout(constant_id = 4) const int TRANSPOSED = 0;
#define RESIDUAL(at) residual[at]
#define TAIL_PARAMETER(i) p.tail[i]
#include "tail.glsl"

// The input position of window element k for output position o; -1 for none.
int From(int axis, int o, int k) {
  int stride = int(p.step[axis] & 0xffffu), dilation = int(p.step[axis] >> 16);
  int extent = int(p.in_d[axis]);
  if (TRANSPOSED == 0) {
    int i = o * stride + k * dilation - p.pad[axis];
    return i >= 0 && i < extent ? i : -1;
  }
  int i = o + p.pad[axis] - k * dilation;
  if (i < 0 || i % stride != 0) return -1;
  i /= stride;
  return i < extent ? i : -1;
}

void main() {
  uint i = LinearGroup() * 64u + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uint rest = i;
  int o2 = int(rest % p.out_d[2]);
  rest /= p.out_d[2];
  int o1 = int(rest % p.out_d[1]);
  rest /= p.out_d[1];
  int o0 = int(rest % p.out_d[0]);
  rest /= p.out_d[0];
  uint m = rest % p.out_channels, sample_n = rest / p.out_channels;
  uint per_in = p.in_channels / p.groups, per_out = p.out_channels / p.groups;
  uint g = m / per_out;
  uint plane = p.in_d[0] * p.in_d[1] * p.in_d[2], window = p.k_d[0] * p.k_d[1] * p.k_d[2];
  float sum = 0.0;
  for (int k0 = 0; k0 < int(p.k_d[0]); ++k0) {
    int i0 = From(0, o0, k0);
    if (i0 < 0) continue;
    for (int k1 = 0; k1 < int(p.k_d[1]); ++k1) {
      int i1 = From(1, o1, k1);
      if (i1 < 0) continue;
      for (int k2 = 0; k2 < int(p.k_d[2]); ++k2) {
        int i2 = From(2, o2, k2);
        if (i2 < 0) continue;
        uint k = (uint(k0) * p.k_d[1] + uint(k1)) * p.k_d[2] + uint(k2);
        uint at = (uint(i0) * p.in_d[1] + uint(i1)) * p.in_d[2] + uint(i2);
        uint x_at = (sample_n * p.in_channels + g * per_in) * plane + at;
        uint w_at = TRANSPOSED == 0 ? m * per_in * window + k
                                    : (g * per_in * per_out + m % per_out) * window + k;
        uint w_step = TRANSPOSED == 0 ? window : per_out * window;
        float part = 0.0;
        for (uint c = 0u; c < per_in; ++c) part += x[x_at + c * plane] * w[w_at + c * w_step];
        sum += part;
      }
    }
  }
  if (HAS_BIAS != 0) sum += bias[m];
  y[i] = Tail(sum, i);
}
