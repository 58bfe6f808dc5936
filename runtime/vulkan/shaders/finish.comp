#version 450
#include "common.glsl"
// Y[n, rows, columns] = tail(alpha sum over parts of S + beta bias): the end of products that are split
// along their common axis.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;  // numbers of a part, and of the result
  uint parts;
  uint rows, columns;
  uint bias_row, bias_column;  // strides of the bias in the result
  float alpha, beta;
  float tail[6];
} p;
layout(binding = 0) readonly buffer S { float sums[]; };
layout(binding = 1) readonly buffer C { float bias[]; };
layout(binding = 2) readonly buffer R { float residual[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(constant_id = 3) const int HAS_BIAS = 0;
#define RESIDUAL(at) residual[at]
#define TAIL_PARAMETER(i) p.tail[i]
#include "tail.glsl"

void main() {
  uint at = LinearGroup() * 64u + gl_LocalInvocationID.x;
  if (at >= p.n) return;
  float v = 0.0;
  for (uint i = 0u; i < p.parts; ++i) v += sums[i * p.n + at];
  v *= p.alpha;
  if (HAS_BIAS != 0)
    v += p.beta * bias[at / p.columns % p.rows * p.bias_row + at % p.columns * p.bias_column];
  y[at] = Tail(v, at);
}
