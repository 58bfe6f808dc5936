#version 450
#include "common.glsl"
// Convolution as a product that is never written down: rows are output channels of a group,
// columns the pixels of all samples, the common axis channel x window. Tiles and parts as in
// matmul.comp.
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
  uint k_part;
  uint y_channels, first_channel;  // of Y, and where W's part stands among them (one group)
  float tail[6];
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer W { float w[]; };
layout(binding = 2) readonly buffer B { float bias[]; };
layout(binding = 3) readonly buffer R { float residual[]; };
layout(binding = 4) writeonly buffer Y { float y[]; };
layout(constant_id = 3) const int HAS_BIAS = 0;
layout(constant_id = 4) const int POINTWISE = 0;  // 1x1, stride 1, no padding
// Long sums are of sums of 256 products: one after the other they would lose digits.
layout(constant_id = 5) const int LONG = 0;
layout(constant_id = 6) const int SPLIT = 0;
#define RESIDUAL(at) residual[at]
#define TAIL_PARAMETER(i) p.tail[i]
#include "tail.glsl"

shared float sa[DEPTH][TILE + 1];
shared float sb[DEPTH][TILE + 1];

void main() {
  uint group = LinearGroup();
  uint tile_n = group % p.tiles_n;
  uint tile_m = group / p.tiles_n % p.tiles_m;
  uint g = group / (p.tiles_n * p.tiles_m);
  uint part = g / p.groups;
  g = g % p.groups;
  uint begin = part * p.k_part, end = min(p.k, begin + p.k_part);
  if (begin >= p.k) return;
  uint pixels = p.out_h * p.out_w, plane = p.in_h * p.in_w, columns = pixels * p.samples;
  uint row0 = tile_m * TILE, column0 = tile_n * TILE;
  uint per_group = p.in_channels / p.groups;
  uint stride_h = p.strides & 0xffffu, stride_w = p.strides >> 16;
  uint dilation_h = p.dilations & 0xffffu, dilation_w = p.dilations >> 16;
  uint id = gl_LocalInvocationID.x;
  uint lm = id / SIDE, ln = id % SIDE;
  float acc[PER][PER], whole[PER][PER];
  for (int i = 0; i < PER; ++i)
    for (int j = 0; j < PER; ++j) acc[i][j] = whole[i][j] = 0.0;
  // Which pixel this invocation loads: TILE divides THREADS, so that it is the same one each time.
  uint load_n = column0 + id % TILE;
  bool loads = load_n < columns;
  uint sample_n = load_n / pixels, pixel = load_n % pixels;
  int from_h = int(pixel / p.out_w * stride_h) - p.pad_h;
  int from_w = int(pixel % p.out_w * stride_w) - p.pad_w;
  uint base = (sample_n * p.in_channels + g * per_group) * plane;
  for (uint k0 = begin; k0 < end; k0 += DEPTH) {
    for (uint e = id; e < TILE * DEPTH; e += THREADS) {
      uint c = e % DEPTH, r = e / DEPTH;
      uint gr = row0 + r, gk = k0 + c;
      sa[c][r] = gr < p.m && gk < end ? w[(g * p.m + gr) * p.k + gk] : 0.0;
    }
    for (uint r = id / TILE; r < DEPTH; r += THREADS / TILE) {
      uint gk = k0 + r;
      float v = 0.0;
      if (loads && gk < end) {
        if (POINTWISE != 0) {
          v = x[base + gk * plane + pixel];
        } else {
          uint kw = gk % p.k_w, rest = gk / p.k_w;
          uint kh = rest % p.k_h, c = rest / p.k_h;
          int ih = from_h + int(kh * dilation_h), iw = from_w + int(kw * dilation_w);
          if (ih >= 0 && ih < int(p.in_h) && iw >= 0 && iw < int(p.in_w))
            v = x[base + c * plane + uint(ih) * p.in_w + uint(iw)];
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
          whole[i][j] += acc[i][j];
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
      uint channel = p.first_channel + g * p.m + row;
      float v = LONG != 0 ? whole[i][j] + acc[i][j] : acc[i][j];
      uint at = (sample_y * p.y_channels + channel) * pixels + at_pixel;
      if (SPLIT != 0) {
        y[part * (columns * p.y_channels) + at] = v;
        continue;
      }
      if (HAS_BIAS != 0) v += bias[channel];
      y[at] = Tail(v, at);
    }
  }
}
