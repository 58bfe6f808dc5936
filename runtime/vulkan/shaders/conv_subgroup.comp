#version 450
#include "common.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
// As conv.comp for devices on a processor: 8 lanes of a subgroup make 16 rows x 32 columns without
// shared memory, whose every access such a driver makes lane by lane. Each lane reads two weights,
// which are broadcast, and four pixels. The sum runs over the window, then over channels.
layout(local_size_x = 8) in;
#define ROWS 16
#define PIXELS 4
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
#define RESIDUAL(at) residual[at]
#define TAIL_PARAMETER(i) p.tail[i]
#include "tail.glsl"

void main() {
  uint group = LinearGroup();
  uint tile_m = group % p.tiles_m;
  uint tile_n = group / p.tiles_m % p.tiles_n;
  uint g = group / (p.tiles_n * p.tiles_m);
  if (g >= p.groups) return;
  uint pixels = p.out_h * p.out_w, plane = p.in_h * p.in_w, columns = pixels * p.samples;
  // The workgroup is (a part of) one subgroup; broadcasts name lanes of it.
  uint lane = gl_SubgroupInvocationID;
  uint row0 = tile_m * ROWS, column0 = tile_n * (8u * PIXELS);
  uint per_group = p.in_channels / p.groups;
  uint stride_h = p.strides & 0xffffu, stride_w = p.strides >> 16;
  uint dilation_h = p.dilations & 0xffffu, dilation_w = p.dilations >> 16;
  uint taps = p.k_h * p.k_w;
  float acc[ROWS][PIXELS], whole[ROWS][PIXELS];
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < PIXELS; ++j) acc[i][j] = whole[i][j] = 0.0;
  // Rows beyond the end read the last one; their sums are not written.
  uint w0 = (g * p.m + min(row0 + lane, p.m - 1u)) * p.k;
  uint w1 = (g * p.m + min(row0 + 8u + lane, p.m - 1u)) * p.k;
  uint base[PIXELS];
  int from_h[PIXELS], from_w[PIXELS];
  for (int j = 0; j < PIXELS; ++j) {
    uint column = min(column0 + lane + 8u * uint(j), columns - 1u);
    uint pixel = column % pixels;
    base[j] = (column / pixels * p.in_channels + g * per_group) * plane;
    from_h[j] = int(pixel / p.out_w * stride_h) - p.pad_h;
    from_w[j] = int(pixel % p.out_w * stride_w) - p.pad_w;
  }
  for (uint kh = 0u; kh < p.k_h; ++kh)
    for (uint kw = 0u; kw < p.k_w; ++kw) {
      uint at[PIXELS];
      bool inside[PIXELS];
      for (int j = 0; j < PIXELS; ++j) {
        int ih = from_h[j] + int(kh * dilation_h), iw = from_w[j] + int(kw * dilation_w);
        inside[j] = POINTWISE != 0 ||
                    (ih >= 0 && ih < int(p.in_h) && iw >= 0 && iw < int(p.in_w));
        at[j] = base[j] + (inside[j] ? uint(ih) * p.in_w + uint(iw) : 0u);
      }
      uint tap = kh * p.k_w + kw;
      for (uint c0 = 0u; c0 < per_group; c0 += 256u) {
        uint end = min(per_group, c0 + 256u);
        for (uint c = c0; c < end; ++c) {
          float u0 = w[w0 + c * taps + tap], u1 = w[w1 + c * taps + tap];
          float v[PIXELS];
          for (int j = 0; j < PIXELS; ++j) {
            float read = x[at[j] + c * plane];
            v[j] = inside[j] ? read : 0.0;
          }
#define ROW(i, u)                                              \
  {                                                            \
    float b = subgroupBroadcast(u, (i) & 7);                   \
    for (int j = 0; j < PIXELS; ++j) acc[i][j] += b * v[j];    \
  }
          ROW(0, u0) ROW(1, u0) ROW(2, u0) ROW(3, u0) ROW(4, u0) ROW(5, u0) ROW(6, u0) ROW(7, u0)
          ROW(8, u1) ROW(9, u1) ROW(10, u1) ROW(11, u1) ROW(12, u1) ROW(13, u1) ROW(14, u1)
          ROW(15, u1)
        }
        if (LONG != 0)
          for (int i = 0; i < ROWS; ++i)
            for (int j = 0; j < PIXELS; ++j) {
              whole[i][j] += acc[i][j];
              acc[i][j] = 0.0;
            }
      }
    }
  for (int j = 0; j < PIXELS; ++j) {
    uint column = column0 + lane + uint(j) * 8u;
    if (column >= columns) continue;
    uint sample_y = column / pixels, at_pixel = column % pixels;
    for (int i = 0; i < ROWS; ++i) {
      uint row = row0 + uint(i);
      if (row >= p.m) break;
      uint channel = p.first_channel + g * p.m + row;
      float v = LONG != 0 ? whole[i][j] : acc[i][j];
      if (HAS_BIAS != 0) v += bias[channel];
      uint at = (sample_y * p.y_channels + channel) * pixels + at_pixel;
      y[at] = Tail(v, at);
    }
  }
}
