#version 450
#include "common.glsl"
// BatchNormalization of inference: y = (x - mean) / sqrt(variance + epsilon) * scale + bias, all by
// channel.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n, channels, plane;
  float epsilon;
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer S { float scale[]; };
layout(binding = 2) readonly buffer B { float bias[]; };
layout(binding = 3) readonly buffer M { float mean[]; };
layout(binding = 4) readonly buffer V { float variance[]; };
layout(binding = 5) writeonly buffer Y { float y[]; };

void main() {
  uint first = LinearGroup() * 256u + gl_LocalInvocationID.x;
  for (uint k = 0u; k < 4u; ++k) {
    uint i = first + k * 64u;
    if (i >= p.n) return;
    uint c = i / p.plane % p.channels;
    y[i] = (x[i] - mean[c]) * (scale[c] / sqrt(variance[c] + p.epsilon)) + bias[c];
  }
}
