// 8-bit codes in words, four to a word: no device needs bytes in buffers for them. A code is what
// it stands for, less its lowest value: signed ones are flipped by 0x80.
#ifndef INFER_CODES
#define INFER_CODES
#define CODE_AT(words, at) ((words[(at) >> 2] >> (((at) & 3u) * 8u)) & 0xffu)

// The number of a code less `zero`, which is flipped like the code.
int Less(uint code, int flip, int zero) { return int(code ^ uint(flip)) - zero; }

// a - q b, exactly where q is a / b but for an ulp: Dekker's product.
float Remainder(float a, float q, float b) {
  precise float c = 4097.0 * q;
  precise float q_hi = c - (c - q);
  precise float q_lo = q - q_hi;
  precise float d = 4097.0 * b;
  precise float b_hi = d - (d - b);
  precise float b_lo = b - b_hi;
  precise float product = q * b;
  precise float lost = ((q_hi * b_hi - product) + q_hi * b_lo + q_lo * b_hi) + q_lo * b_lo;
  precise float rest = (a - product) - lost;
  return rest;
}

// a / b for quanta, rounded as IEEE 754 has it: a GPU's own may err by 2.5 ulp, which moves what
// lies at or next to a half. Quotients that round to 0 or lie beyond all codes need no care, nor
// extents where the remainder leaves the normal numbers.
float Quanta(float a, float b) {
  precise float q = a / b;
  if (!(abs(q) > 0.25 && abs(q) < 1024.0 && abs(a) > 1e-25 && abs(b) < 1e30)) return q;
  precise float near = q + Remainder(a, q, b) / b;
  float rest = Remainder(a, near, b);
  if (rest == 0.0) return near;
  // The neighbour on the other side of the quotient may be nearer; two are never equally near.
  bool above = (rest > 0.0) == (b > 0.0);
  float other = intBitsToFloat(floatBitsToInt(near) + (above == (near > 0.0) ? 1 : -1));
  return abs(Remainder(a, other, b)) < abs(rest) ? other : near;
}

// Quanta, less the zero point, to a code: `lo` is the lowest that there is. NaN gives that.
uint CodeOf(float quanta, float lo, int flip) {
  float v = quanta > lo ? quanta : lo;
  v = v < lo + 255.0 ? v : lo + 255.0;
  return uint(int(roundEven(v) - lo)) ^ uint(flip);
}
#endif
