// Weights of 2, 4 and 8 bits in the place of B, as MatMulNBits has them: rows of B' in blocks, the
// lowest bits first, a scale and a zero point for each block. b_row is the extent of a block, b_column
// how many blocks a row has.
#include "codes.glsl"
layout(binding = 1) readonly buffer B { uint codes[]; };
layout(binding = 5) readonly buffer S { float scales[]; };
layout(binding = 6) readonly buffer Z { uint zeros[]; };  // codes, a row from a whole byte on, or f32
layout(constant_id = 7) const int BITS = 4;
layout(constant_id = 8) const int ZEROS = 0;  // 0: the middle, 1: codes, 2: f32

float WeightAt(uint k, uint column) {
  uint bits = uint(BITS), mask = (1u << bits) - 1u;
  uint block = k / p.b_row, of_block = column * p.b_column + block;
  uint row_words = p.b_column * p.b_row * bits / 32u, at = k * bits;
  float code = float(codes[column * row_words + at / 32u] >> (at & 31u) & mask);
  float zero = float(1u << (bits - 1u));
  if (ZEROS == 1) {
    uint zero_at = column * ((p.b_column * bits + 7u) / 8u) + block * bits / 8u;
    zero = float(CODE_AT(zeros, zero_at) >> (block * bits & 7u) & mask);
  }
  if (ZEROS == 2) zero = uintBitsToFloat(zeros[of_block]);
  return (code - zero) * scales[of_block];
}
#define B_AT(batch_at, k, column) WeightAt(k, column)
