#version 450
#ifdef MATRIX
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#endif
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
// Y[batch, m, n] = tail(alpha A[batch, m, k] B[batch, n, k]^T + beta bias), of operands in f16 and
// sums in f32. Rows of A and B lie along k, as halve.comp writes them, k a multiple of 32. For a
// convolution (CONV) A is its weights, a column of B a pixel: the window's taps are read from the
// image where they lie, channels last, with its padding around it.
//
// A workgroup makes TILE_M x TILE_N results, each of its subgroups PART_M x PART_N of them: by
// cooperative matrices (MATRIX, subgroups of 32), or number by number.
#define SUBGROUPS ((TILE_M / PART_M) * (TILE_N / PART_N))
#define THREADS (SUBGROUPS * 32)
layout(local_size_x = THREADS) in;
layout(push_constant) uniform Push {
  uint m, n, k;
  uint tiles_m, tiles_n;
  uint batch[2];               // extents of the two batch axes
  uint a_batch[2], b_batch[2];  // strides in words of 8 numbers; 0: the same matrix for all
  uint k_part;                 // a multiple of 32
  uint bias_row, bias_column;  // strides of the bias in the result
  float alpha, beta;
  uint pixels, out_w;          // CONV: of an output image
  uint strides, dilations;     // h | w << 16
  uint padded_h, padded_w;     // of an image of B
  uint channels;               // of an image of B, a multiple of 32
  uint k_w;
  float tail[6];
} p;
layout(binding = 0) readonly buffer A { uvec4 a[]; };
layout(binding = 1) readonly buffer B { uvec4 b[]; };
layout(binding = 2) readonly buffer C { float bias[]; };
layout(binding = 3) readonly buffer R { float residual[]; };
layout(binding = 4) writeonly buffer Y { float y[]; };
layout(constant_id = 3) const int HAS_BIAS = 0;
layout(constant_id = 4) const int SPLIT = 0;
// Of the result at hand, read with its neighbours.
float residual_here;
#define RESIDUAL(at) residual_here
#define TAIL_PARAMETER(i) p.tail[i]
#include "tail.glsl"

// A step takes STEP numbers along k: WORDS words of a row. Rows in shared memory are a word longer, so
// that those of a matrix lie in different banks.
#define STEP 32
#define WORDS 4
#define ROW 5
#define ROUNDS_A (TILE_M * WORDS / THREADS)
#define ROUNDS_B (TILE_N * WORDS / THREADS)
#define STAGE ((TILE_M + TILE_N) * ROW)
// Results of a subgroup on their way to memory: 16 rows, and a word more for the banks.
#define OUT_ROW (PART_N / 4 + 1)
#define OUT_WORDS (SUBGROUPS * 16 * OUT_ROW)
// With two STAGES a step is read while the next is written; one takes half the memory, which larger tiles need more.
shared uvec4 stage[STAGES * STAGE > OUT_WORDS ? STAGES * STAGE : OUT_WORDS];
#define OUT(group, row, column) stage[((group) * 16u + (row)) * OUT_ROW + (column) / 4u][(column) % 4u]

#ifdef MATRIX
#define LANE gl_SubgroupInvocationID
#else
#define LANE (gl_LocalInvocationID.x % 32u)
#endif

uint a_at[ROUNDS_A], b_at[ROUNDS_B];
uvec4 next_a[ROUNDS_A], next_b[ROUNDS_B];

// Where a column of B begins, in words.
uint ColumnAt(uint column) {
#ifdef CONV
  uint image = column / p.pixels, pixel = column % p.pixels;
  uint row = image * p.padded_h + pixel / p.out_w * (p.strides & 0xffffu);
  return (row * p.padded_w + pixel % p.out_w * (p.strides >> 16)) * (p.channels / 8u);
#else
  return column * (p.k / 8u);
#endif
}

// From the beginning of a column to number k of it, in words.
uint AlongColumn(uint k) {
#ifdef CONV
  uint tap = k / p.channels, kh = tap / p.k_w, kw = tap % p.k_w;
  uint pixel = kh * (p.dilations & 0xffffu) * p.padded_w + kw * (p.dilations >> 16);
  return (pixel * p.channels + k % p.channels) / 8u;
#else
  return k / 8u;
#endif
}

