#include "runtime/cpu/kernels/int8/offset_weights.h"

#include <algorithm>
#include <cstring>

#include "runtime/cpu/launch/launch.h"

namespace infer {

OffsetWeights OffsetWeightsOf(const QuantInput& w, int64_t columns) {
  const Tensor& from = *w.constant;
  const int64_t middle = from.dtype() == DType::kU8 ? 128 : 0;
  OffsetWeights out{Tensor(DType::kI8, from.dims()), {}};
  const auto to = out.codes.mutable_data<int8_t>();
  for (int64_t i = 0; i < from.num_elements(); ++i)
    to[static_cast<size_t>(i)] = static_cast<int8_t>(from.IntAt(i) - middle);
  const auto& zeros = w.params.zero_points;
  for (int64_t n = 0; n < columns; ++n)
    out.offsets.push_back(static_cast<int32_t>(middle) -
                          zeros[zeros.size() == 1 ? 0 : static_cast<size_t>(n)]);
  return out;
}

std::vector<int16_t> OffsetWeights::Added() const {
  const auto from = codes.data<int8_t>();
  const size_t of_channel = from.size() / offsets.size();
  std::vector<int16_t> out(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    out[i] = static_cast<int16_t>(from[i] + offsets[i / of_channel]);
  return out;
}

void AddOffsetsToRow(int32_t x_sum, const int32_t* offsets, const float* scale, const float* plus,
                     int64_t columns, bool real, std::byte* y) {
  for (int64_t n = 0; n < columns; ++n) {
    int32_t v;
    std::memcpy(&v, y + n * 4, 4);
    v += offsets[n] * x_sum;
    if (!real) {
      std::memcpy(y + n * 4, &v, 4);
      continue;
    }
    float f = static_cast<float>(v) * scale[n];
    if (plus) f += plus[n];
    std::memcpy(y + n * 4, &f, 4);
  }
}

void AddOffsets::Run(const uint8_t* x, int32_t zero, const float* scale, const float* plus,
                     std::byte* y) const {
  constexpr int64_t kGrain = 1 << 15;  // bytes and results that are worth a lane
  ForRange(
      rows, std::max<int64_t>(1, kGrain / (row_bytes + columns)), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          int32_t sum = -zero * static_cast<int32_t>(depth);
          for (int64_t i = 0; i < row_bytes; ++i) sum += x[r * row_bytes + i];
          AddOffsetsToRow(sum, offsets->data(), scale, plus, columns, real, y + r * columns * 4);
        }
      });
}

}  // namespace infer
