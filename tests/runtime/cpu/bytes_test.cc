/// The product of bytes against the loops that its header states.
#include "runtime/cpu/simd/bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/support/random.h"

namespace infer::simd {
namespace {

constexpr int64_t kMostQuads = 9;

struct Operands {
  explicit Operands(uint64_t seed) {
    Random random(seed);
    for (auto& v : a) v = static_cast<uint8_t>(random.Below(256));
    for (auto& v : b) v = static_cast<int8_t>(random.Below(256));
    for (int j = 0; j < kByteColumns; ++j) {
      start[j] = static_cast<int32_t>(random.Below(20000)) - 10000;
      bias[j] = static_cast<float>(random.Below(2000)) - 1000.25f;
      scale[j] = 0.001f * static_cast<float>(1 + random.Below(9));
    }
    for (auto& v : d) v = static_cast<std::byte>(random.Below(256));
  }
  float Value(int r, int j, int64_t quads, const ByteFinish& f) const {
    int32_t sum = start[j];
    for (int64_t k = 0; k < quads * kByteQuad; ++k)
      sum += a[static_cast<size_t>(r * kStride + k)] *
             b[static_cast<size_t>((k / kByteQuad * kByteColumns + j) * kByteQuad + k % kByteQuad)];
    float v = (static_cast<float>(sum) + bias[j]) * scale[j];
    if (f.clips) v = std::clamp(v, f.clip_lo, f.clip_hi) * f.clip_scale;
    return v;
  }
  uint8_t Byte(int r, int j, float v, const ByteFinish& f) const {
    if (f.form == ByteFinish::Form::kBytes)
      return static_cast<uint8_t>(
          (static_cast<int>(std::nearbyint(std::clamp(v, f.lo, f.hi))) + f.zero) ^ f.flip);
    const int other =
        (static_cast<int>(d[static_cast<size_t>(r * kByteColumns + j)]) ^ f.flip) - f.other_zero;
    const float u = std::fma(static_cast<float>(other), f.other_scale,
                             std::nearbyint(std::clamp(v, f.lo, f.hi)) * f.sum_scale);
    return static_cast<uint8_t>(
        (static_cast<int>(std::nearbyint(std::clamp(u, f.sum_lo, f.sum_hi))) + f.zero) ^ f.flip);
  }

  static constexpr int64_t kStride = kMostQuads * kByteQuad + 3;  ///< of rows: any alignment
  alignas(64) uint8_t a[kByteTileRows * kStride];
  alignas(64) int8_t b[kMostQuads * kByteColumns * kByteQuad];
  int32_t start[kByteColumns];
  float bias[kByteColumns], scale[kByteColumns];
  alignas(64) std::byte d[kByteTileRows * kByteColumns];
};

TEST(Bytes, ProductsOfEveryNumberOfRows) {
  const MultiplyBytesFn multiply = TheMultiplyBytes();
  if (!multiply) GTEST_SKIP() << "this machine, or INFER_MAX_ISA, has no VNNI of 512 bits";
  using Form = ByteFinish::Form;
  const ByteFinish finishes[] = {
      {.form = Form::kFloat},
      {.form = Form::kFloat, .clips = true, .clip_lo = -20, .clip_hi = 30},
      {.form = Form::kBytes, .lo = 0, .hi = 255},
      {.form = Form::kBytes,
       .clips = true,
       .clip_lo = 0,
       .clip_hi = 60,
       .clip_scale = 2.5,
       .lo = -100,
       .hi = 155,
       .zero = 100},
      {.form = Form::kBytes, .flip = 128, .lo = -121, .hi = 134, .zero = 121},
      {.form = Form::kResidual,
       .lo = 0,
       .hi = 255,
       .sum_scale = 0.7f,
       .other_scale = 0.3f,
       .sum_hi = 255},
      {.form = Form::kResidual,
       .flip = 128,
       .lo = -100,
       .hi = 155,
       .sum_scale = 0.7f,
       .other_scale = 0.9f,
       .sum_lo = -130,
       .sum_hi = 125,
       .zero = 130,
       .other_zero = 117},
  };
  for (int rows = 1; rows <= kByteTileRows; ++rows)
    for (int64_t quads = 1; quads <= kMostQuads; ++quads)
      for (const ByteFinish& f : finishes) {
        const Operands o(static_cast<uint64_t>(rows * 100 + quads));
        const bool is_float = f.form == Form::kFloat;
        std::vector<std::byte> got(o.d, o.d + sizeof o.d);
        got.resize(kByteTileRows * kByteColumns * 4, std::byte{7});
        ByteCall call;
        call.a = o.a;
        call.a_stride = Operands::kStride;
        call.b = o.b;
        call.quads = quads;
        call.d = got.data();
        call.d_stride = kByteColumns * (is_float ? 4 : 1);
        call.start = o.start;
        call.bias = o.bias;
        call.scale = o.scale;
        call.finish = &f;
        multiply(rows, call);
        for (int r = 0; r < rows; ++r)
          for (int j = 0; j < kByteColumns; ++j) {
            const float want = o.Value(r, j, quads, f);
            if (is_float)
              ASSERT_EQ(reinterpret_cast<const float*>(got.data())[r * kByteColumns + j], want);
            else
              ASSERT_EQ(static_cast<int>(got[static_cast<size_t>(r * kByteColumns + j)]),
                        o.Byte(r, j, want, f))
                  << rows << " rows, " << quads << " quads, at " << r << ", " << j;
          }
        // Rows behind stay as they were.
        for (size_t i = static_cast<size_t>(rows * call.d_stride); i < got.size(); ++i)
          ASSERT_EQ(got[i], i < sizeof o.d ? o.d[i] : std::byte{7});
      }
}

}  // namespace
}  // namespace infer::simd
