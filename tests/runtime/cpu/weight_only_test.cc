/// Weight-only products of every instruction set of this machine against plain loops: in integers
/// bit by bit, in f32 against sums in double.
#include "runtime/cpu/kernels/matmul/weight_only.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "lib/support/isa_tables.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "lib/tensor/tensor.h"

namespace infer {
namespace {

enum class Zeros : uint8_t { kNone, kBytes, kFloats };

/// A product with random weights, and what it should be.
class Problem {
 public:
  Problem(int bits, int64_t block, int64_t depth, int64_t columns, Zeros zeros, int64_t rows)
      : bits_(bits), block_(block), depth_(depth), columns_(columns), rows_(rows), zeros_(zeros) {
    Random random(static_cast<uint64_t>(bits + block + depth + columns + rows));
    const int64_t scales = columns * blocks();
    for (int64_t i = 0; i < scales * block * bits / 8; ++i)
      codes_.push_back(static_cast<uint8_t>(random.Below(256)));
    for (int64_t i = 0; i < scales; ++i) {
      scales_.push_back(static_cast<float>(random.Uniform() * 0.1 + 0.01));
      float_zeros_.push_back(static_cast<float>(random.Uniform() * (1 << bits)));
    }
    for (int64_t i = 0; i < columns * zero_bytes(); ++i)
      byte_zeros_.push_back(static_cast<uint8_t>(random.Below(256)));
    for (int64_t i = 0; i < rows * depth; ++i)
      a.push_back(static_cast<float>(random.Uniform() * 2 - 1));
    for (int64_t i = 0; i < columns; ++i) bias.push_back(static_cast<float>(random.Uniform()));
  }

  std::vector<float> Run(const simd::WeightOnly& table, bool integers) const {
    WeightOnlyProduct p{.table = &table};
    p.shape = {nullptr, blocks(), block_, bits_, zeros_ != Zeros::kNone};
    p.rows = rows_;
    p.depth = depth_;
    p.columns = columns_;
    p.integers = integers;
    PackedCodes from{.columns = columns_, .bits = bits_, .codes = codes_, .scales = scales_};
    if (zeros_ == Zeros::kBytes) from.byte_zeros = byte_zeros_;
    if (zeros_ == Zeros::kFloats) from.float_zeros = float_zeros_;
    PackedMemory memory;
    const auto w = PackWeights(from, p.shape, memory);
    const auto scratch = Buffer::Allocate(static_cast<size_t>(p.scratch_bytes()));
    std::vector<float> y(static_cast<size_t>(rows_ * columns_));
    p.Run(a.data(), w->data(), bias.data(), y.data(), scratch->mutable_data());
    return y;
  }

  /// In double; `size`: what is summed, without signs: codes count from the middle of their range,
  /// zero points apart.
  std::vector<double> Exact(std::vector<double>& size) const {
    std::vector<double> y;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t n = 0; n < columns_; ++n) {
        double sum = bias[static_cast<size_t>(n)], sizes = std::abs(sum);
        for (int64_t k = 0; k < depth_; ++k) {
          const double zero = Zero(n, k / block_), code = Code(n, k);
          const double x =
              static_cast<double>(a[static_cast<size_t>(r * depth_ + k)]) * Scale(n, k / block_);
          sum += x * (code - zero);
          sizes += std::abs(x) * (code + zero + (1 << (bits_ - 1)));
        }
        y.push_back(sum);
        size.push_back(sizes);
      }
    return y;
  }

  /// Row blocks rounded to 8 bits; sums of a block exact, between blocks rounded to f32 in order.
  std::vector<float> Quantized() const {
    std::vector<float> y;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t n = 0; n < columns_; ++n) {
        float total = 0;
        for (int64_t b = 0; b < blocks(); ++b) {
          float most = 0;
          for (int64_t k = b * block_; k < std::min(depth_, (b + 1) * block_); ++k)
            most = std::max(most, std::abs(a[static_cast<size_t>(r * depth_ + k)]));
          const float scale = most / 127, inverse = scale > 0 ? 1 / scale : 0;
          int64_t dot = 0, sum = 0;
          for (int64_t k = b * block_; k < std::min(depth_, (b + 1) * block_); ++k) {
            const auto q = static_cast<int64_t>(
                std::nearbyint(a[static_cast<size_t>(r * depth_ + k)] * inverse));
            dot += q * static_cast<int64_t>(Code(n, k));
            sum += q;
          }
          const volatile float product = static_cast<float>(Zero(n, b)) * static_cast<float>(sum);
          const float value = static_cast<float>(dot) - product;
          const volatile float both = static_cast<float>(Scale(n, b)) * scale;
          const volatile float add = value * both;
          total += add;
        }
        y.push_back(total + bias[static_cast<size_t>(n)]);
      }
    return y;
  }

