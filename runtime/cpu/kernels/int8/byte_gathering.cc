#include "runtime/cpu/kernels/int8/byte_gathering.h"

#include <algorithm>
#include <cstring>

#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

constexpr int64_t kPackGrain = 1 << 15;  // bytes that are worth a lane

}  // namespace

void ByteGathering::Run(const uint8_t* x, uint8_t zero, uint8_t* to) const {
  const int64_t across = result[2];
  ForRange(images * result[0] * result[1],
           std::max<int64_t>(1, kPackGrain / std::max<int64_t>(1, across * row_bytes)),
           [&](int64_t begin, int64_t end) {
             for (int64_t line = begin; line < end; ++line)
               for (int64_t i = 0; i < across; ++i)
                 Row(x, line, i, zero, to + (line * across + i) * row_bytes);
           });
}

void ByteGathering::Row(const uint8_t* x, int64_t line, int64_t i, uint8_t zero,
                        uint8_t* to) const {
  const int64_t n = line / (result[0] * result[1]);
  const int64_t d = line / result[1] % result[0] * strides[0] - pads[0];
  const int64_t h = line % result[1] * strides[1] - pads[1], w = i * strides[2] - pads[2];
  const uint8_t* const from = x + n * NumElements(image) * channels;
  uint8_t* at = to;
  const int64_t run = window[2] * channels;
  for (int64_t a = 0; a < window[0]; ++a)
    for (int64_t b = 0; b < window[1]; ++b, at += run) {
      const int64_t z = d + a * dilations[0], y = h + b * dilations[1];
      if (z < 0 || z >= image[0] || y < 0 || y >= image[1]) {
        std::memset(at, zero, static_cast<size_t>(run));
        continue;
      }
      Line(from + (z * image[1] + y) * image[2] * channels, w, zero, at);
    }
  std::memset(at, 0, static_cast<size_t>(to + row_bytes - at));
  if (flip)
    for (uint8_t* p = to; p < at; ++p) *p ^= flip;
}

void ByteGathering::Line(const uint8_t* from, int64_t w, uint8_t zero, uint8_t* at) const {
  const int64_t step = dilations[2];
  if (step == 1 && w >= 0 && w + window[2] <= image[2]) {
    std::memcpy(at, from + w * channels, static_cast<size_t>(window[2] * channels));
    return;
  }
  for (int64_t c = 0; c < window[2]; ++c, at += channels) {
    const int64_t column = w + c * step;
    if (column < 0 || column >= image[2])
      std::memset(at, zero, static_cast<size_t>(channels));
    else
      std::memcpy(at, from + column * channels, static_cast<size_t>(channels));
  }
}

}  // namespace infer
