#version 450
#include "common.glsl"
// Softmax and normalizations: a workgroup per row of `count` numbers, `stride` apart. Rows are
// counted over `outer` and `inner` (the numbers between neighbours of a row).
layout(local_size_x = 64) in;
layout(constant_id = 0) const int OP = 0;  // 0 softmax, 1 its logarithm, 2 mean and variance, 3 RMS
layout(constant_id = 1) const int HAS_SCALE = 0;
layout(constant_id = 2) const int HAS_BIAS = 0;
layout(push_constant) uniform Push {
  uint rows, count, inner;
  // Of element i of row r the scale is that of (r / row_div % row_mod) * row_step + i / each
  uint row_div, row_mod, row_step, each;
  float epsilon;
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer S { float scale[]; };
layout(binding = 2) readonly buffer B { float bias[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
shared float part[64];

float Sum(uint id, float v) {
  part[id] = v;
  barrier();
  for (uint half_n = 32u; half_n > 0u; half_n >>= 1) {
    if (id < half_n) part[id] += part[id + half_n];
    barrier();
  }
  v = part[0];
  barrier();
  return v;
}
float Most(uint id, float v) {
  part[id] = v;
  barrier();
  for (uint half_n = 32u; half_n > 0u; half_n >>= 1) {
    if (id < half_n) part[id] = MaxNaN(IsNaN(part[id + half_n]) ? part[id + half_n] : part[id],
                                       part[id + half_n]);
    barrier();
  }
  v = part[0];
  barrier();
  return v;
}

void main() {
  uint r = LinearGroup(), id = gl_LocalInvocationID.x;
  if (r >= p.rows) return;
  uint base = r / p.inner * p.count * p.inner + r % p.inner;
  if (OP <= 1) {
    float most = -kInf;
    for (uint i = id; i < p.count; i += 64u) {
      float v = x[base + i * p.inner];
      most = IsNaN(v) ? v : MaxNaN(most, v);
    }
    most = Most(id, most);
    float sum = 0.0;
    for (uint i = id; i < p.count; i += 64u) sum += Exp(x[base + i * p.inner] - most);
    sum = Sum(id, sum);
    float log_sum = OP == 1 ? Log(sum) : 0.0;
    for (uint i = id; i < p.count; i += 64u) {
      float v = x[base + i * p.inner] - most;
      y[base + i * p.inner] = OP == 1 ? v - log_sum : Exp(v) / sum;
    }
    return;
  }
  float mean = 0.0;
  if (OP == 2) {
    for (uint i = id; i < p.count; i += 64u) mean += x[base + i * p.inner];
    mean = Sum(id, mean) / float(p.count);
  }
  float square = 0.0;
  for (uint i = id; i < p.count; i += 64u) {
    float d = x[base + i * p.inner] - mean;
    square += d * d;
  }
  float factor = 1.0 / sqrt(Sum(id, square) / float(p.count) + p.epsilon);
  uint first = r / p.row_div % p.row_mod * p.row_step;
  for (uint i = id; i < p.count; i += 64u) {
    float v = (x[base + i * p.inner] - mean) * factor;
    uint at = first + i / p.each;
    if (HAS_SCALE != 0) v *= scale[at];
    if (HAS_BIAS != 0) v += bias[at];
    y[base + i * p.inner] = v;
  }
}
