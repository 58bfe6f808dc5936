#version 450
#include "common.glsl"
#include "attention.glsl"
// As attention.comp for few queries: a workgroup makes one of them and 256 columns of V, over 64 keys at
// a time.
layout(local_size_x = 64) in;
#define COLUMNS 256
#define WIDE 4

shared float part[64];
shared float weight[64];

float Most(uint id, float x) {
  part[id] = x;
  barrier();
  for (uint half_n = 32u; half_n > 0u; half_n >>= 1) {
    if (id < half_n) part[id] = Larger(part[id], part[id + half_n]);
    barrier();
  }
  x = part[0];
  barrier();
  return x;
}
float Sum(uint id, float x) {
  part[id] = x;
  barrier();
  for (uint half_n = 32u; half_n > 0u; half_n >>= 1) {
    if (id < half_n) part[id] += part[id + half_n];
    barrier();
  }
  return part[0];
}

void main() {
  uint group = LinearGroup();
  uint column0 = group % p.chunks * COLUMNS, row = group / p.chunks % p.queries;
  uint lead = group / (p.chunks * p.queries);
  if (lead >= p.leads) return;
  uint id = gl_LocalInvocationID.x;
  uint q_at = at[lead * 6u] + row * p.q_row, k_at = at[lead * 6u + 1u], v_at = at[lead * 6u + 2u];
  ivec2 seen = Seen(int(row), HAS_VALID != 0 ? Valid(lead) : 0);
  float most = -kInf, sum = 0.0, acc[WIDE];
  for (int j = 0; j < WIDE; ++j) acc[j] = 0.0;
  for (int key0 = seen.x; key0 < seen.y; key0 += 64) {
    int key = key0 + int(id);
    float s = -kInf;
    if (key < seen.y) {
      s = 0.0;
      uint from = k_at + uint(key) * p.k_row;
      for (uint d = 0u; d < p.depth; ++d) s += q[q_at + d * p.q_element] * k[from + d * p.k_element];
      s = Masked(s, lead, row, uint(key));
    }
    float top = Larger(most, Most(id, s));
    float base = Base(top), factor = Exp(most - base);
    most = top;
    float w = key < seen.y ? Exp(s - base) : 0.0;
    sum = sum * factor + w;
    weight[id] = w;
    barrier();
    uint count = uint(min(seen.y - key0, 64));
    for (int j = 0; j < WIDE; ++j) {
      uint column = column0 + id + uint(j) * 64u;
      if (column >= p.values) continue;
      float x = 0.0;
      for (uint n = 0u; n < count; ++n)
        x += weight[n] * v[v_at + (uint(key0) + n) * p.v_row + column * p.v_element];
      acc[j] = acc[j] * factor + x;
    }
    barrier();
  }
  float total = Sum(id, sum), none = ZERO_WHERE_NONE != 0 ? 0.0 : kNaN;
  for (int j = 0; j < WIDE; ++j) {
    uint column = column0 + id + uint(j) * 64u;
    if (column < p.values)
      y[at[lead * 6u + 3u] + row * p.y_row + column * p.y_element] =
          most == -kInf ? none : acc[j] / total;
  }
}
