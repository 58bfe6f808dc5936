#version 450
#include "common.glsl"
#include "attention.glsl"
// A workgroup of SIDE x SIDE makes TILE queries of a lead and 64 columns of V. It goes over TILE keys at a
// time: their scores stay in registers, the largest so far and the sum of exponentials go along.
layout(local_size_x = SIDE * SIDE) in;
#define THREADS (SIDE * SIDE)
#define PER (TILE / SIDE)
#define COLUMNS 64
#define WIDE (COLUMNS / SIDE)
#define DEPTH 16

shared float sa[DEPTH][TILE + 1];
shared float sb[DEPTH][COLUMNS + 1];
shared float part[TILE][SIDE + 1];

void main() {
  uint group = LinearGroup();
  uint column0 = group % p.chunks * COLUMNS, row0 = group / p.chunks % p.tiles * TILE;
  uint lead = group / (p.chunks * p.tiles);
  if (lead >= p.leads) return;
  uint id = gl_LocalInvocationID.x, lm = id / SIDE, ln = id % SIDE;
  uint q_at = at[lead * 6u], k_at = at[lead * 6u + 1u], v_at = at[lead * 6u + 2u];
  int valid_keys = HAS_VALID != 0 ? Valid(lead) : 0;
  int first = Seen(int(row0), valid_keys).x;
  int end = Seen(int(min(row0 + TILE, p.queries)) - 1, valid_keys).y;

  float most[PER], sum[PER], acc[PER][WIDE];
  for (int i = 0; i < PER; ++i) {
    most[i] = -kInf;
    sum[i] = 0.0;
    for (int j = 0; j < WIDE; ++j) acc[i][j] = 0.0;
  }
  for (int key0 = first; key0 < end; key0 += TILE) {
    float s[PER][PER];
    for (int i = 0; i < PER; ++i)
      for (int j = 0; j < PER; ++j) s[i][j] = 0.0;
    for (uint d0 = 0u; d0 < p.depth; d0 += DEPTH) {
      for (uint e = id; e < TILE * DEPTH; e += THREADS) {
        // Neighbours in the workgroup read neighbours in memory.
        uint r = p.q_element == 1u ? e / DEPTH : e % TILE;
        uint c = p.q_element == 1u ? e % DEPTH : e / TILE;
        uint row = row0 + r, d = d0 + c;
        sa[c][r] = row < p.queries && d < p.depth ? q[q_at + row * p.q_row + d * p.q_element] : 0.0;
      }
      for (uint e = id; e < TILE * DEPTH; e += THREADS) {
        uint r = p.k_element == 1u ? e / DEPTH : e % TILE;
        uint c = p.k_element == 1u ? e % DEPTH : e / TILE;
        uint key = uint(key0) + r, d = d0 + c;
        sb[c][r] = int(key) < end && d < p.depth ? k[k_at + key * p.k_row + d * p.k_element] : 0.0;
      }
      barrier();
      for (int kk = 0; kk < DEPTH; ++kk) {
        float u[PER], w[PER];
        for (int i = 0; i < PER; ++i) u[i] = sa[kk][lm + uint(i) * SIDE];
        for (int j = 0; j < PER; ++j) w[j] = sb[kk][ln + uint(j) * SIDE];
        for (int i = 0; i < PER; ++i)
          for (int j = 0; j < PER; ++j) s[i][j] += u[i] * w[j];
      }
      barrier();
    }
    for (int i = 0; i < PER; ++i) {
      uint row = row0 + lm + uint(i) * SIDE;
      ivec2 seen = Seen(int(row), valid_keys);
      float top = -kInf;
      for (int j = 0; j < PER; ++j) {
        int key = key0 + int(ln) + j * SIDE;
        bool is_seen = key >= seen.x && key < seen.y && row < p.queries;
        s[i][j] = is_seen ? Masked(s[i][j], lead, row, uint(key)) : -kInf;
        top = Larger(top, s[i][j]);
      }
      part[lm + uint(i) * SIDE][ln] = top;
    }
    barrier();
    for (int i = 0; i < PER; ++i) {
      float top = most[i];
      for (uint t = 0u; t < SIDE; ++t) top = Larger(top, part[lm + uint(i) * SIDE][t]);
      float base = Base(top), factor = Exp(most[i] - base);
      most[i] = top;
      sum[i] *= factor;
      for (int j = 0; j < WIDE; ++j) acc[i][j] *= factor;
      for (int j = 0; j < PER; ++j) {
        s[i][j] = key0 + int(ln) + j * SIDE < end ? Exp(s[i][j] - base) : 0.0;
        sum[i] += s[i][j];
      }
    }
    for (uint c = 0u; c < TILE; c += DEPTH) {
      for (int j = 0; j < PER; ++j) {
        uint column = ln + uint(j) * SIDE;
        if (column / DEPTH * DEPTH == c)
          for (int i = 0; i < PER; ++i) sa[column % DEPTH][lm + uint(i) * SIDE] = s[i][j];
      }
      for (uint e = id; e < COLUMNS * DEPTH; e += THREADS) {
        uint r = p.v_element == 1u ? e / COLUMNS : e % DEPTH;
        uint l = p.v_element == 1u ? e % COLUMNS : e / DEPTH;
        uint key = uint(key0) + c + r, column = column0 + l;
        sb[r][l] = int(key) < end && column < p.values
                       ? v[v_at + key * p.v_row + column * p.v_element] : 0.0;
      }
      barrier();
      for (int kk = 0; kk < DEPTH; ++kk) {
        float u[PER], w[WIDE];
        for (int i = 0; i < PER; ++i) u[i] = sa[kk][lm + uint(i) * SIDE];
        for (int j = 0; j < WIDE; ++j) w[j] = sb[kk][ln + uint(j) * SIDE];
        for (int i = 0; i < PER; ++i)
          for (int j = 0; j < WIDE; ++j) acc[i][j] += u[i] * w[j];
      }
      barrier();
    }
  }
  for (int i = 0; i < PER; ++i) part[lm + uint(i) * SIDE][ln] = sum[i];
  barrier();
  for (int i = 0; i < PER; ++i) {
    uint row = row0 + lm + uint(i) * SIDE;
    if (row >= p.queries) continue;
    float total = 0.0;
    for (uint t = 0u; t < SIDE; ++t) total += part[lm + uint(i) * SIDE][t];
    for (int j = 0; j < WIDE; ++j) {
      uint column = column0 + ln + uint(j) * SIDE;
      float none = ZERO_WHERE_NONE != 0 ? 0.0 : kNaN;
      if (column < p.values)
        y[at[lead * 6u + 3u] + row * p.y_row + column * p.y_element] =
            most[i] == -kInf ? none : acc[i][j] / total;
    }
  }
}
