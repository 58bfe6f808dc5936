#version 450
#include "common.glsl"
#include "codes.glsl"
// Rows of a table of codes by index, dequantized: Y[count, rows, width] = (code - zero) scale. Codes lie
// in bytes, the lowest bits first, a row from a whole byte on; scales and zero points are those of blocks
// along the row. Of a table that no buffer holds a dispatch sees some entries.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;              // numbers of Y
  uint width, rows;    // numbers of a row, rows of an index
  uint block, blocks;  // numbers of a block, blocks of a row
  uint row_bytes, zero_bytes;
  uint first, entries;  // of the table, of this part
} p;
layout(binding = 0) readonly buffer X { uint codes[]; };
layout(binding = 1) readonly buffer I { uint at[]; };  // within the extent
layout(binding = 2) readonly buffer S { float scales[]; };
layout(binding = 3) readonly buffer Z { uint zeros[]; };
layout(binding = 4) writeonly buffer Y { float y[]; };
layout(constant_id = 0) const int BITS = 4;
layout(constant_id = 1) const int HAS_ZEROS = 0;

void main() {
  uint begin = LinearGroup() * 256u + gl_LocalInvocationID.x;
  uint mask = (1u << uint(BITS)) - 1u;
  for (uint k = 0u; k < 4u; ++k) {
    uint i = begin + k * 64u;
    if (i >= p.n) return;
    uint e = i % p.width, r = i / p.width, entry = at[r / p.rows];
    if (entry < p.first || entry - p.first >= p.entries) continue;
    uint row = (entry - p.first) * p.rows + r % p.rows, b = e / p.block;
    uint code_at = row * p.row_bytes + e * uint(BITS) / 8u;
    uint code = CODE_AT(codes, code_at) >> (e * uint(BITS) & 7u) & mask;
    uint zero = 1u << uint(BITS - 1);
    if (HAS_ZEROS != 0) {
      uint zero_at = row * p.zero_bytes + b * uint(BITS) / 8u;
      zero = CODE_AT(zeros, zero_at) >> (b * uint(BITS) & 7u) & mask;
    }
    y[i] = float(int(code) - int(zero)) * scales[row * p.blocks + b];
  }
}
