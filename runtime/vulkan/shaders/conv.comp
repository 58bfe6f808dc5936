#version 450
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
// Convolution as a product that is never written down: rows are output channels of a group,
// columns the pixels of all samples, the common axis channel x window, by tiles (tile.glsl).
layout(local_size_x = SIDE * SIDE) in;
#include "tile.glsl"
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
layout(constant_id = 5) const int LONG = 0;
layout(constant_id = 6) const int SPLIT = 0;
#define RESIDUAL(at) residual[at]
#define TAIL_PARAMETER(i) p.tail[i]
#include "tail.glsl"

float next_a[LOADS], next_b[LOADS];
uint g, row0, end, plane;
// Of the pixel that this invocation loads: THREADS are a multiple of TILE, so that it is the same one
// each time.
bool loads;
uint pixel, base;
int from_h, from_w;

// Element `gk` of the common axis at that pixel.
float Input(uint gk) {
  if (POINTWISE != 0) return x[base + gk * plane + pixel];
  uint kw = gk % p.k_w, rest = gk / p.k_w;
  uint kh = rest % p.k_h, c = rest / p.k_h;
  int ih = from_h + int(kh * (p.dilations & 0xffffu)), iw = from_w + int(kw * (p.dilations >> 16));
  if (ih < 0 || ih >= int(p.in_h) || iw < 0 || iw >= int(p.in_w)) return 0.0;
  return x[base + c * plane + uint(ih) * p.in_w + uint(iw)];
}

void Fetch(uint k0) {
  UNROLL for (uint i = 0u; i < LOADS; ++i) {
    uint e = gl_LocalInvocationID.x + i * THREADS;
    uint row = row0 + e / DEPTH, k = k0 + e % DEPTH;
    next_a[i] = row < p.m && k < end ? w[(g * p.m + row) * p.k + k] : 0.0;
  }
  UNROLL for (uint i = 0u; i < LOADS; ++i) {
    uint k = k0 + (gl_LocalInvocationID.x + i * THREADS) / TILE;
    next_b[i] = loads && k < end ? Input(k) : 0.0;
  }
}
void Keep() {
  UNROLL for (uint i = 0u; i < LOADS; ++i) {
    uint e = gl_LocalInvocationID.x + i * THREADS;
    KeepA(e % DEPTH, e / DEPTH, next_a[i]);
    KeepB(e / TILE, e % TILE, next_b[i]);
  }
}

void main() {
  uint group = LinearGroup();
  uint tile_n = group % p.tiles_n;
  uint tile_m = group / p.tiles_n % p.tiles_m;
  g = group / (p.tiles_n * p.tiles_m);
  uint part = g / p.groups;
  g = g % p.groups;
  uint begin = part * p.k_part;
  end = min(p.k, begin + p.k_part);
  if (begin >= p.k) return;
  uint pixels = p.out_h * p.out_w, columns = pixels * p.samples;
  uint column0 = tile_n * TILE;
  row0 = tile_m * TILE;
  plane = p.in_h * p.in_w;
  uint load_n = column0 + gl_LocalInvocationID.x % TILE;
  loads = load_n < columns;
  pixel = load_n % pixels;
  from_h = int(pixel / p.out_w * (p.strides & 0xffffu)) - p.pad_h;
  from_w = int(pixel % p.out_w * (p.strides >> 16)) - p.pad_w;
  base = (load_n / pixels * p.in_channels + g * (p.in_channels / p.groups)) * plane;
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
  UNROLL for (int j = 0; j < PER; ++j) {
    uint column = column0 + ColumnOfTile(j);
    if (column >= columns) continue;
    uint sample_y = column / pixels, at_pixel = column % pixels;
    UNROLL for (int i = 0; i < PER; ++i) {
      uint row = row0 + RowOfTile(i);
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
