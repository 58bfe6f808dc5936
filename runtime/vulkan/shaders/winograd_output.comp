#version 450
#include "common.glsl"
// Y = tail(A^T M A + bias): two by two pixels of every tile of M[parts][16][channels][tiles], the sum
// of its parts. Pixels beyond the image are left out.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;  // channels x tiles
  uint parts;
  uint first, tiles;  // of all tiles [samples][down][across]
  uint down, across;  // of an image
  uint channels;
  uint out_h, out_w;
  float tail[6];
} p;
layout(binding = 0) readonly buffer M { float m[]; };
layout(binding = 1) readonly buffer B { float bias[]; };
layout(binding = 2) readonly buffer R { float residual[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(constant_id = 3) const int HAS_BIAS = 0;
#define RESIDUAL(at) residual[at]
#define TAIL_PARAMETER(i) p.tail[i]
#include "tail.glsl"

void main() {
  uint at = LinearGroup() * 64u + gl_LocalInvocationID.x;
  if (at >= p.n) return;
  uint tile = p.first + at % p.tiles, channel = at / p.tiles;
  float columns[4][2];
  for (int j = 0; j < 4; ++j) {
    float d[4];
    for (int i = 0; i < 4; ++i) {
      uint from = uint(i * 4 + j) * p.n + at;
      d[i] = m[from];
      for (uint part = 1u; part < p.parts; ++part) d[i] += m[part * (16u * p.n) + from];
    }
    columns[j][0] = d[0] + d[1] + d[2];
    columns[j][1] = d[1] - d[2] - d[3];
  }
  uint top = tile / p.across % p.down * 2u, left = tile % p.across * 2u;
  uint plane = (tile / (p.across * p.down) * p.channels + channel) * (p.out_h * p.out_w);
  float b = HAS_BIAS != 0 ? bias[channel] : 0.0;
  for (uint i = 0u; i < 2u; ++i) {
    if (top + i >= p.out_h) break;
    float pair[2];
    pair[0] = columns[0][i] + columns[1][i] + columns[2][i];
    pair[1] = columns[1][i] - columns[2][i] - columns[3][i];
    for (uint j = 0u; j < 2u; ++j) {
      if (left + j >= p.out_w) break;
      uint to = plane + (top + i) * p.out_w + left + j;
      y[to] = Tail(pair[j] + b, to);
    }
  }
}
