#version 450
#include "common.glsl"
// One number of many: a workgroup per result, which lies along up to four axes; what is reduced
// lies along up to four others.
layout(local_size_x = 64) in;
layout(constant_id = 0) const int OP = 0;
layout(push_constant) uniform Push {
  uint n, count;
  uint dims[4], strides[4];        // of results
  uint over[4], over_strides[4];  // of what is reduced
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
shared float part[64];

uint At(uint i) {
  uint at = 0u;
  for (int d = 3; d >= 0; --d) {
    at += i % p.over[d] * p.over_strides[d];
    i /= p.over[d];
  }
  return at;
}
float Join(float a, float b) {
  switch (OP) {
    case 3: return MaxNaN(IsNaN(b) ? b : a, b);
    case 4: return MinNaN(IsNaN(b) ? b : a, b);
    case 5: return a * b;
    default: return a + b;
  }
}
float All(uint id) {
  barrier();
  for (uint half_n = 32u; half_n > 0u; half_n >>= 1) {
    if (id < half_n) part[id] = Join(part[id], part[id + half_n]);
    barrier();
  }
  float v = part[0];
  barrier();
  return v;
}

void main() {
  uint r = LinearGroup(), id = gl_LocalInvocationID.x;
  if (r >= p.n) return;
  uint rest = r, base = 0u;
  for (int d = 3; d >= 0; --d) {
    base += rest % p.dims[d] * p.strides[d];
    rest /= p.dims[d];
  }
  float most = 0.0;
  if (OP == 10) {  // log(sum(exp(x))): the greatest goes out first
    part[id] = -kInf;
    for (uint i = id; i < p.count; i += 64u) part[id] = max(part[id], x[base + At(i)]);
    barrier();
    for (uint half_n = 32u; half_n > 0u; half_n >>= 1) {
      if (id < half_n) part[id] = max(part[id], part[id + half_n]);
      barrier();
    }
    most = abs(part[0]) == kInf ? 0.0 : part[0];
    barrier();
  }
  float v = OP == 3 ? -kInf : (OP == 4 ? kInf : (OP == 5 ? 1.0 : 0.0));
  for (uint i = id; i < p.count; i += 64u) {
    float e = x[base + At(i)];
    if (OP == 6 || OP == 8) e = e * e;
    if (OP == 7) e = abs(e);
    if (OP == 10) e = Exp(e - most);
    v = Join(v, e);
  }
  part[id] = v;
  v = All(id);
  if (id != 0u) return;
  if (OP == 2) v /= float(p.count);
  if (OP == 8) v = sqrt(v);
  if (OP == 9 || OP == 10) v = Log(v) + most;
  y[r] = v;
}
