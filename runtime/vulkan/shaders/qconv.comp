#version 450
#include "common.glsl"
#include "codes.glsl"
#ifdef BYTES
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_8bit_storage : require
#endif
// Quantized convolution as a product that is never written down, as conv.comp: a matrix product is
// one over samples of one pixel. Products of codes are added in f32, which is exact for 256 of them
// (255 x 128 x 256 < 2^24), then in 32 bits. With BYTES results are codes, else words.
layout(local_size_x = SIDE * SIDE) in;
#define THREADS (SIDE * SIDE)
#define PER (TILE / SIDE)
#define DEPTH 16
layout(push_constant) uniform Push {
  uint m, k;  // output channels of a group; its input channels x window
  uint tiles_m, tiles_n;
  uint samples, groups;
  uint in_h, in_w, out_h, out_w;
  uint k_h, k_w;
  uint strides;    // h | w << 16
  uint dilations;  // h | w << 16
  int pad_h, pad_w;
  uint in_channels;  // of all groups
  int x_zero;
  float tail[4];
  float to_quanta, lo, y_lo;
  int r_zero;
  float r_scale, between_scale, y_scale;
} p;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) readonly buffer W { uint w[]; };  // [channel][k / 4] of four s8
layout(binding = 2) readonly buffer C { float channels[]; };
layout(binding = 3) readonly buffer R { uint residual[]; };
#ifdef BYTES
layout(binding = 4) writeonly buffer Y { uint8_t y[]; };
#else
layout(binding = 4) writeonly buffer Y { uint y[]; };
#endif
layout(constant_id = 7) const int POINTWISE = 0;  // 1x1, stride 1, no padding
layout(constant_id = 8) const int LONG = 0;       // more than 256 products
#include "qtail.glsl"

shared float sa[DEPTH][TILE + 1];
shared float sb[DEPTH][TILE + 1];

void main() {
  uint group = LinearGroup();
  uint tile_n = group % p.tiles_n;
  uint tile_m = group / p.tiles_n % p.tiles_m;
  uint g = group / (p.tiles_n * p.tiles_m);
  if (g >= p.groups) return;
  uint pixels = p.out_h * p.out_w, plane = p.in_h * p.in_w, columns = pixels * p.samples;
  uint row0 = tile_m * TILE, column0 = tile_n * TILE;
  uint per_group = p.in_channels / p.groups;
  uint stride_h = p.strides & 0xffffu, stride_w = p.strides >> 16;
  uint dilation_h = p.dilations & 0xffffu, dilation_w = p.dilations >> 16;
  uint words = (p.k + 3u) / 4u;
  uint id = gl_LocalInvocationID.x;
  uint lm = id / SIDE, ln = id % SIDE;
  float acc[PER][PER];
  int whole[PER][PER];
  for (int i = 0; i < PER; ++i)
    for (int j = 0; j < PER; ++j) {
      acc[i][j] = 0.0;
      whole[i][j] = 0;
    }
  // Which pixel this invocation loads: TILE divides THREADS, so that it is the same one each time.
  uint load_n = column0 + id % TILE;
  bool loads = load_n < columns;
  uint sample_n = load_n / pixels, pixel = load_n % pixels;
  int from_h = int(pixel / p.out_w * stride_h) - p.pad_h;
  int from_w = int(pixel % p.out_w * stride_w) - p.pad_w;
  uint base = (sample_n * p.in_channels + g * per_group) * plane;
  for (uint k0 = 0u; k0 < p.k; k0 += DEPTH) {
    for (uint e = id; e < TILE * DEPTH / 4; e += THREADS) {
      uint c = e % (DEPTH / 4), r = e / (DEPTH / 4);
      uint gr = row0 + r, gw = k0 / 4u + c;
      // Beyond the end of k are zeros.
      int four = gr < p.m && gw < words ? int(w[(g * p.m + gr) * words + gw]) : 0;
      sa[4u * c][r] = float(bitfieldExtract(four, 0, 8));
      sa[4u * c + 1u][r] = float(bitfieldExtract(four, 8, 8));
      sa[4u * c + 2u][r] = float(bitfieldExtract(four, 16, 8));
      sa[4u * c + 3u][r] = float(bitfieldExtract(four, 24, 8));
    }
    for (uint r = id / TILE; r < DEPTH; r += THREADS / TILE) {
      uint gk = k0 + r;
      float v = 0.0;
      if (loads && gk < p.k) {
        if (POINTWISE != 0) {
          v = float(Less(CODE_AT(x, base + gk * plane + pixel), FLIP_X, p.x_zero));
        } else {
          uint kw = gk % p.k_w, rest = gk / p.k_w;
          uint kh = rest % p.k_h, c = rest / p.k_h;
          int ih = from_h + int(kh * dilation_h), iw = from_w + int(kw * dilation_w);
          if (ih >= 0 && ih < int(p.in_h) && iw >= 0 && iw < int(p.in_w))
            v = float(Less(CODE_AT(x, base + c * plane + uint(ih) * p.in_w + uint(iw)), FLIP_X,
                           p.x_zero));
        }
      }
      sb[r][id % TILE] = v;
    }
    barrier();
    for (int kk = 0; kk < DEPTH; ++kk) {
      float u[PER], v[PER];
      for (int i = 0; i < PER; ++i) u[i] = sa[kk][lm + uint(i) * SIDE];
      for (int j = 0; j < PER; ++j) v[j] = sb[kk][ln + uint(j) * SIDE];
      for (int i = 0; i < PER; ++i)
        for (int j = 0; j < PER; ++j) acc[i][j] += u[i] * v[j];
    }
    barrier();
    if (LONG != 0 && (k0 & 255u) == 240u)
      for (int i = 0; i < PER; ++i)
        for (int j = 0; j < PER; ++j) {
          whole[i][j] += int(acc[i][j]);
          acc[i][j] = 0.0;
        }
  }
  for (int j = 0; j < PER; ++j) {
    uint column = column0 + ln + uint(j) * SIDE;
    if (column >= columns) continue;
    uint sample_y = column / pixels, at_pixel = column % pixels;
    for (int i = 0; i < PER; ++i) {
      uint row = row0 + lm + uint(i) * SIDE;
      if (row >= p.m) continue;
      uint channel = g * p.m + row;
      uint at = (sample_y * p.groups * p.m + channel) * pixels + at_pixel;
      int sum = int(acc[i][j]);
      if (LONG != 0) sum += whole[i][j];
#ifdef BYTES
      y[at] = uint8_t(Finished(sum, channel, at));
#else
      y[at] = Finished(sum, channel, at);
#endif
    }
  }
}
