// What all shaders share: the number of the workgroup, tests on bits, and functions whose precision
// does not hang on the driver (Vulkan allows exp 3 + 2|x| units in the last place and more).
#ifndef INFER_COMMON
#define INFER_COMMON
#extension GL_GOOGLE_include_directive : require

#define kInf uintBitsToFloat(0x7f800000u)
#define kNaN uintBitsToFloat(0x7fc00000u)

// More than 65,535 workgroups along one axis go on along the second.
uint LinearGroup() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// isnan() may be compiled away where a driver takes for granted that there are none.
bool IsNaN(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

// Drivers may take numbers below the normal ones for zero; bits tell.
bool IsZero(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0u; }
bool IsNegative(float x) { return floatBitsToUint(x) >> 31 != 0u && !IsZero(x); }

// 2^k x for k in [-300, 300]; results below the normal numbers are zero or rounded.
float Scale2(float x, int k) {
  int half_k = k / 2;
  float a = uintBitsToFloat(uint(clamp(half_k, -126, 127) + 127) << 23);
  float b = uintBitsToFloat(uint(clamp(k - half_k, -126, 127) + 127) << 23);
  return x * a * b;
}

// x = k ln 2 + r, |r| <= ln 2 / 2; the Taylor polynomial of degree 7 is exact to 2^-26 there.
float Exp(float x) {
  if (IsNaN(x)) return x;
  if (x > 88.8) return kInf;
  if (x < -104.0) return 0.0;
  float k = floor(x * 1.44269504 + 0.5);
  precise float r = x - k * 0.693359375;
  r = r - k * -2.12194440e-4;
  float p = 1.9841270e-4;
  p = p * r + 1.3888889e-3;
  p = p * r + 8.3333333e-3;
  p = p * r + 4.1666667e-2;
  p = p * r + 1.6666667e-1;
  p = p * r + 0.5;
  return Scale2(1.0 + (r + r * r * p), int(k));
}

// Cephes' logf (S. L. Moshier): the mantissa in [sqrt(1/2), sqrt(2)), then a polynomial.
float Log(float x) {
  if (IsNaN(x)) return x;
  if (IsNegative(x)) return kNaN;
  if (IsZero(x)) return -kInf;
  if (x == kInf) return x;
  int e = 0;
  uint bits = floatBitsToUint(x);
  if (bits < 0x00800000u) {  // below the normal numbers: an integer times 2^-149
    bits = floatBitsToUint(float(bits));
    e = -149;
  }
  e += int(bits >> 23) - 126;
  float m = uintBitsToFloat((bits & 0x007fffffu) | 0x3f000000u);
  if (m < 0.707106781) {
    e -= 1;
    m = m + m;
  }
  m -= 1.0;
  float z = m * m;
  float p = 7.0376836292e-2;
  p = p * m - 1.1514610310e-1;
  p = p * m + 1.1676998740e-1;
  p = p * m - 1.2420140846e-1;
  p = p * m + 1.4249322787e-1;
  p = p * m - 1.6668057665e-1;
  p = p * m + 2.0000714765e-1;
  p = p * m - 2.4999993993e-1;
  p = p * m + 3.3333331174e-1;
  float y = p * m * z;
  float fe = float(e);
  y += fe * -2.12194440e-4;
  y -= 0.5 * z;
  return m + y + fe * 0.693359375;
}

float Tanh(float x) {
  float a = abs(x);
  if (IsNaN(x)) return x;
  if (a < 0.625) {
    float z = x * x;
    float p = -5.70498872745e-3;
    p = p * z + 2.06390887954e-2;
    p = p * z - 5.37397155531e-2;
    p = p * z + 1.33314422036e-1;
    p = p * z - 3.33332819422e-1;
    return p * z * x + x;
  }
  float t = a > 9.5 ? 1.0 : 1.0 - 2.0 / (Exp(2.0 * a) + 1.0);
  return x < 0.0 ? -t : t;
}

float Sigmoid(float x) {
  if (IsNaN(x)) return x;
  // exp of a negative number only: it does not overflow.
  float e = Exp(-abs(x));
  return x < 0.0 ? e / (1.0 + e) : 1.0 / (1.0 + e);
}

// log(1 + exp(x))
float Softplus(float x) {
  if (IsNaN(x)) return x;
  float e = Exp(-abs(x));
  // log(1 + e) for small e keeps its digits by the series.
  float l = e < 1e-4 ? e - 0.5 * e * e : Log(1.0 + e);
  return max(x, 0.0) + l;
}

// Cephes' erff and erfcf.
float Erf(float x) {
  if (IsNaN(x)) return x;
  float a = abs(x);
  if (a < 1.0) {
    float z = x * x;
    float p = 7.853861353153693e-5;
    p = p * z - 8.010193625184903e-4;
    p = p * z + 5.188327685732524e-3;
    p = p * z - 2.685381193529856e-2;
    p = p * z + 1.128358514861418e-1;
    p = p * z - 3.761262582423300e-1;
    p = p * z + 1.128379165726710;
    return x * p;
  }
  if (a > 5.0) return x < 0.0 ? -1.0 : 1.0;
  float q = 1.0 / a, y = q * q, p;
  if (a < 2.0) {
    p = 2.326819970068386e-2;
    p = p * y - 1.387039388740657e-1;
    p = p * y + 3.687424674597105e-1;
    p = p * y - 5.824733027278666e-1;
    p = p * y + 6.210004621745983e-1;
    p = p * y - 4.944515323274145e-1;
    p = p * y + 3.404879937665872e-1;
    p = p * y - 2.741127028184656e-1;
    p = p * y + 5.638259427386472e-1;
  } else {
    p = -1.047766399936249e+1;
    p = p * y + 1.297719955372516e+1;
    p = p * y - 7.495518717768503;
    p = p * y + 2.921019019210786;
    p = p * y - 1.015265279202700;
    p = p * y + 4.218463358204948e-1;
    p = p * y - 2.820767439740514e-1;
    p = p * y + 5.641895067754075e-1;
  }
  float tail = Exp(-a * a) * q * p;
  return x < 0.0 ? tail - 1.0 : 1.0 - tail;
}

float Gelu(float x) { return 0.5 * x * (1.0 + Erf(x * 0.70710678)); }
float GeluTanh(float x) {
  return 0.5 * x * (1.0 + Tanh(0.79788456 * (x + 0.044715 * x * x * x)));
}

// NaN wins, as ONNX's Max and Min have it.
float MaxNaN(float a, float b) { return IsNaN(a) || a > b ? a : b; }
float MinNaN(float a, float b) { return IsNaN(a) || a < b ? a : b; }

float PowInteger(float x, int n) {
  float y = 1.0, f = x;
  for (uint k = uint(abs(n)); k != 0u; k >>= 1) {
    if ((k & 1u) != 0u) y *= f;
    f *= f;
  }
  return n < 0 ? 1.0 / y : y;
}

float Pow(float x, float y) {
  if (y == 0.0 || x == 1.0) return 1.0;
  if (IsNaN(x) || IsNaN(y)) return kNaN;
  bool whole = y == floor(y);
  if (whole && abs(y) <= 64.0) return PowInteger(x, int(y));
  if (y == 0.5 && x >= 0.0) return sqrt(x);
  if (abs(y) == kInf) {
    float a = abs(x);
    if (a == 1.0) return 1.0;
    return (a > 1.0) == (y > 0.0) ? kInf : 0.0;
  }
  if (x < 0.0 && !whole && x != -kInf) return kNaN;
  float a = Exp(y * Log(abs(x)));
  bool odd = whole && abs(y) < 16777216.0 && fract(y * 0.5) != 0.0;
  return odd && (floatBitsToUint(x) >> 31) != 0u ? -a : a;
}

// x as a number of quarter turns and what is left of it, in [-pi/4, pi/4]. Pre: x >= 0, finite.
float RestOfTurn(float x, out uint quarter) {
  const float kHalfPi = 1.57079632679;
  if (x < 8192.0) {  // Cody and Waite: pi/2 in three parts, the first two of few bits
    float n = floor(x * 0.636619772 + 0.5);
    quarter = uint(n);
    precise float y = x - n * 1.5703125;
    y = y - n * 4.837512969970703125e-4;
    y = y - n * 7.549789948768648e-8;
    return y;
  }
  // Payne and Hanek: of the bits of 2/pi those that matter modulo four quarters, times the mantissa.
  const uint bits[8] = uint[8](0u, 0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u, 0xDB629599u,
                               0x3C439041u, 0xFE5163ABu);
  uint raw = floatBitsToUint(x);
  uint mantissa = (raw & 0x7FFFFFu) | 0x800000u, skip = (raw >> 23) - 120u;
  uint word = skip >> 5, shift = skip & 31u, w[3];
  for (uint i = 0u; i < 3u; ++i)
    w[i] = shift == 0u ? bits[word + i]
                       : (bits[word + i] << shift) | (bits[word + i + 1u] >> (32u - shift));
  uint high1, low1, high2, low2, carry;
  umulExtended(mantissa, w[1], high1, low1);
  umulExtended(mantissa, w[2], high2, low2);
  uint middle = uaddCarry(low1, high2, carry), top = mantissa * w[0] + high1 + carry;
  uint rest = (top << 2) | (middle >> 30);
  quarter = (top >> 30) + (rest >> 31);
  return float(int(rest)) * (kHalfPi / 4294967296.0);
}

// Cephes' sinf and cosf; the driver's own may err by 2^-11.
float SinOrCos(float x, bool is_cosine) {
  if (abs(x) == kInf) return kNaN;
  uint quarter;
  float y = RestOfTurn(abs(x), quarter), z = y * y;
  bool negative = !is_cosine && floatBitsToUint(x) >> 31 != 0u;
  if (is_cosine) quarter += 1u;
  float s = (quarter & 1u) != 0u
      ? 1.0 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5))
      : y + y * z * (-1.6666654611e-1 + z * (8.3321608736e-3 + z * -1.9515295891e-4));
  return negative != ((quarter & 2u) != 0u) ? -s : s;
}