void Fetch(uint k) {
  uint along = AlongColumn(k);
  [[unroll]] for (int i = 0; i < ROUNDS_A; ++i) next_a[i] = a[a_at[i] + k / 8u];
  [[unroll]] for (int i = 0; i < ROUNDS_B; ++i) next_b[i] = b[b_at[i] + along];
}

void Keep(uint at) {
  uint row = gl_LocalInvocationID.x / WORDS, word = gl_LocalInvocationID.x % WORDS;
  [[unroll]] for (int i = 0; i < ROUNDS_A; ++i) stage[at + (row + uint(i) * (THREADS / WORDS)) * ROW + word] = next_a[i];
  at += TILE_M * ROW;
  [[unroll]] for (int i = 0; i < ROUNDS_B; ++i) stage[at + (row + uint(i) * (THREADS / WORDS)) * ROW + word] = next_b[i];
}

#ifdef CONV
#define ROW_STEP p.pixels
#else
#define ROW_STEP p.n
#endif
// Sixteen results of a column, from `row` on. Whatever is read for them is read before one is written, so that the
// reads wait for memory together.
void WriteRows(uint subgroup, uint row, uint column, uint out_column, uint column_at, uint part_at) {
  uint lane = LANE;
  bool reads_residual = TAIL0 == 100 || TAIL1 == 100 || TAIL2 == 100;
  float bias_of[16], residual_of[16];
  [[unroll]] for (uint r = 0u; r < 16u; ++r) {
    uint inside = min(row + r, p.m - 1u);
    if (HAS_BIAS != 0 && SPLIT == 0)
      bias_of[r] = bias[inside * p.bias_row + min(column + lane, p.n - 1u) * p.bias_column];
    if (reads_residual && SPLIT == 0) residual_of[r] = residual[column_at + inside * ROW_STEP];
  }
  if (column + lane >= p.n) return;
  [[unroll]] for (uint r = 0u; r < 16u; ++r) {
    if (row + r >= p.m) break;
    float v = uintBitsToFloat(OUT(subgroup, r, out_column + lane));
    uint at = column_at + (row + r) * ROW_STEP;
    if (SPLIT != 0) {
      y[part_at + at] = v;
      continue;
    }
    v *= p.alpha;
    if (HAS_BIAS != 0) v += p.beta * bias_of[r];
    if (reads_residual) residual_here = residual_of[r];
    y[at] = Tail(v, at);
  }
}

