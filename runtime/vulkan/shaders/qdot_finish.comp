#version 450
#include "common.glsl"
#include "codes.glsl"
// The sums that qdot.comp left in parts, added up, to results: four of them an invocation, which are
// one word of codes or four numbers.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;  // sums of a part, and results
  uint parts;
  uint channels_y, pixels;
  float tail[4];
  float to_quanta, lo, y_lo;
  int r_zero;
  float r_scale, between_scale, y_scale;
} p;
layout(binding = 0) readonly buffer S { int sums[]; };
layout(binding = 1) readonly buffer O { int offsets[]; };
layout(binding = 2) readonly buffer C { float channels[]; };
layout(binding = 3) readonly buffer R { uint residual[]; };
layout(binding = 4) writeonly buffer Y { uint y[]; };
#include "qtail.glsl"

void main() {
  uint first = (LinearGroup() * 64u + gl_LocalInvocationID.x) * 4u;
  if (first >= p.n) return;
  uint word = 0u;
  for (uint j = 0u; j < 4u && first + j < p.n; ++j) {
    uint at = first + j, channel = at / p.pixels % p.channels_y;
    int sum = offsets[channel];
    for (uint i = 0u; i < p.parts; ++i) sum += sums[i * p.n + at];
    uint result = Finished(sum, channel, at);
    if (FORM == 0)
      y[at] = result;
    else
      word |= result << (8u * j);
  }
  if (FORM != 0) y[first / 4u] = word;
}