// The functions of one operand. The numbers are those of UnaryCode (kernels/functions.h).
float Apply(int op, float x, float a, float b) {
  // All but ThresholdedRelu. A driver may make max(x, 0), which loses NaN, of a comparison.
  if (op != 26 && IsNaN(x)) return x;
  switch (op) {
    case 1: return abs(x);
    case 2: return -x;
    case 3: return x < 0.0 ? 0.0 : x;
    case 4: return x < a ? a : (x > b ? b : x);
    case 5: return x < 0.0 ? a * x : x;
    case 6: return Sigmoid(x);
    case 7: return Tanh(x);
    case 8: return Exp(x);
    case 9: return Log(x);
    case 10: return sqrt(x);
    case 11: return 1.0 / x;
    case 12: return floor(x);
    case 13: return ceil(x);
    case 14: return roundEven(x);
    case 15: return Erf(x);
    case 16: return Gelu(x);
    case 17: return GeluTanh(x);
    case 18: return x * Sigmoid(a * x);
    case 19: { // a = 1/6, b = 1/2
      float h = a * x + b;
      return x * (h < 0.0 ? 0.0 : (h > 1.0 ? 1.0 : h));
    }
    case 20: {
      float h = a * x + b;
      return h < 0.0 ? 0.0 : (h > 1.0 ? 1.0 : h);
    }
    case 21: return x < 0.0 ? a * (Exp(x) - 1.0) : x;
    case 22: return Softplus(x);
    case 23: return x * Tanh(Softplus(x));
    case 24: return IsZero(x) ? x : (IsNegative(x) ? -1.0 : 1.0);
    case 25: return x / (1.0 + abs(x));
    case 26: return x > a ? x : 0.0;
    case 27: return x < 0.0 ? b * (a * (Exp(x) - 1.0)) : b * x;  // Selu
    case 28: return x < 0.0 ? a * (Exp(x / a) - 1.0) : x;        // Celu
    case 29: return SinOrCos(x, false);
    case 30: return SinOrCos(x, true);
  }
  return x;
}

// The functions of two operands: the numbers of kernels/functions.h. Behind one another they round
// as each by itself does: drivers must not make one operation of two.
float Arithmetic(int op, float l, float r) {
  precise float y = l;
  switch (op) {
    case 1: y = l + r; break;
    case 2: y = l - r; break;
    case 3: y = l * r; break;
    case 4: y = l / r; break;
    case 5: y = MaxNaN(l, r); break;
    case 6: y = MinNaN(l, r); break;
    case 7: y = Pow(l, r); break;
    case 8: y = l < 0.0 ? l * r : l; break;
  }
  return y;
}
#endif
