#version 450
#include "common.glsl"
#include "codes.glsl"
#extension GL_EXT_spirv_intrinsics : require
#ifdef BYTES
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_8bit_storage : require
#endif
// Quantized convolution and matrix product, as qconv.comp, by dot products of four codes in a word.
// Codes of the operand are made signed; what their zero point adds to a sum is in `offsets`. With
// BYTES the device has bytes in buffers. SPLIT: each part of k writes its sums (qdot_finish.comp).
layout(local_size_x = SIDE * SIDE) in;
#define THREADS (SIDE * SIDE)
#define PER (TILE / SIDE)
// Of a row in shared memory: vectors of four words along k, and with the one that keeps rows in
// other banks.
#define DEPTH 4
#define ROW 5
#define LOADS (TILE * DEPTH / THREADS)
layout(push_constant) uniform Push {
  uint m, k_part;  // output channels of a group; words of a part of k
  uint tiles_m, tiles_n;
  uint samples, groups;
  uint in_h, in_w, out_h, out_w;
  uint k_h, k_w;
  uint strides;    // h | w << 16
  uint dilations;  // h | w << 16
  int pad_h, pad_w;
  uint in_channels;  // of all groups
  uint x_zero;       // the code of zero, four times
  float tail[4];
  float to_quanta, lo, y_lo;
  int r_zero;
  float r_scale, between_scale, y_scale;
} p;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 0) readonly buffer X4 { uvec4 x4[]; };
// [channel][tap][input channel / 4] of four s8; the end of a channel is filled up to 16 codes.
layout(binding = 1) readonly buffer W { uvec4 w[]; };
layout(binding = 2) readonly buffer C { float channels[]; };
layout(binding = 3) readonly buffer R { uint residual[]; };
layout(binding = 4) writeonly buffer Y { uint y[]; };
layout(binding = 4) writeonly buffer Y4 { uvec4 y4[]; };
layout(binding = 5) readonly buffer O { int offsets[]; };
#ifdef BYTES
layout(binding = 0) readonly buffer X1 { uint8_t x1[]; };
layout(binding = 4) writeonly buffer Y1 { uint8_t y1[]; };
#define X_CODE(at) uint(x1[at])
#else
#define X_CODE(at) CODE_AT(x, at)
#endif
// How codes are read. A window; or 1x1, stride 1, no padding: one by one, in words of four pixels,
// or, of images of one pixel, in vectors or words of channels.
#define BY_WINDOW 0
#define BY_CODES 1
#define BY_PIXELS 2
#define BY_VECTORS 3
#define BY_WORDS 4
layout(constant_id = 7) const int LOAD = 0;
layout(constant_id = 8) const int FLAT = 0;   // results are one pixel each: channels are neighbours
layout(constant_id = 9) const int WHOLE = 0;  // neighbours in memory come in fours
layout(constant_id = 10) const int SPLIT = 0;
#include "qtail.glsl"

// OpSDotKHR; format 0: PackedVectorFormat4x8Bit. The capabilities are DotProductKHR and
// DotProductInput4x8BitPackedKHR. (Older compilers have no GL_EXT_integer_dot_product.)
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018],
                  id = 4450)
int DotOfFour(uint a, uint b, spirv_literal int format);

// Rows from 0, columns from B on; behind them all, instead, the sums.
#define B (TILE * ROW)
#define SUMS (TILE * TILE / 4)
shared uvec4 tile[SUMS > 2 * B ? SUMS : 2 * B];

// An invocation has PER neighbours of a tile's rows and columns, and lanes that follow each other
// read what lies side by side. Which row or column lies at `place`, and where one lies.
uint AtPlace(uint place) { return place % SIDE * PER + place / SIDE; }
uint PlaceOf(uint n) { return n % PER * SIDE + n / PER; }

uint id, g, part, row0, column0, columns, pixels, plane, per_group, tap_words, row_vectors;
// Of the column that this invocation loads.
uint x_base;
int from_h, from_w;
// Of the next word by windows: row and column of the window, and the word among its channels.
uint kh, kw, kc;
// On the way to shared memory.
uvec4 next_a[LOADS], next_b[LOADS];

void NextTap() {
  if (++kw < p.k_w) return;
  kw = 0u;
  ++kh;
}
void Skip(uint n) {
  for (kc += n; kc >= tap_words; kc -= tap_words) NextTap();
}

// Four channels of a pixel from `channel` on. Weights beyond the last channel are 0.
uint FourChannels(uint at, uint channel) {
  uint last = per_group - 1u;
  return X_CODE(at + min(channel, last) * plane) |
         X_CODE(at + min(channel + 1u, last) * plane) << 8u |
         X_CODE(at + min(channel + 2u, last) * plane) << 16u |
         X_CODE(at + min(channel + 3u, last) * plane) << 24u;
}