  std::vector<float> a, bias;

 private:
  int64_t blocks() const { return BlocksOf(depth_, block_); }
  int64_t zero_bytes() const { return BlocksOf(blocks() * bits_, 8); }
  double Code(int64_t n, int64_t k) const {
    return Element(codes_, n * blocks() * block_ * bits_ / 8, k);
  }
  double Zero(int64_t n, int64_t b) const {
    if (zeros_ == Zeros::kNone) return 1 << (bits_ - 1);
    if (zeros_ == Zeros::kBytes) return Element(byte_zeros_, n * zero_bytes(), b);
    return static_cast<double>(float_zeros_[static_cast<size_t>(n * blocks() + b)]);
  }
  double Scale(int64_t n, int64_t b) const {
    return static_cast<double>(scales_[static_cast<size_t>(n * blocks() + b)]);
  }
  double Element(const std::vector<uint8_t>& row, int64_t begin, int64_t i) const {
    return row[static_cast<size_t>(begin + i * bits_ / 8)] >> (i * bits_ % 8) & ((1 << bits_) - 1);
  }

  int bits_;
  int64_t block_, depth_, columns_, rows_;
  Zeros zeros_;
  std::vector<uint8_t> codes_, byte_zeros_;
  std::vector<float> scales_, float_zeros_;
};

template <typename F>
void ForGrid(const F& f) {
  std::vector<int64_t> numbers_of_rows{1, 2, 3, 7, 13, 40}, blocks{16, 32, 64, 128, 256};
  if (std::getenv("INFER_SANITIZED")) numbers_of_rows = {1, 7}, blocks = {16, 128};
  for (int bits : {4, 8})
    for (int64_t block : blocks)
      for (int64_t depth : {1, 15, 96, 300})
        for (int64_t columns : {1, 16, 33})
          for (Zeros zeros : {Zeros::kNone, Zeros::kBytes, Zeros::kFloats})
            for (int64_t rows : numbers_of_rows)
              f(Problem(bits, block, depth, columns, zeros, rows),
                Cat("bits ", bits, " block ", block, " depth ", depth, " columns ", columns,
                    " zeros ", static_cast<int>(zeros), " rows ", rows));
}

TEST(WeightOnly, FloatsAreSums) {
  ForGrid([](const Problem& p, const std::string& what) {
    std::vector<double> size;
    const std::vector<double> want = p.Exact(size);
    for (const simd::WeightOnly* table : AllTables<simd::WeightOnly>()) {
      const std::vector<float> got = p.Run(*table, false);
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 5e-7 * size[i]) << table->isa << " " << what;
    }
  });
}

TEST(WeightOnly, IntegersAreTheSameBitsEverywhere) {
  ForGrid([](const Problem& p, const std::string& what) {
    const std::vector<float> want = p.Quantized();
    for (const simd::WeightOnly* table : AllTables<simd::WeightOnly>()) {
      const std::vector<float> got = p.Run(*table, true);
      ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
          << table->isa << " " << what;
    }
  });
}

TEST(WeightOnly, NaNAndInfinityAreSeen) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (bool integers : {false, true}) {
      Problem p(4, 32, 64, 5, Zeros::kNone, 2);
      p.a[70] = bad;
      for (const simd::WeightOnly* table : AllTables<simd::WeightOnly>()) {
        const std::vector<float> y = p.Run(*table, integers);
        for (size_t i = 0; i < 5; ++i) {
          EXPECT_TRUE(std::isfinite(y[i])) << table->isa;
          EXPECT_FALSE(std::isfinite(y[5 + i])) << table->isa;
        }
      }
    }
}

}  // namespace
}  // namespace infer