void main() {
  uint group = LinearGroup();
  uint tile_n = group % p.tiles_n, tile_m = group / p.tiles_n % p.tiles_m;
  uint z = group / (p.tiles_n * p.tiles_m);
  uint batches = p.batch[0] * p.batch[1], part = z / batches;
  z = z % batches;
  uint begin = part * p.k_part, end = min(p.k, begin + p.k_part);
  if (begin >= p.k) return;
  uint z0 = z / p.batch[1], z1 = z % p.batch[1];
  uint row0 = tile_m * TILE_M, column0 = tile_n * TILE_N;
  uint id = gl_LocalInvocationID.x;
  // Rows and columns behind the last read the last: what comes of them is not written.
  [[unroll]] for (int i = 0; i < ROUNDS_A; ++i) {
    uint row = min(row0 + id / WORDS + uint(i) * (THREADS / WORDS), p.m - 1u);
    a_at[i] = z0 * p.a_batch[0] + z1 * p.a_batch[1] + row * (p.k / 8u) + id % WORDS;
  }
  [[unroll]] for (int i = 0; i < ROUNDS_B; ++i) {
    uint column = min(column0 + id / WORDS + uint(i) * (THREADS / WORDS), p.n - 1u);
    b_at[i] = z0 * p.b_batch[0] + z1 * p.b_batch[1] + ColumnAt(column) + id % WORDS;
  }
#ifdef MATRIX
  uint subgroup = gl_SubgroupID;
#else
  uint subgroup = id / 32u;
#endif
  uint lane = LANE;
  uint part_m = subgroup / (TILE_N / PART_N) * PART_M, part_n = subgroup % (TILE_N / PART_N) * PART_N;
#ifdef MATRIX
  fcoopmatNV<32, gl_ScopeSubgroup, 16, 16> acc[PART_M / 16][PART_N / 16];
  [[unroll]] for (int i = 0; i < PART_M / 16; ++i)
    [[unroll]] for (int j = 0; j < PART_N / 16; ++j) acc[i][j] = fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>(0.0);
#else
  // A lane has every eighth row and every fourth column.
  float acc[PART_M / 8][PART_N / 4];
  [[unroll]] for (int i = 0; i < PART_M / 8; ++i)
    [[unroll]] for (int j = 0; j < PART_N / 4; ++j) acc[i][j] = 0.0;
#endif
  uint column_at[PART_N / 32];
  uint now = 0u;
  Fetch(begin);
  Keep(now);
  barrier();
  for (uint k = begin; k < end; k += STEP) {
    bool more = k + STEP < end;
    if (more) Fetch(k + STEP);
    uint at_a = now + part_m * ROW, at_b = now + (TILE_M + part_n) * ROW;
#ifdef MATRIX
    [[unroll]] for (uint half_step = 0u; half_step < STEP / 16; ++half_step) {
      fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> u[PART_M / 16], v;
      [[unroll]] for (int i = 0; i < PART_M / 16; ++i)
        coopMatLoadNV(u[i], stage, at_a + uint(i) * 16u * ROW + half_step * 2u, ROW, false);
      [[unroll]] for (int j = 0; j < PART_N / 16; ++j) {
        coopMatLoadNV(v, stage, at_b + uint(j) * 16u * ROW + half_step * 2u, ROW, true);
        [[unroll]] for (int i = 0; i < PART_M / 16; ++i) acc[i][j] = coopMatMulAddNV(u[i], v, acc[i][j]);
      }
    }
#else
    for (uint pair = 0u; pair < STEP / 2; ++pair) {
      vec2 u[PART_M / 8];
      [[unroll]] for (int i = 0; i < PART_M / 8; ++i)
        u[i] = unpackHalf2x16(stage[at_a + (lane / 4u + uint(i) * 8u) * ROW + pair / 4u][pair % 4u]);
      [[unroll]] for (int j = 0; j < PART_N / 4; ++j) {
        vec2 v = unpackHalf2x16(stage[at_b + (lane % 4u + uint(j) * 4u) * ROW + pair / 4u][pair % 4u]);
        [[unroll]] for (int i = 0; i < PART_M / 8; ++i) acc[i][j] += u[i].x * v.x + u[i].y * v.y;
      }
    }
#endif
    if (STAGES == 2) now = STAGE - now;
    else barrier();
    if (more) Keep(now);
    barrier();
  }
  // Sixteen rows at a time go through shared memory, from which neighbours write neighbours: a lane has a
  // column of every 32.
  [[unroll]] for (int c = 0; c < PART_N / 32; ++c) {
    uint column = min(column0 + part_n + uint(c) * 32u + lane, p.n - 1u);
#ifdef CONV
    column_at[c] = column / p.pixels * p.m * p.pixels + column % p.pixels;
#else
    column_at[c] = z * p.m * p.n + column;
#endif
  }
  uint part_at = part * batches * p.m * p.n;
  [[unroll]] for (int i = 0; i < PART_M / 16; ++i) {
#ifdef MATRIX
    [[unroll]] for (int j = 0; j < PART_N / 16; ++j)
      coopMatStoreNV(acc[i][j], stage, subgroup * 16u * OUT_ROW + uint(j) * 4u, OUT_ROW, false);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
#else
    for (int h = 0; h < 2; ++h)
      [[unroll]] for (int j = 0; j < PART_N / 4; ++j)
        OUT(subgroup, lane / 4u + uint(h) * 8u, lane % 4u + uint(j) * 4u) =
            floatBitsToUint(acc[i * 2 + h][j]);
    barrier();
#endif
    [[unroll]] for (int c = 0; c < PART_N / 32; ++c)
      WriteRows(subgroup, row0 + part_m + uint(i) * 16u, column0 + part_n + uint(c) * 32u, uint(c) * 32u,
                column_at[c], part_at);
#ifdef MATRIX
    subgroupMemoryBarrierShared();
    subgroupBarrier();
#else
    barrier();
#endif
  }
}
