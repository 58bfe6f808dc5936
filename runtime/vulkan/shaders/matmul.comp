#version 450
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
// Y[batch, m, n] = tail(alpha A[batch, m, k] B[batch, k, n] + beta bias), by tiles (tile.glsl). Strides let A and B be transposed, and batches repeat. Split along k, workgroups
// write sums of parts, which finish.comp adds. Of a B that no buffer holds a dispatch sees a part:
// some of the columns of Y, or some terms of each sum (PART).
layout(local_size_x = SIDE * SIDE) in;
#include "tile.glsl"
layout(push_constant) uniform Push {
  uint m, n, k;
  uint tiles_m, tiles_n;
  uint a_row, a_column, b_row, b_column;  // strides
  uint batch[2];                          // extents of the two batch axes
  uint a_batch[2], b_batch[2];
  uint bias_row, bias_column;  // strides of the bias in the result
  float alpha, beta;
  uint k_part;
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
layout(constant_id = 4) const int LONG = 0;
layout(constant_id = 5) const int SPLIT = 0;
// Along k: 0 all of B, 1 the first part, 2 one between, 3 the last.
layout(constant_id = 6) const int PART = 0;
#define RESIDUAL(at) residual[at]
#define TAIL_PARAMETER(i) p.tail[i]
#include "tail.glsl"

float next_a[LOADS], next_b[LOADS];
uint a_at, b_at, row0, column0, end;

// Where element e of a tile lies. Neighbours in the workgroup read neighbours in memory.
uint RowA(uint e) { return p.a_column == 1u ? e / DEPTH : e % TILE; }
uint DepthA(uint e) { return p.a_column == 1u ? e % DEPTH : e / TILE; }
uint ColumnB(uint e) { return p.b_column == 1u ? e % TILE : e / DEPTH; }
uint DepthB(uint e) { return p.b_column == 1u ? e / TILE : e % DEPTH; }

void Fetch(uint k0) {
  UNROLL for (uint i = 0u; i < LOADS; ++i) {
    uint e = gl_LocalInvocationID.x + i * THREADS;
    uint row = row0 + RowA(e), k = k0 + DepthA(e);
    next_a[i] = row < p.m && k < end ? a[a_at + row * p.a_row + k * p.a_column] : 0.0;
  }
  UNROLL for (uint i = 0u; i < LOADS; ++i) {
    uint e = gl_LocalInvocationID.x + i * THREADS;
    uint column = column0 + ColumnB(e), k = k0 + DepthB(e);
    next_b[i] = column < p.n && k < end ? B_AT(b_at, k, column) : 0.0;
  }
}
void Keep() {
  UNROLL for (uint i = 0u; i < LOADS; ++i) {
    uint e = gl_LocalInvocationID.x + i * THREADS;
    KeepA(DepthA(e), RowA(e), next_a[i]);
    KeepB(DepthB(e), ColumnB(e), next_b[i]);
  }
}

void main() {
  uint group = LinearGroup();
  uint tile_n = group % p.tiles_n;
  uint tile_m = group / p.tiles_n % p.tiles_m;
  uint z = group / (p.tiles_n * p.tiles_m);
  uint batches = p.batch[0] * p.batch[1], part = z / batches;
  z = z % batches;
  uint begin = part * p.k_part;
  end = min(p.k, begin + p.k_part);
  if (begin >= p.k) return;
  uint z1 = z % p.batch[1], z0 = z / p.batch[1];
  a_at = p.a_first + z0 * p.a_batch[0] + z1 * p.a_batch[1];
  b_at = z0 * p.b_batch[0] + z1 * p.b_batch[1];
  row0 = tile_m * TILE;
  column0 = tile_n * TILE;
  ClearSums();
#ifdef AHEAD
  Fetch(begin);
#endif
  for (uint k0 = begin; k0 < end; k0 += DEPTH) {
#ifndef AHEAD
    Fetch(k0);
#endif
    Keep();
    barrier();
#ifdef AHEAD
    if (k0 + DEPTH < end) Fetch(k0 + DEPTH);
#endif
    AddProducts();
    barrier();
    if (LONG != 0 && (k0 & 255u) == 240u) AddToWhole();
  }
  UNROLL for (int i = 0; i < PER; ++i) {
    uint row = row0 + RowOfTile(i);
    UNROLL for (int j = 0; j < PER; ++j) {
      uint column = column0 + ColumnOfTile(j);
      if (row >= p.m || column >= p.n) continue;
      float v = LONG != 0 ? whole[i][j] + acc[i][j] : acc[i][j];
      if (SPLIT != 0) {
        y[((part * batches + z) * p.m + row) * p.n + column] = v;
        continue;
      }
      column += p.first_column;
      uint at = (z * p.m + row) * p.y_columns + column;
      if (PART > 1) v += y[at];
      if (PART == 1 || PART == 2) {
        y[at] = v;
        continue;
      }
      v *= p.alpha;
      if (HAS_BIAS != 0) v += p.beta * bias[row * p.bias_row + column * p.bias_column];
      y[at] = Tail(v, at);
    }
  }
}
