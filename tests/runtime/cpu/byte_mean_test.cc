/// Sums and means of 8-bit codes: every instruction set adds alike, and a mean that sums bound has
/// the bits of one that adds the real numbers.
#include "runtime/cpu/kernels/int8/byte_mean.h"

#include <gtest/gtest.h>

#include <vector>

#include "lib/support/isa_tables.h"
#include "lib/support/random.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

std::vector<uint8_t> AnyBytes(int64_t n, Random& random) {
  std::vector<uint8_t> bytes(static_cast<size_t>(n));
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random.Below(256));
  return bytes;
}

TEST(ByteSums, AreThoseOfEveryByte) {
  Random random(3);
  for (const simd::ByteSums* table : AllTables<simd::ByteSums>())
    for (const int64_t rows : {1, 3, 257, 258, 700})
      for (const int64_t columns : {1, 63, 128, 129, 300})
        for (const uint8_t flip : {0, 0x80}) {
          const int64_t stride = columns + 5;
          std::vector<uint8_t> x = AnyBytes(rows * stride, random);
          if (rows > 256) std::fill(x.begin(), x.begin() + 257 * stride, uint8_t(255 ^ flip));
          std::vector<uint32_t> sums(static_cast<size_t>(columns), 7), want = sums;
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c)
              want[static_cast<size_t>(c)] += x[static_cast<size_t>(r * stride + c)] ^ flip;
          table->columns(x.data(), rows, stride, columns, flip, sums.data());
          EXPECT_EQ(sums, want) << rows << " x " << columns;
          const int64_t n = rows * stride - 3;
          uint32_t all = 0;
          for (int64_t i = 0; i < n; ++i) all += x[static_cast<size_t>(i)] ^ flip;
          EXPECT_EQ(table->row(x.data(), n, flip), all) << n;
        }
}

struct MeanCase {
  ByteScale from, to;
  bool rounds_last;
};

/// Means of random columns, by both ways; how many of them lay too near to a tie.
void CheckMeans(const MeanCase& c, int64_t rows, int64_t divisor, Random& random, int* near) {
  constexpr int64_t kColumns = 256;
  const ByteMean mean(c.from, c.to, c.rounds_last);
  const std::vector<uint8_t> x = AnyBytes(rows * kColumns, random);
  const auto codes = std::as_bytes(std::span(x));
  std::vector<uint32_t> sums(kColumns, 0);
  simd::TheByteSums().columns(x.data(), rows, kColumns, kColumns, mean.flip(), sums.data());
  const auto exact = [&](int64_t i) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const std::byte code = codes[static_cast<size_t>(r * kColumns + i)];
      const int32_t number = c.from.dtype == DType::kI8
                                 ? static_cast<int8_t>(static_cast<uint8_t>(code))
                                 : static_cast<uint8_t>(code);
      sum += static_cast<double>(static_cast<float>(number - c.from.zero) * c.from.scale);
    }
    return sum;
  };
  std::vector<std::byte> got(kColumns), want(kColumns);
  mean.Write(sums.data(), kColumns, rows, divisor, got.data(), [&](int64_t i) {
    ++*near;
    return exact(i);
  });
  const simd::Loops& loops = simd::TheLoops();
  const float lo = LowestCode(c.to.dtype);
  for (int64_t i = 0; i < kColumns; ++i) {
    const auto real = static_cast<float>(exact(i) / static_cast<double>(divisor));
    std::byte* const y = &want[static_cast<size_t>(i)];
    if (c.rounds_last) {
      const float code = std::nearbyint(real / c.to.scale + static_cast<float>(c.to.zero));
      *y = static_cast<std::byte>(static_cast<int32_t>(std::clamp(code, lo, lo + 255)));
    } else if (c.to.dtype == DType::kU8) {
      loops.quantize_u8(&real, As<uint8_t>(y), 1, c.to.scale, c.to.zero);
    } else {
      loops.quantize_s8(&real, As<int8_t>(y), 1, c.to.scale, c.to.zero);
    }
  }
  EXPECT_EQ(got, want) << rows << " rows, scales " << c.from.scale << " and " << c.to.scale;
}

/// Scales that make many exact ties, hardly any, and products that overflow or vanish.
TEST(ByteMean, IsThatOfTheRealNumbers) {
  const MeanCase cases[] = {
      {{DType::kU8, 0.02f, 128}, {DType::kU8, 0.02f, 128}, false},
      {{DType::kU8, 0.02f, 0}, {DType::kU8, 0.0151181f, 3}, false},
      {{DType::kI8, 0.5f, -3}, {DType::kI8, 0.25f, 7}, false},
      {{DType::kI8, 0.1f, 0}, {DType::kU8, 0.1f, 128}, true},
      {{DType::kU8, 0.37f, 255}, {DType::kI8, 1e-3f, -128}, true},
      {{DType::kU8, 3e37f, 128}, {DType::kU8, 1e37f, 128}, false},
      {{DType::kU8, 1e-44f, 128}, {DType::kU8, 2e-44f, 128}, false},
  };
  Random random(5);
  int near = 0, all = 0;
  for (const MeanCase& c : cases)
    for (const int64_t rows : {1, 2, 4, 9, 49, 1000}) {
      CheckMeans(c, rows, rows, random, &near);
      CheckMeans(c, rows, rows + 3, random, &near);
      all += 512;
    }
  EXPECT_GT(near, 0) << "no case needs the real numbers";
  EXPECT_LT(near, all / 3) << "sums decide next to nothing";
}

}  // namespace
}  // namespace infer
