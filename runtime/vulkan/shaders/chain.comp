#version 450
#include "common.glsl"
// Up to MOST functions of one and two operands, one behind the other, element by element. Which they are,
// and what each reads, is known when the pipeline is made: operands of the chain are 0 to 3, the result
// of step k is 4 + k, parameter i is 12 + i. Operands broadcast by strides, or lie like the result (FLAT).
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;
  uint dims[4];
  uint strides[16];  // by operand
  float parameters[10];
} p;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) readonly buffer C { float c[]; };
layout(binding = 3) readonly buffer D { float d[]; };
layout(binding = 4) writeonly buffer Y { float y[]; };
layout(constant_id = 0) const int STEPS = 0;
layout(constant_id = 1) const int OPERANDS = 0;
layout(constant_id = 2) const int FLAT = 0;  // a bit for each operand
// Of each step: Apply's number, or 200 and Arithmetic's; what it reads; where its parameters are, 10: zeros.
#define DECLARE(k, first)                                  \
  layout(constant_id = first) const int CODE##k = 0;       \
  layout(constant_id = first + 1) const int LEFT##k = 0;   \
  layout(constant_id = first + 2) const int RIGHT##k = 0;  \
  layout(constant_id = first + 3) const int PAIR##k = 0;
DECLARE(0, 3)
DECLARE(1, 7)
DECLARE(2, 11)
DECLARE(3, 15)
DECLARE(4, 19)
DECLARE(5, 23)
DECLARE(6, 27)
DECLARE(7, 31)

float Parameter(int i) { return i < 10 ? p.parameters[i] : 0.0; }
float Step(int code, float left, float right, int pair) {
  if (code >= 200) return Arithmetic(code - 200, left, right);
  return Apply(code, left, Parameter(pair), Parameter(pair + 1));
}
#define RUN(k) \
  if (STEPS > k) r[4 + k] = Step(CODE##k, r[LEFT##k], r[RIGHT##k], PAIR##k);

uint Place(int operand, uint i) {
  if ((FLAT >> operand & 1) != 0) return i;
  uint at = 0u;
  for (int x = 3; x >= 0; --x) {
    at += i % p.dims[x] * p.strides[operand * 4 + x];
    i /= p.dims[x];
  }
  return at;
}

void main() {
  uint first = LinearGroup() * 256u + gl_LocalInvocationID.x;
  for (uint e = 0u; e < 4u; ++e) {
    uint i = first + e * 64u;
    if (i >= p.n) return;
    float r[22];
    for (int k = 0; k < 10; ++k) r[12 + k] = p.parameters[k];
    r[0] = a[Place(0, i)];
    if (OPERANDS > 1) r[1] = b[Place(1, i)];
    if (OPERANDS > 2) r[2] = c[Place(2, i)];
    if (OPERANDS > 3) r[3] = d[Place(3, i)];
    RUN(0)
    RUN(1)
#if MOST > 2
    RUN(2)
    RUN(3)
#endif
#if MOST > 4
    RUN(4)
    RUN(5)
    RUN(6)
    RUN(7)
#endif
    y[i] = r[3 + STEPS];
  }
}
