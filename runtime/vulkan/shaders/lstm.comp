#version 450
#include "common.glsl"
// One step of LSTM, all directions, samples and units: an invocation makes the four gates of a unit
// (input, output, forget, cell), its new cell and state. `own` holds the states of two steps, which take
// turns, then the cells, each [direction, sample, unit].
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n;  // directions x samples x units
  uint batch, inputs, hidden;
  uint step, steps;
  uint reversed;                    // bit d: direction d walks backwards
  uint x_step, x_sample;            // strides of X
  uint y_step, y_dir, y_sample;     // strides of Y
} p;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer W { float w[]; };     // [direction, 4 hidden, inputs]
layout(binding = 2) readonly buffer R { float r[]; };     // [direction, 4 hidden, hidden]
layout(binding = 3) readonly buffer B { float bias[]; };  // [direction, 8 hidden]
layout(binding = 4) buffer S { float own[]; };
layout(binding = 5) writeonly buffer Y { float y[]; };
layout(constant_id = 0) const int HAS_BIAS = 0;
layout(constant_id = 1) const int HAS_Y = 0;
layout(constant_id = 2) const int HAS_H = 0;  // of before the first step; else zeros
layout(constant_id = 3) const int HAS_C = 0;

void main() {
  uint i = LinearGroup() * 64u + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uint unit = i % p.hidden, sample_n = i / p.hidden % p.batch, d = i / (p.hidden * p.batch);
  uint s = (p.reversed >> d & 1u) != 0u ? p.steps - 1u - p.step : p.step;
  uint x_at = s * p.x_step + sample_n * p.x_sample, h_at = (p.step & 1u) * p.n + i - unit;
  float gates[4];
  for (uint g = 0u; g < 4u; ++g) {
    uint row = (d * 4u + g) * p.hidden + unit;
    float sum = 0.0, late = 0.0;
    for (uint k = 0u; k < p.inputs; ++k) sum += x[x_at + k] * w[row * p.inputs + k];
    if (HAS_H != 0 || p.step > 0u)
      for (uint k = 0u; k < p.hidden; ++k) late += own[h_at + k] * r[row * p.hidden + k];
    if (HAS_BIAS != 0) {
      uint b = (d * 8u + g) * p.hidden + unit;
      sum += bias[b] + bias[b + 4u * p.hidden];
    }
    gates[g] = sum + late;
  }
  float before = HAS_C != 0 || p.step > 0u ? own[2u * p.n + i] : 0.0;
  float cell = Sigmoid(gates[2]) * before + Sigmoid(gates[0]) * Tanh(gates[3]);
  float state = Sigmoid(gates[1]) * Tanh(cell);
  own[2u * p.n + i] = cell;
  own[(1u - (p.step & 1u)) * p.n + i] = state;
  if (HAS_Y != 0) y[s * p.y_step + d * p.y_dir + sample_n * p.y_sample + unit] = state;
}
