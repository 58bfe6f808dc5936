#include "runtime/cpu/kernels/recurrent/byte_product.h"

#include <algorithm>
#include <cstring>

#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/folds.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {

DynamicRange RangeOf(const float* x, int64_t n) {
  float low = 0, high = 0;
  simd::TheFolds().range(x, n, &low, &high);
  return DynamicRangeOf(double{low}, double{high});
}

ByteProduct ByteProduct::Of(const Tensor& codes, const Tensor& scale, const Tensor& zero,
                            int64_t direction) {
  ByteProduct p;
  p.depth_ = codes.dim(1);
  const int64_t columns = codes.dim(2), of_direction = p.depth_ * columns;
  const auto place = [&](const Tensor& t, int64_t j) {
    return t.rank() == 2 ? direction * columns + j : direction;
  };
  // Unsigned codes become signed ones; their zero points move along.
  const bool is_signed = codes.dtype() == DType::kI8;
  std::vector<int8_t> signed_codes(static_cast<size_t>(of_direction));
  for (int64_t i = 0; i < of_direction; ++i)
    signed_codes[static_cast<size_t>(i)] =
        static_cast<int8_t>(codes.IntAt(direction * of_direction + i) - (is_signed ? 0 : 128));
  std::vector<float> scales;
  for (int64_t j = 0; j < columns; ++j) {
    scales.push_back(static_cast<float>(scale.At(place(scale, j))));
    p.zeros_.push_back(static_cast<int32_t>(zero.IntAt(place(zero, j)) - (is_signed ? 0 : 128)));
  }
  p.weights_ = ByteWeights::Pack(signed_codes.data(), p.depth_, columns, columns, 1, 1, {}, scales);
  p.zeros_.resize(p.weights_.start.size());
  if (std::all_of(p.zeros_.begin(), p.zeros_.end(), [](int32_t z) { return z == 0; }))
    p.zeros_.clear();
  return p;
}

void ByteProduct::Quantize(const float* x, int64_t rows, int64_t depth, const DynamicRange& range,
                           uint8_t* codes) {
  const auto quantize = simd::TheLoops().quantize_u8;
  const auto zero = static_cast<int32_t>(range.zero_point);
  const int64_t row = RowBytes(depth);
  if (row == depth) return quantize(x, codes, rows * depth, range.scale, zero);
  for (int64_t r = 0; r < rows; ++r) {
    quantize(x + r * depth, codes + r * row, depth, range.scale, zero);
    std::fill_n(codes + r * row + depth, row - depth, uint8_t{0});
  }
}

void ByteProduct::Run(const uint8_t* codes, int64_t rows, const DynamicRange& range,
                      const float* plus, float* y, float* scratch, bool again) const {
  const auto padded = static_cast<int64_t>(weights_.start.size());
  auto* const start = reinterpret_cast<int32_t*>(scratch);
  float* const scales = scratch + padded;
  const auto zero = static_cast<int32_t>(range.zero_point);
  const float scale = range.scale;
  for (int64_t j = 0; j < padded; ++j) {
    start[j] = zero * weights_.start[static_cast<size_t>(j)];
    scales[j] = scale * weights_.scales[static_cast<size_t>(j)];
  }
  ByteGemm gemm;
  gemm.multiply = simd::TheMultiplyBytes();
  gemm.finish.form =
      is_symmetric() ? simd::ByteFinish::Form::kFloat : simd::ByteFinish::Form::kInts;
  gemm.rows.width = rows;
  gemm.depth = RowBytes(depth_);
  gemm.columns = padded;
  gemm.warm = again;
  gemm.Run(reinterpret_cast<const std::byte*>(codes),
           {weights_.panels->data(), start, weights_.bias.data(), scales,
            is_symmetric() ? plus : nullptr},
           reinterpret_cast<std::byte*>(y), nullptr);
  if (!is_symmetric()) Finish(codes, rows, zero, plus, scales, y);
}

/// y holds sums of codes less the zero point by codes of the weights; what the zero points of the
/// weights take from them hangs on the row.
void ByteProduct::Finish(const uint8_t* codes, int64_t rows, int64_t zero, const float* plus,
                         const float* scales, float* y) const {
  const auto padded = static_cast<int64_t>(weights_.start.size());
  const int64_t bytes = RowBytes(depth_);
  for (int64_t r = 0; r < rows; ++r, codes += bytes, y += padded) {
    int32_t sum = static_cast<int32_t>(-zero * depth_);
    for (int64_t k = 0; k < depth_; ++k) sum += codes[k];
    for (int64_t j = 0; j < padded; ++j) {
      int32_t product;
      std::memcpy(&product, y + j, sizeof product);
      product -= zeros_[static_cast<size_t>(j)] * sum;
      y[j] = static_cast<float>(product) * scales[j] + (plus ? plus[j] : 0.0f);
    }
  }
}

}  // namespace infer
