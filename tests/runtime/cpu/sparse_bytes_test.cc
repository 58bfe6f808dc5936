/// Products of bytes that skip zeros against plain loops: extents that fill and miss tiles, panels
/// and quads, windows, numbers of threads; the choice between sparse and dense.
#include "runtime/cpu/kernels/int8/sparse_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "lib/support/random.h"

namespace infer {
namespace {

using Form = simd::ByteFinish::Form;

struct ByteCase {
  Dims x = {1, 16, 1, 1}, y = {1, 16, 1, 1};  ///< [N, C, H, W]; channels lie last
  Spatial window = {{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  double zeros = 0.75;
  int64_t lanes = 1;
  bool is_signed = false;
  int32_t zero = 0;  ///< as an unsigned byte
  Form form = Form::kInts;
};

class ByteTrial {
 public:
  ByteTrial(const ByteCase& c, uint64_t seed) : c_(c), random_(seed) {
    for (int64_t i = 0; i < NumElements(c.x); ++i)
      x_.push_back(static_cast<uint8_t>(random_.Below(256)));
    taps_ = c.window.kernel[0] * c.window.kernel[1];
    w_.assign(static_cast<size_t>(columns() * channels() * taps_), 0);
    for (int64_t n = 0; n < columns(); n += simd::kSparseByteColumns)
      for (int64_t k = 0; k < channels(); k += simd::kByteQuad)
        for (int64_t t = 0; t < taps_; ++t)
          if (random_.Uniform() >= c.zeros) FillBlock(n, k, t);
    for (int64_t n = 0; n < columns(); ++n) {
      bias_.push_back(static_cast<float>(random_.Below(2000)) - 1000.25f);
      scales_.push_back(0.001f * static_cast<float>(1 + random_.Below(9)));
    }
  }

  void Check() {
    SparseByteProduct p;
    p.loops = simd::TheSparseBytes();
    p.finish = {.form = c_.form, .flip = 128, .lo = -110, .hi = 145, .sum_scale = 0.5f};
    p.finish.other_scale = 0.25f;
    p.finish.sum_lo = -110;
    p.finish.sum_hi = 145;
    p.finish.zero = 110;
    p.finish.other_zero = 90;
    const auto windows = ByteWindows::Of(c_.window, c_.x, c_.y);
    ASSERT_TRUE(windows.ok()) << windows.status().message();
    p.windows = *windows;
    p.channels = channels();
    p.columns = columns();
    p.lanes = c_.lanes;
    const ByteMatrix m{w_.data(), taps_, 1, channels(), taps_, columns(), channels() * taps_};
    p.w = std::make_shared<SparseByteWeights>(
        SparseByteWeights::Pack(m, c_.zero, c_.is_signed, bias_, scales_));
    const size_t width = c_.form == Form::kInts || c_.form == Form::kFloat ? 4 : 1;
    const auto results = static_cast<size_t>(NumElements(c_.y)) * width;
    const auto y = Buffer::Allocate(results + 64);
    for (size_t i = 0; i < y->size(); ++i)
      y->mutable_data()[i] = static_cast<std::byte>(random_.Below(256));
    const std::vector<std::byte> before(y->data(), y->data() + y->size());
    const auto scratch = Buffer::Allocate(static_cast<size_t>(p.scratch_bytes()));
    p.Run(reinterpret_cast<const std::byte*>(x_.data()), y->mutable_data(),
          scratch->mutable_data());
    for (int64_t i = 0; i < NumElements(c_.y); ++i)
      ASSERT_EQ(Got(y->data(), i), Want(before.data(), i)) << What() << " at " << i;
    for (size_t i = results; i < y->size(); ++i) ASSERT_EQ(y->data()[i], before[i]) << What();
  }

 private:
  int64_t channels() const { return c_.x[1]; }
  int64_t columns() const { return c_.y[1]; }

  void FillBlock(int64_t first, int64_t k, int64_t t) {
    for (int64_t n = first; n < std::min(columns(), first + simd::kSparseByteColumns); ++n)
      for (int64_t c = k; c < std::min(channels(), k + simd::kByteQuad); ++c)
        w_[static_cast<size_t>((n * channels() + c) * taps_ + t)] =
            static_cast<int8_t>(random_.Below(256));
  }

  /// Of result i, with channels last.
  int32_t Sum(int64_t i) const {
    const int64_t n = i % columns(), ox = i / columns() % c_.y[3];
    const int64_t oy = i / columns() / c_.y[3] % c_.y[2], image = i / columns() / c_.y[3] / c_.y[2];
    const Spatial& s = c_.window;
    int32_t sum = 0;
    for (int64_t t = 0; t < taps_; ++t) {
      const int64_t at_y = oy * s.strides[0] - s.pads_begin[0] + t / s.kernel[1] * s.dilations[0];
      const int64_t at_x = ox * s.strides[1] - s.pads_begin[1] + t % s.kernel[1] * s.dilations[1];
      if (at_y < 0 || at_y >= c_.x[2] || at_x < 0 || at_x >= c_.x[3]) continue;
      const int64_t pixel = (image * c_.x[2] + at_y) * c_.x[3] + at_x;
      for (int64_t c = 0; c < channels(); ++c) {
        const int32_t x =
            (x_[static_cast<size_t>(pixel * channels() + c)] ^ (c_.is_signed ? 128 : 0)) - c_.zero;
        sum += x * w_[static_cast<size_t>((n * channels() + c) * taps_ + t)];
      }
    }
    return sum;
  }

  double Want(const std::byte* before, int64_t i) const {
    const int32_t sum = Sum(i);
    if (c_.form == Form::kInts) return sum;
    const auto n = static_cast<size_t>(i % columns());
    const float v = (static_cast<float>(sum) + bias_[n]) * scales_[n];
    if (c_.form == Form::kFloat) return v;
    const float quanta = std::nearbyint(std::clamp(v, -110.0f, 145.0f));
    if (c_.form == Form::kBytes)
      return static_cast<uint8_t>((static_cast<int>(quanta) + 110) ^ 128);
    const int other = (static_cast<int>(before[i]) ^ 128) - 90;
    const float u = std::fma(static_cast<float>(other), 0.25f, quanta * 0.5f);
    return static_cast<uint8_t>(
        (static_cast<int>(std::nearbyint(std::clamp(u, -110.0f, 145.0f))) + 110) ^ 128);
  }

  double Got(const std::byte* y, int64_t i) const {
    if (c_.form == Form::kInts) return reinterpret_cast<const int32_t*>(y)[i];
    if (c_.form == Form::kFloat) return reinterpret_cast<const float*>(y)[i];
    return static_cast<int>(y[i]);
  }

  std::string What() const {
    return testing::PrintToString(c_.x) + " to " + testing::PrintToString(c_.y) + ", window " +
           testing::PrintToString(c_.window.kernel) + ", form " +
           std::to_string(static_cast<int>(c_.form));
  }

  ByteCase c_;
  Random random_;
  int64_t taps_ = 1;
  std::vector<uint8_t> x_;
  std::vector<int8_t> w_;
  std::vector<float> bias_, scales_;
};

class SparseBytes : public testing::Test {
  void SetUp() override {
    if (!simd::TheSparseBytes())
      GTEST_SKIP() << "this machine, or INFER_MAX_ISA, has no VNNI of 512 bits";
  }
};

/// Under sanitizers each seventh combination.
TEST_F(SparseBytes, EveryExtent) {
  const uint64_t every = std::getenv("INFER_SANITIZED") ? 7 : 1;
  uint64_t seed = 0;
  for (int64_t rows : {1, 2, 3, 4, 5, 8, 12, 17, 21, 24, 27, 28, 29, 57, 90})
    for (int64_t channels : {1, 4, 15, 17, 64, 67, 200})
      for (int64_t columns : {1, 15, 16, 17, 48, 70})
        for (const Form form : {Form::kInts, Form::kFloat, Form::kBytes, Form::kResidual}) {
          if (++seed % every != 0) continue;
          const bool is_signed = seed % 3 == 0;
          ByteTrial({.x = {1, channels, 1, rows},
                     .y = {1, columns, 1, rows},
                     .lanes = 1 + static_cast<int64_t>(seed % 3),
                     .is_signed = is_signed,
                     .zero = static_cast<int32_t>(seed * 37 % 256),
                     .form = form},
                    seed)
              .Check();
        }
}

TEST_F(SparseBytes, WindowsOfConvolutions) {
  const ByteCase cases[] = {
      {.x = {2, 20, 9, 7}, .y = {2, 33, 9, 7}, .window = {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}},
      {.x = {1, 16, 12, 9}, .y = {1, 16, 6, 5}, .window = {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}},
      {.x = {3, 18, 8, 8}, .y = {3, 16, 4, 4}, .window = {{1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}},
      {.x = {1, 17, 9, 9}, .y = {1, 20, 9, 9}, .window = {{3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}}},
      {.x = {1, 16, 5, 11}, .y = {1, 40, 6, 4}, .window = {{2, 7}, {1, 3}, {1, 1}, {1, 3}, {1, 3}}},
      // Outputs that read padding alone.
      {.x = {1, 16, 2, 2}, .y = {1, 16, 8, 8}, .window = {{1, 1}, {1, 1}, {1, 1}, {3, 3}, {3, 3}}},
  };
  uint64_t seed = 0;
  for (ByteCase c : cases)
    for (const Form form : {Form::kInts, Form::kResidual})
      for (const bool is_signed : {false, true})
        for (const int64_t lanes : {1, 2}) {
          c.form = form;
          c.is_signed = is_signed;
          c.lanes = lanes;
          c.zero = 131;
          ByteTrial(c, ++seed).Check();
        }
}

TEST_F(SparseBytes, NoWeightAndAllOfThem) {
  for (double zeros : {0.0, 0.999, 1.0})
    ByteTrial({.x = {1, 200, 1, 40}, .y = {1, 70, 1, 40}, .zeros = zeros, .zero = 7}, 3).Check();
}

/// Weights that leave L2 no room are read once for several tiles.
TEST_F(SparseBytes, ManyWeights) {
  const ByteCase many{.x = {1, 1500, 1, 90}, .y = {1, 400, 1, 90}, .zeros = 0, .lanes = 1};
  ByteTrial(many, 5).Check();
}

TEST(SparseByteWeightsOf, CountsBlocks) {
  std::vector<int8_t> w(20 * 18, 0);  // [outputs, inputs]
  w[0] = 1;
  w[1] = -2;
  w[17 * 18 + 17] = 3;
  const ByteMatrix m{.from = w.data(), .channels = 18, .columns = 20, .column_stride = 18};
  const SparseByteCounts c = CountStored(m);
  EXPECT_EQ(c.weights, 360);
  EXPECT_EQ(c.zeros, 357);
  EXPECT_EQ(c.stored, 2);
}

/// By counted work, so that the choice is the same in each run.
TEST(SparseByteWork, FallsWithBlocksAndIsDenseForFewZeros) {
  const ByteMatrix m{.channels = 256, .columns = 256};
  const int64_t blocks = m.quads() * m.panels();
  double last = 1e300;
  for (const double kept : {1.0, 0.75, 0.5, 0.25, 0.1}) {
    const double work =
        SparseByteWork(784, m, static_cast<int64_t>(kept * static_cast<double>(blocks)));
    EXPECT_LT(work, last);
    last = work;
  }
  EXPECT_GT(SparseByteWork(784, m, blocks), DenseByteWork(784, m));
  EXPECT_LT(SparseByteWork(784, m, blocks / 4), 0.6 * DenseByteWork(784, m));
}

}  // namespace
}  // namespace infer
