#version 450
#include "common.glsl"
// Rows of GroupQueryAttention by head: Y[sample, head, cache, size]. Into a cache (QUERIES == 0): the past,
// behind it the new rows, behind these zeros. QUERIES == 1: the new rows alone. The first 2 x rotary
// elements of a new row turn by the angles of its position.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;  // numbers of Y
  uint heads, cache, size;
  uint past, queries;      // rows of the past, and new ones of a sample
  uint row, first;         // of the new ones: from token to token, and where the first head begins
  uint rotary;
} p;
layout(binding = 0) readonly buffer P { float past[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer C { float cosines[]; };
layout(binding = 3) readonly buffer S { float sines[]; };
layout(binding = 4) readonly buffer N { uint counts[]; };  // i64 by sample: rows of the past and new ones
layout(binding = 5) writeonly buffer Y { float y[]; };
layout(constant_id = 0) const int QUERIES = 0;
layout(constant_id = 1) const int ROTATES = 0;
layout(constant_id = 2) const int INTERLEAVED = 0;

float NewRow(uint at, uint e, uint position) {
  if (ROTATES == 0 || e >= 2u * p.rotary) return x[at + e];
  uint j = INTERLEAVED != 0 ? e / 2u : e % p.rotary;
  bool is_second = INTERLEAVED != 0 ? (e & 1u) != 0u : e >= p.rotary;
  float a = x[at + (INTERLEAVED != 0 ? 2u * j : j)];
  float b = x[at + (INTERLEAVED != 0 ? 2u * j + 1u : j + p.rotary)];
  float c = cosines[position * p.rotary + j], s = sines[position * p.rotary + j];
  return is_second ? b * c + a * s : a * c - b * s;
}

void main() {
  uint begin = LinearGroup() * 256u + gl_LocalInvocationID.x;
  for (uint k = 0u; k < 4u; ++k) {
    uint i = begin + k * 64u;
    if (i >= p.n) return;
    uint e = i % p.size, t = i / p.size % p.cache, lead = i / (p.size * p.cache);
    uint sample_n = lead / p.heads, all = counts[sample_n * 2u], before = all - p.queries;
    uint position = QUERIES != 0 ? before + t : t;
    float v = 0.0;
    if (position < before)
      v = past[(lead * p.past + position) * p.size + e];
    else if (position < all) {
      uint token = sample_n * p.queries + position - before;
      v = NewRow(token * p.row + p.first + lead % p.heads * p.size, e, position);
    }
    y[i] = v;
  }
}
