#version 450
#include "common.glsl"
// As matmul.comp for few rows: a workgroup makes one row of 64 results where B's columns lie
// together (ROWS == 0), else each invocation of a workgroup a part of one result's sum.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint m, n, k;
  uint tiles_m, tiles_n;
  uint a_row, a_column, b_row, b_column;
  uint batch[2];
  uint a_batch[2], b_batch[2];
  uint bias_row, bias_column;
  float alpha, beta;
  uint a_first;                  // of A's elements, where B's part begins along k
  uint y_columns, first_column;  // of Y, and where B's part stands among them
  float tail[6];
} p;
layout(binding = 0) readonly buffer A { float a[]; };
#ifdef CODES
#include "weight_codes.glsl"
#else
layout(binding = 1) readonly buffer B { float b[]; };
#define B_AT(batch_at, k, column) b[(batch_at) + (k) * p.b_row + (column) * p.b_column]
#endif
layout(binding = 2) readonly buffer C { float bias[]; };
layout(binding = 3) readonly buffer R { float residual[]; };
layout(binding = 4) buffer Y { float y[]; };
layout(constant_id = 3) const int HAS_BIAS = 0;
layout(constant_id = 4) const int ROWS = 0;
layout(constant_id = 5) const int PART = 0;  // as in matmul.comp
#define RESIDUAL(at) residual[at]
#define TAIL_PARAMETER(i) p.tail[i]
#include "tail.glsl"

shared float part[64];

void main() {
  uint group = LinearGroup();
  uint tile_n = group % p.tiles_n;
  uint row = group / p.tiles_n % p.m;
  uint z = group / (p.tiles_n * p.m);
  if (z >= p.batch[0] * p.batch[1]) return;
  uint z1 = z % p.batch[1], z0 = z / p.batch[1];
  uint a_at = p.a_first + z0 * p.a_batch[0] + z1 * p.a_batch[1] + row * p.a_row;
  uint b_at = z0 * p.b_batch[0] + z1 * p.b_batch[1];
  uint id = gl_LocalInvocationID.x;
  uint column = ROWS == 0 ? tile_n * 64u + id : tile_n;
  float sum = 0.0;
  if (ROWS == 0) {
    // Sums of 256 products: one after the other they would lose digits.
    if (column < p.n)
      for (uint k0 = 0u; k0 < p.k; k0 += 256u) {
        float chunk = 0.0;
        uint end = min(p.k, k0 + 256u);
        for (uint k = k0; k < end; ++k)
          chunk += a[a_at + k * p.a_column] * B_AT(b_at, k, column);
        sum += chunk;
      }
  } else {
    for (uint k = id; k < p.k; k += 64u)
      sum += a[a_at + k * p.a_column] * B_AT(b_at, k, column);
    part[id] = sum;
    barrier();
    for (uint half_n = 32u; half_n > 0u; half_n >>= 1) {
      if (id < half_n) part[id] += part[id + half_n];
      barrier();
    }
    sum = part[0];
    if (id != 0u) return;
  }
  if (column >= p.n) return;
  column += p.first_column;
  uint at = (z * p.m + row) * p.y_columns + column;
  if (PART > 1) sum += y[at];
  if (PART == 1 || PART == 2) {
    y[at] = sum;
    return;
  }
  float v = p.alpha * sum;
  if (HAS_BIAS != 0) v += p.beta * bias[row * p.bias_row + column * p.bias_column];
  y[at] = Tail(v, at);
}
