#version 450
#include "common.glsl"
#include "codes.glsl"
// Maximum or mean of windows of codes over three spatial axes; four results per invocation. The
// mean is that of the real values, as in 64 bits: a sum and what it lost, both in f32.
layout(local_size_x = 64) in;
layout(constant_id = 0) const int AVERAGE = 0;
layout(constant_id = 1) const int COUNT_PADDING = 0;
layout(constant_id = 2) const int FLIP_X = 0;
layout(constant_id = 3) const int FLIP_Y = 0;
layout(push_constant) uniform Push {
  uint n;
  uint in_d[3], out_d[3], k_d[3];
  uint step[3];  // stride | dilation << 16
  int pad[3], pad_end[3];
  int x_zero;
  float x_scale, y_scale, lo;
} p;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };

// (hi + lo) / count, rounded once but for ties within 2^-20 of a half: the remainder of the first
// quotient is exact (Dekker's product).
float Mean(float hi, float lo, float count) {
  precise float q = hi / count;
  precise float c = 4097.0 * q;
  precise float q_hi = c - (c - q);
  precise float q_lo = q - q_hi;
  precise float d = 4097.0 * count;
  precise float n_hi = d - (d - count);
  precise float n_lo = count - n_hi;
  precise float product = q * count;
  precise float lost = ((q_hi * n_hi - product) + q_hi * n_lo + q_lo * n_hi) + q_lo * n_lo;
  precise float rest = ((hi - product) - lost) + lo;
  precise float more = rest / count;
  precise float mean = q + more;
  return mean;
}

uint Result(uint i) {
  uint rest = i;
  int begin[3], o[3];
  for (int d = 2; d >= 0; --d) {
    o[d] = int(rest % p.out_d[d]);
    rest /= p.out_d[d];
    begin[d] = o[d] * int(p.step[d] & 0xffffu) - p.pad[d];
  }
  uint base = rest * p.in_d[0] * p.in_d[1] * p.in_d[2];
  uint best = 0u, count = 0u;
  precise float hi = 0.0, lo = 0.0;
  for (int k0 = 0; k0 < int(p.k_d[0]); ++k0)
    for (int k1 = 0; k1 < int(p.k_d[1]); ++k1)
      for (int k2 = 0; k2 < int(p.k_d[2]); ++k2) {
        int i0 = begin[0] + k0 * int(p.step[0] >> 16);
        int i1 = begin[1] + k1 * int(p.step[1] >> 16);
        int i2 = begin[2] + k2 * int(p.step[2] >> 16);
        bool inside = i0 >= 0 && i0 < int(p.in_d[0]) && i1 >= 0 && i1 < int(p.in_d[1]) &&
                      i2 >= 0 && i2 < int(p.in_d[2]);
        bool counts = inside || (COUNT_PADDING != 0 && i0 < int(p.in_d[0]) + p.pad_end[0] &&
                                 i1 < int(p.in_d[1]) + p.pad_end[1] &&
                                 i2 < int(p.in_d[2]) + p.pad_end[2]);
        if (counts) ++count;
        if (!inside) continue;
        uint code = CODE_AT(x, base + (uint(i0) * p.in_d[1] + uint(i1)) * p.in_d[2] + uint(i2));
        code ^= uint(FLIP_X);
        best = max(best, code);
        precise float v = float(int(code) - p.x_zero) * p.x_scale;
        precise float sum = hi + v;
        precise float back = sum - hi;
        precise float error = (hi - (sum - back)) + (v - back);
        hi = sum;
        lo += error;
      }
  if (AVERAGE == 0) return best ^ uint(FLIP_Y);
  return CodeOf(Quanta(Mean(hi, lo, float(count)), p.y_scale), p.lo, FLIP_Y);
}

void main() {
  uint first = (LinearGroup() * 64u + gl_LocalInvocationID.x) * 4u;
  if (first >= p.n) return;
  uint word = 0u;
  for (uint j = 0u; j < 4u && first + j < p.n; ++j) word |= Result(first + j) << (8u * j);
  y[first / 4u] = word;
}