uint NextOfWindow() {
  int ih = from_h + int(kh * (p.dilations & 0xffffu)), iw = from_w + int(kw * (p.dilations >> 16));
  uint word = p.x_zero;
  if (kh < p.k_h && ih >= 0 && ih < int(p.in_h) && iw >= 0 && iw < int(p.in_w))
    word = FourChannels(x_base + uint(ih) * p.in_w + uint(iw), 4u * kc);
  if (++kc == tap_words) {
    kc = 0u;
    NextTap();
  }
  return word;
}

// A channel of four pixels.
uint FourPixels(uint channel) {
  return x[(x_base + min(channel, per_group - 1u) * plane) / 4u];
}

// The column whose codes this invocation loads, if it is the same each time.
void FindColumn() {
  uint n = LOAD == BY_PIXELS ? id % (TILE / 4) * 4u : AtPlace(id % TILE);
  // Columns beyond the end read the last ones.
  uint column = min(column0 + n, columns - (LOAD == BY_PIXELS ? 4u : 1u));
  uint pixel = column % pixels;
  x_base = (column / pixels * p.in_channels + g * per_group) * plane;
  if (LOAD != BY_WINDOW) x_base += pixel;
  from_h = int(pixel / p.out_w * (p.strides & 0xffffu)) - p.pad_h;
  from_w = int(pixel % p.out_w * (p.strides >> 16)) - p.pad_w;
}

// Of the DEPTH vectors along k from `first` on.
void Fetch(uint first) {
  for (uint l = 0u; l < LOADS; ++l) {
    uint e = id + l * THREADS, v = first + e % DEPTH, n = AtPlace(e / DEPTH), row = row0 + n;
    next_a[l] = row < p.m && v < row_vectors ? w[(g * p.m + row) * row_vectors + v] : uvec4(0u);
    if (LOAD == BY_VECTORS || LOAD == BY_WORDS) {
      uint at = min(column0 + n, columns - 1u) * p.in_channels + g * per_group;
      uint last = tap_words - 1u, first_word = at / 4u;
      next_b[l] = LOAD == BY_VECTORS ? x4[at / 16u + min(v, row_vectors - 1u)]
                                     : uvec4(x[first_word + min(4u * v, last)],
                                             x[first_word + min(4u * v + 1u, last)],
                                             x[first_word + min(4u * v + 2u, last)],
                                             x[first_word + min(4u * v + 3u, last)]);
    } else if (LOAD == BY_PIXELS) {
      uint channel = 4u * (4u * first + e / (TILE / 4));
      next_b[l] = uvec4(FourPixels(channel), FourPixels(channel + 1u), FourPixels(channel + 2u),
                        FourPixels(channel + 3u));
    } else if (LOAD == BY_CODES) {
      uint channel = 16u * (first + id / TILE * LOADS + l);
      next_b[l] = uvec4(FourChannels(x_base, channel), FourChannels(x_base, channel + 4u),
                        FourChannels(x_base, channel + 8u), FourChannels(x_base, channel + 12u));
    } else {
      next_b[l].x = NextOfWindow();
      next_b[l].y = NextOfWindow();
      next_b[l].z = NextOfWindow();
      next_b[l].w = NextOfWindow();
    }
  }
  if (LOAD == BY_WINDOW) Skip(4u * (DEPTH - LOADS));
}

// Rows of four bytes become columns.
uvec4 Turned(uvec4 r) {
  uint even01 = (r.x & 0x00ff00ffu) | (r.y & 0x00ff00ffu) << 8u;
  uint odd01 = (r.x >> 8u & 0x00ff00ffu) | (r.y & 0xff00ff00u);
  uint even23 = (r.z & 0x00ff00ffu) | (r.w & 0x00ff00ffu) << 8u;
  uint odd23 = (r.z >> 8u & 0x00ff00ffu) | (r.w & 0xff00ff00u);
  return uvec4((even01 & 0xffffu) | even23 << 16u, (odd01 & 0xffffu) | odd23 << 16u,
               even01 >> 16u | (even23 & 0xffff0000u), odd01 >> 16u | (odd23 & 0xffff0000u));
}

void ToShared() {
  uvec4 flip = uvec4(FLIP_X == 0 ? 0x80808080u : 0u);  // unsigned codes become signed
  for (uint l = 0u; l < LOADS; ++l) {
    uint e = id + l * THREADS;
    tile[e / DEPTH * ROW + e % DEPTH] = next_a[l];
    if (LOAD == BY_VECTORS || LOAD == BY_WORDS) {
      tile[B + e / DEPTH * ROW + e % DEPTH] = next_b[l] ^ flip;
    } else if (LOAD == BY_PIXELS) {
      uvec4 turned = Turned(next_b[l]) ^ flip;
      uint n = e % (TILE / 4) * 4u, word = e / (TILE / 4);
      tile[B + PlaceOf(n) * ROW + word / 4u][word % 4u] = turned.x;
      tile[B + PlaceOf(n + 1u) * ROW + word / 4u][word % 4u] = turned.y;
      tile[B + PlaceOf(n + 2u) * ROW + word / 4u][word % 4u] = turned.z;
      tile[B + PlaceOf(n + 3u) * ROW + word / 4u][word % 4u] = turned.w;
    } else {
      tile[B + id % TILE * ROW + id / TILE * LOADS + l] = next_b[l] ^ flip;
    }
  }
}

