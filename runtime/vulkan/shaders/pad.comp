#version 450
#include "common.glsl"
// ONNX's Pad of elements of four bytes over up to five axes; negative pads crop.
layout(local_size_x = 64) in;
layout(constant_id = 0) const int MODE = 0;  // constant, edge, reflect, wrap
layout(push_constant) uniform Push {
  uint n, fill;
  uint dims[5];    // of the result
  int before[5];
  uint extents[5];  // of the operand
  uint strides[5];
} p;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };

void main() {
  uint first = LinearGroup() * 256u + gl_LocalInvocationID.x;
  for (uint k = 0u; k < 4u; ++k) {
    uint i = first + k * 64u;
    if (i >= p.n) return;
    uint rest = i, at = 0u;
    bool inside = true;
    for (int d = 4; d >= 0; --d) {
      int c = int(rest % p.dims[d]) - p.before[d];
      rest /= p.dims[d];
      int e = int(p.extents[d]);
      if (MODE == 0) {
        inside = inside && c >= 0 && c < e;
      } else if (MODE == 1) {
        c = clamp(c, 0, e - 1);
      } else if (MODE == 2) {
        int period = max(1, 2 * (e - 1));
        c = abs(c) % period;
        c = c < e ? c : period - c;
      } else {
        c = ((c % e) + e) % e;
      }
      if (inside) at += uint(c) * p.strides[d];
    }
    y[i] = inside ? x[at] : p.fill;
  }
}
