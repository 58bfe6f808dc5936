#version 450
#include "common.glsl"
// Operands of half.comp: f32 numbers rounded to f16, eight to a word along the axis that products
// sum over, zeros up to a multiple of 32. Of a matrix that axis is k (strides say how it lies); of
// images (IMAGES) it is their channels, which come last, with padding around each image.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;                        // words
  uint rows, k, words;           // of a matrix or image; words along the axis
  uint row_stride, k_stride;     // of a matrix; of images k_stride is a plane
  uint batch[2];                 // matrices along the two batch axes; images in batch[1]
  uint batch_stride[2];
  uint padded_w, in_h, in_w;     // IMAGES: rows are padded_h x padded_w pixels
  uint pad_h, pad_w;
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { uvec4 y[]; };
layout(constant_id = 0) const int IMAGES = 0;
// Neighbours read neighbours: along k, or along rows.
layout(constant_id = 1) const int ROWS_FIRST = 0;

void main() {
  uint at = LinearGroup() * 64u + gl_LocalInvocationID.x;
  if (at >= p.n) return;
  uint matrix = at / (p.rows * p.words), rest = at % (p.rows * p.words);
  uint row = ROWS_FIRST != 0 ? rest % p.rows : rest / p.words;
  uint word = ROWS_FIRST != 0 ? rest / p.rows : rest % p.words;
  uint from = matrix / p.batch[1] * p.batch_stride[0] + matrix % p.batch[1] * p.batch_stride[1];
  bool inside = true;
  if (IMAGES != 0) {
    int h = int(row / p.padded_w) - int(p.pad_h), w = int(row % p.padded_w) - int(p.pad_w);
    inside = h >= 0 && w >= 0 && h < int(p.in_h) && w < int(p.in_w);
    from += uint(h) * p.in_w + uint(w);
  } else {
    from += row * p.row_stride;
  }
  float v[8];
  for (uint i = 0u; i < 8u; ++i) {
    uint k = word * 8u + i;
    v[i] = inside && k < p.k ? x[from + k * p.k_stride] : 0.0;
  }
  y[(matrix * p.rows + row) * p.words + word] =
      uvec4(packHalf2x16(vec2(v[0], v[1])), packHalf2x16(vec2(v[2], v[3])),
            packHalf2x16(vec2(v[4], v[5])), packHalf2x16(vec2(v[6], v[7])));
}
