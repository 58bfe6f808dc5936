#version 450
#include "common.glsl"
// V = B^T d B of every tile d of 4 x 4 pixels, two apart, of an image with its padding:
// V[16][channels][tiles] (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015).
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;             // channels x tiles
  uint first, tiles;  // of all tiles [samples][down][across]
  uint down, across;  // of an image
  uint channels;
  uint in_h, in_w;
  int pad_h, pad_w;
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer V { float v[]; };

void Transform(float a, float b, float c, float d, out float y[4]) {
  y[0] = a - c;
  y[1] = b + c;
  y[2] = c - b;
  y[3] = b - d;
}

void main() {
  uint at = LinearGroup() * 64u + gl_LocalInvocationID.x;
  if (at >= p.n) return;
  uint tile = p.first + at % p.tiles, channel = at / p.tiles;
  int top = int(tile / p.across % p.down) * 2 - p.pad_h;
  int left = int(tile % p.across) * 2 - p.pad_w;
  uint plane = (tile / (p.across * p.down) * p.channels + channel) * (p.in_h * p.in_w);
  float columns[4][4];
  for (int j = 0; j < 4; ++j) {
    float d[4];
    bool inside = left + j >= 0 && left + j < int(p.in_w);
    for (int i = 0; i < 4; ++i) {
      bool there = inside && top + i >= 0 && top + i < int(p.in_h);
      float read = x[plane + (there ? uint(top + i) * p.in_w + uint(left + j) : 0u)];
      d[i] = there ? read : 0.0;
    }
    Transform(d[0], d[1], d[2], d[3], columns[j]);
  }
  for (int i = 0; i < 4; ++i) {
    float row[4];
    Transform(columns[0][i], columns[1][i], columns[2][i], columns[3][i], row);
    for (int j = 0; j < 4; ++j) v[uint(i * 4 + j) * p.n + at] = row[j];
  }
}
