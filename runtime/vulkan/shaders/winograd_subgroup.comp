#version 450
#include "common.glsl"
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
// M[16][rows][tiles] = U[16][rows][k] V[16][k][tiles], for devices on a processor, as
// conv_subgroup.comp: 8 lanes of a subgroup make 32 rows x 8 VECTORS columns without shared memory.
// Such a driver loads lane by lane, which takes longer than the multiplications: more columns are
// fewer loads for each.
layout(local_size_x = 8) in;
#define ROWS 32
#define BLOCKS (ROWS / 8)
layout(push_constant) uniform Push {
  uint rows, k, tiles;
  uint tiles_m, tiles_n;
} p;
layout(binding = 0) readonly buffer V { float v[]; };
layout(binding = 1) readonly buffer U { float u[]; };
layout(binding = 2) writeonly buffer M { float m[]; };
// Long sums are of sums of 256 products: one after the other they would lose digits.
layout(constant_id = 0) const int LONG = 0;

void main() {
  uint group = LinearGroup();
  uint tile_m = group % p.tiles_m, tile_n = group / p.tiles_m % p.tiles_n;
  uint point = group / (p.tiles_n * p.tiles_m);
  if (point >= 16u) return;
  uint lane = gl_SubgroupInvocationID;
  uint row0 = tile_m * ROWS, column0 = tile_n * (8u * VECTORS);
  // What lies beyond the end reads the last one; its sums are not written.
  uint from_u[BLOCKS], from_v[VECTORS];
  [[unroll]] for (uint i = 0u; i < BLOCKS; ++i)
    from_u[i] = (point * p.rows + min(row0 + 8u * i + lane, p.rows - 1u)) * p.k;
  [[unroll]] for (uint j = 0u; j < VECTORS; ++j)
    from_v[j] = point * p.k * p.tiles + min(column0 + 8u * j + lane, p.tiles - 1u);
  float acc[ROWS][VECTORS], whole[ROWS][VECTORS];
  [[unroll]] for (int i = 0; i < ROWS; ++i)
    [[unroll]] for (int j = 0; j < VECTORS; ++j) acc[i][j] = whole[i][j] = 0.0;
  for (uint k0 = 0u; k0 < p.k; k0 += 256u) {
    uint end = min(p.k, k0 + 256u);
    for (uint k = k0; k < end; ++k) {
      float a[VECTORS];
      [[unroll]] for (int j = 0; j < VECTORS; ++j) a[j] = v[from_v[j] + k * p.tiles];
      [[unroll]] for (int i = 0; i < BLOCKS; ++i) {
        float w = u[from_u[i] + k];
#define ROW(r)                                                          \
  {                                                                     \
    float b = subgroupBroadcast(w, r);                                  \
    [[unroll]] for (int j = 0; j < VECTORS; ++j) acc[i * 8 + r][j] += b * a[j];    \
  }
        ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7)
      }
    }
    if (LONG != 0)
      [[unroll]] for (int i = 0; i < ROWS; ++i)
        [[unroll]] for (int j = 0; j < VECTORS; ++j) {
          whole[i][j] += acc[i][j];
          acc[i][j] = 0.0;
        }
  }
  [[unroll]] for (int j = 0; j < VECTORS; ++j) {
    uint column = column0 + lane + uint(j) * 8u;
    if (column >= p.tiles) continue;
    [[unroll]] for (int i = 0; i < ROWS; ++i) {
      uint row = row0 + uint(i);
      if (row >= p.rows) break;
      m[(point * p.rows + row) * p.tiles + column] = LONG != 0 ? whole[i][j] : acc[i][j];
    }
  }
}