// A number or code of a result, or a part of its sum.
uint ResultOf(uint sum, uint channel, uint at) {
  return SPLIT != 0 ? sum : Finished(int(sum) + offsets[channel], channel, at);
}

// The results of a tile's sums: four at a time, which are neighbours in memory if WHOLE.
void WriteResults() {
  uint all = p.groups * p.m, part_base = SPLIT != 0 ? part * columns * all : 0u;
  for (uint e = id; e < SUMS; e += THREADS) {
    uint across = e / (TILE / 4), along = e % (TILE / 4) * 4u;
    uint row = row0 + (FLAT != 0 ? along : across), column = column0 + (FLAT != 0 ? across : along);
    if (row >= p.m || column >= columns) continue;
    uvec4 four = tile[e];
    uint at = 0u;
    for (uint s = 0u; s < 4u; ++s) {
      uint r = row + (FLAT != 0 ? s : 0u), c = column + (FLAT != 0 ? 0u : s);
      if (r >= p.m || c >= columns) break;
      uint channel = g * p.m + r;
      if (WHOLE != 0 && s > 0u)
        ++at;
      else
        at = FLAT != 0 ? c * all + channel : (c / pixels * all + channel) * pixels + c % pixels;
      four[s] = ResultOf(four[s], channel, at);
      if (WHOLE != 0) continue;
#ifdef BYTES
      if (FORM != 0 && SPLIT == 0)
        y1[at] = uint8_t(four[s]);
      else
#endif
        y[part_base + at] = four[s];
    }
    if (WHOLE == 0) continue;
    if (FORM == 0 || SPLIT != 0)
      y4[(part_base + at) / 4u] = four;
    else
      y[at / 4u] = four.x | four.y << 8u | four.z << 16u | four.w << 24u;
  }
}

void main() {
  uint group = LinearGroup();
  id = gl_LocalInvocationID.x;
  pixels = p.out_h * p.out_w;
  plane = p.in_h * p.in_w;
  columns = pixels * p.samples;
  per_group = p.in_channels / p.groups;
  tap_words = (per_group + 3u) / 4u;
  uint words = tap_words * p.k_h * p.k_w, parts = (words + p.k_part - 1u) / p.k_part;
  row_vectors = (words + 3u) / 4u;
  column0 = group % p.tiles_n * TILE;
  group /= p.tiles_n;
  row0 = group % p.tiles_m * TILE;
  group /= p.tiles_m;
  part = group % parts;
  g = group / parts;
  if (g >= p.groups) return;
  uint lm = FLAT != 0 ? id % SIDE : id / SIDE, ln = FLAT != 0 ? id / SIDE : id % SIDE;
  int acc[PER][PER];
  for (int i = 0; i < PER; ++i)
    for (int j = 0; j < PER; ++j) acc[i][j] = 0;
  FindColumn();
  uint first = part * p.k_part / 4u, end = min(first + (p.k_part + 3u) / 4u, row_vectors);
  if (LOAD == BY_WINDOW) {
    uint word = 4u * (first + id / TILE * LOADS), tap = word / tap_words;
    kc = word % tap_words;
    kh = tap / p.k_w;
    kw = tap % p.k_w;
  }
  Fetch(first);
  for (uint v0 = first; v0 < end; v0 += DEPTH) {
    ToShared();
    barrier();
    if (v0 + DEPTH < end) Fetch(v0 + DEPTH);
    for (uint s = 0u; s < DEPTH; ++s) {
      uvec4 u[PER];
      for (int i = 0; i < PER; ++i) u[i] = tile[(uint(i) * SIDE + lm) * ROW + s];
      for (int j = 0; j < PER; ++j) {
        uvec4 v = tile[B + (uint(j) * SIDE + ln) * ROW + s];
        for (int i = 0; i < PER; ++i) {
          acc[i][j] += DotOfFour(u[i].x, v.x, 0);
          acc[i][j] += DotOfFour(u[i].y, v.y, 0);
          acc[i][j] += DotOfFour(u[i].z, v.z, 0);
          acc[i][j] += DotOfFour(u[i].w, v.w, 0);
        }
      }
    }
    barrier();
  }
  uint across = (FLAT != 0 ? ln : lm) * PER, along = (FLAT != 0 ? lm : ln) * PER;
  for (int a = 0; a < PER; ++a)
    for (int b = 0; b < PER; b += 4)
      tile[((across + uint(a)) * TILE + along + uint(b)) / 4u] =
          FLAT != 0 ? uvec4(acc[b][a], acc[b + 1][a], acc[b + 2][a], acc[b + 3][a])
                    : uvec4(acc[a][b], acc[a][b + 1], acc[a][b + 2], acc[a][b + 3]);
  barrier();
  WriteResults();
}
