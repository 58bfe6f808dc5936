// 8-bit codes in words, four to a word: no device needs bytes in buffers for them. A code is what
// it stands for, less its lowest value: signed ones are flipped by 0x80.
#ifndef INFER_CODES
#define INFER_CODES
#define CODE_AT(words, at) ((words[(at) >> 2] >> (((at) & 3u) * 8u)) & 0xffu)

// The number of a code less `zero`, which is flipped like the code.
int Less(uint code, int flip, int zero) { return int(code ^ uint(flip)) - zero; }

// Quanta, less the zero point, to a code: `lo` is the lowest that there is. NaN gives that.
uint CodeOf(float quanta, float lo, int flip) {
  float v = quanta > lo ? quanta : lo;
  v = v < lo + 255.0 ? v : lo + 255.0;
  return uint(int(roundEven(v) - lo)) ^ uint(flip);
}
#endif
