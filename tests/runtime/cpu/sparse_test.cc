/// Sparse products of every instruction set of this machine, in every form, against plain loops in
/// double: extents that fill and miss tiles, chunks and groups, how operands may lie, what may
/// follow, operands that are not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lib/support/isa_tables.h"
#include "lib/support/random.h"
#include "runtime/cpu/kernels/common/zero_share.h"
#include "runtime/cpu/kernels/matmul/sparse_choice.h"

namespace infer {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kUntouched = 77.0f;

struct SparseCase {
  int64_t images = 1, rows = 1, depth = 16, columns = 16;
  SparseForm form = SparseForm::kPanels;
  double zeros = 0.75;
  bool bias = false, residual = false, blocked = false, by_outputs = false;
  std::optional<UnaryFunction> after = {};
  std::vector<std::pair<int64_t, float>> bad = {};  ///< places of x and what stands there
};

std::vector<float> RandomNumbers(int64_t n, Random& random) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& f : v) f = static_cast<float>(random.Uniform() * 2 - 1);
  return v;
}

/// Operand, weights and results of one case, dense, and what the product makes of them.
class SparseTrial {
 public:
  SparseTrial(const simd::Sparse& loops, const SparseCase& c, uint64_t seed)
      : loops_(loops), c_(c), rows_(c.images * c.rows), random_(seed) {
    x_ = RandomNumbers(rows_ * c.depth, random_);
    for (const auto& [at, value] : c.bad) x_[static_cast<size_t>(at)] = value;
    bias_ = RandomNumbers(c.columns, random_);
    residual_ = RandomNumbers(rows_ * c.columns, random_);
    w_.assign(static_cast<size_t>(c.depth * c.columns), 0.0f);
    const int64_t block = BlockOf(c.form);
    for (int64_t k = 0; k < c.depth; ++k)
      for (int64_t n = 0; n < c.columns; n += block) {
        if (random_.Uniform() < c.zeros) continue;
        for (int64_t o = n; o < std::min(c.columns, n + block); ++o)
          w_[Weight(k, o)] = static_cast<float>(random_.Uniform() * 2 - 1);
      }
  }

  void Check() {
    SparseProduct p = Product();
    const int64_t x_floats = Floats(c_.depth), y_floats = Floats(c_.columns);
    std::vector<float> x(static_cast<size_t>(x_floats)),
        y(static_cast<size_t>(y_floats + 16), kUntouched);
    ForAll(c_.depth, p.x, [&](size_t dense, size_t lies) { x[lies] = x_[dense]; });
    if (c_.residual)
      ForAll(c_.columns, p.y, [&](size_t dense, size_t lies) { y[lies] = residual_[dense]; });
    const auto scratch = Buffer::Allocate(static_cast<size_t>(p.scratch_bytes()));
    p.Run(x.data(), c_.bias ? bias_.data() : nullptr, y.data(),
          reinterpret_cast<float*>(scratch->mutable_data()));
    ForAll(c_.columns, p.y, [&](size_t dense, size_t lies) {
      if (testing::Test::HasFailure()) return;
      const double want = Want(static_cast<int64_t>(dense));
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(y[lies])) << What() << " at " << dense << ": " << y[lies];
      else if (std::isinf(want))
        EXPECT_EQ(y[lies], want) << What() << " at " << dense;
      else
        EXPECT_NEAR(y[lies], want, 1e-6 * static_cast<double>(c_.depth) + 1e-5)
            << What() << " at " << dense;
    });
    for (int64_t i = y_floats; i < y_floats + 16; ++i)
      ASSERT_EQ(y[static_cast<size_t>(i)], kUntouched) << What();
  }

 private:
  size_t Weight(int64_t k, int64_t n) const {
    return static_cast<size_t>(c_.by_outputs ? n * c_.depth + k : k * c_.columns + n);
  }
  /// As floats lie: rows of one image after another, or blocks of `lanes` columns of each image.
  int64_t Floats(int64_t columns) const { return rows_ * columns; }
  SparseLying Lying(int64_t columns) const {
    const int64_t lanes = loops_.lanes;
    return c_.blocked ? SparseLying{columns * c_.rows, lanes, c_.rows * lanes}
                      : SparseLying{columns * c_.rows, columns, lanes};
  }
  template <typename F>
  void ForAll(int64_t columns, const SparseLying& l, F f) const {
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < columns; ++c)
        f(static_cast<size_t>(r * columns + c),
          static_cast<size_t>(r / c_.rows * l.image + r % c_.rows * l.row +
                              c / loops_.lanes * l.block + c % loops_.lanes));
  }

  SparseProduct Product() const {
    const WeightMatrix w = c_.by_outputs
                               ? WeightMatrix{w_.data(), c_.depth, 1, c_.columns, c_.depth}
                               : WeightMatrix{w_.data(), c_.depth, c_.columns, c_.columns, 1};
    SparseProduct p;
    p.loops = &loops_;
    p.appended.residual = c_.residual ? 0 : -1;
    p.appended.function = c_.after;
    p.shape = {c_.images, c_.rows, c_.depth, c_.columns};
    p.x = Lying(c_.depth);
    p.y = Lying(c_.columns);
    p.w = std::make_shared<SparseWeights>(SparseWeights::Pack(w, c_.form, loops_));
    return p;
  }

  double Want(int64_t i) const {
    const int64_t r = i / c_.columns, n = i % c_.columns;
    double sum = c_.bias ? static_cast<double>(bias_[static_cast<size_t>(n)]) : 0;
    if (c_.residual) sum += static_cast<double>(residual_[static_cast<size_t>(i)]);
    for (int64_t k = 0; k < c_.depth; ++k)
      sum += static_cast<double>(x_[static_cast<size_t>(r * c_.depth + k)]) *
             static_cast<double>(w_[Weight(k, n)]);
    if (!c_.after || std::isnan(sum)) return sum;
    if (c_.after->kind == simd::Unary::kClip)
      return std::clamp(sum, static_cast<double>(c_.after->a), static_cast<double>(c_.after->b));
    return 1 / (1 + std::exp(-sum));
  }

  std::string What() const {
    return testing::PrintToString(std::vector<int64_t>{c_.images, c_.rows, c_.depth, c_.columns}) +
           " blocks of " + std::to_string(BlockOf(c_.form)) + " on " + loops_.isa;
  }

  const simd::Sparse& loops_;
  SparseCase c_;
  int64_t rows_;
  Random random_;
  std::vector<float> x_, w_, bias_, residual_;
};

using SparseOf = testing::TestWithParam<const simd::Sparse*>;
INSTANTIATE_TEST_SUITE_P(, SparseOf, testing::ValuesIn(AllTables<simd::Sparse>()),
                         [](const auto& info) { return std::string(info.param->isa); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SparseOf);

constexpr UnaryFunction kBounds{simd::Unary::kClip, -0.25f, 0.5f};
constexpr UnaryFunction kSigmoid{simd::Unary::kSigmoid};

TEST_P(SparseOf, EveryExtent) {
  uint64_t seed = 0;
  for (const SparseForm form : kSparseForms)
    for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 15, 17, 27, 29, 33, 49, 64, 70})
      for (int64_t depth : {1, 3, 16, 33, 129, 300})
        for (int64_t columns : {1, 4, 15, 16, 17, 40, 64, 130}) {
          const SparseCase made{.rows = rows,
                                .depth = depth,
                                .columns = columns,
                                .form = form,
                                .bias = seed % 2 == 0,
                                .residual = seed % 3 == 0,
                                .by_outputs = seed % 5 == 0};
          SparseTrial(*GetParam(), made, ++seed).Check();
        }
}

/// Several chunks of terms, several tiles that share their weights.
TEST_P(SparseOf, DeepAndLong) {
  for (const SparseForm form : kSparseForms) {
    SparseTrial(*GetParam(), {.rows = 30, .depth = 2500, .columns = 33, .form = form, .bias = true},
                1)
        .Check();
    SparseTrial(*GetParam(),
                {.rows = 700, .depth = 70, .columns = 50, .form = form, .residual = true}, 2)
        .Check();
  }
}

TEST_P(SparseOf, NoWeightAndAllOfThem) {
  for (const SparseForm form : kSparseForms)
    for (double zeros : {0.0, 0.999, 1.0})
      SparseTrial(
          *GetParam(),
          {.rows = 20, .depth = 200, .columns = 70, .form = form, .zeros = zeros, .bias = true}, 3)
          .Check();
}

TEST_P(SparseOf, WhatFollows) {
  for (const SparseForm form : kSparseForms)
    for (const auto& after : {kBounds, kSigmoid})
      for (int64_t columns : {64, 77})
        for (int64_t depth : {60, 1100})
          SparseTrial(*GetParam(),
                      {.rows = 19,
                       .depth = depth,
                       .columns = columns,
                       .form = form,
                       .bias = true,
                       .residual = true,
                       .after = after},
                      4)
              .Check();
}

TEST_P(SparseOf, BlocksOfChannels) {
  for (const SparseForm form : kSparseForms)
    for (int64_t rows : {1, 9, 49, 100})
      for (int64_t columns : {16, 48, 144})
        for (const auto& after : {kBounds, kSigmoid})
          SparseTrial(*GetParam(),
                      {.images = 2,
                       .rows = rows,
                       .depth = 48,
                       .columns = columns,
                       .form = form,
                       .bias = true,
                       .residual = rows == 9,
                       .blocked = true,
                       .by_outputs = true,
                       .after = after},
                      5)
              .Check();
}

/// What a dense product makes of them, also where the weight that meets them is a zero.
TEST_P(SparseOf, InfinitiesAndNan) {
  for (const SparseForm form : kSparseForms)
    for (bool blocked : {false, true})
      for (bool residual : {false, true})
        for (const auto& bad : std::vector<std::vector<std::pair<int64_t, float>>>{
                 {{5, kInf}},
                 {{48 * 3 + 47, -kInf}},
                 {{48 * 17, kNan}},
                 {{7, kInf}, {9, kInf}},
                 {{48 * 30 + 7, kInf}, {48 * 30 + 9, -kInf}, {48 * 2, kNan}}})
          SparseTrial(*GetParam(),
                      {.rows = 31,
                       .depth = 48,
                       .columns = 64,
                       .form = form,
                       .bias = true,
                       .residual = residual,
                       .blocked = blocked,
                       .bad = bad},
                      6)
              .Check();
}

TEST(SparseWeightsOf, CountsBlocks) {
  std::vector<float> w(3 * 20, 0.0f);
  w[0] = 1;           // panel 0, strip 0
  w[3] = 2;           // the same strip
  w[20 + 17] = -1;    // panel 1 (the tail)
  w[40 + 4] = -0.0f;  // a zero
  const SparseCounts c = CountStored({w.data(), 3, 20, 20, 1});
  EXPECT_EQ(c.weights, 60);
  EXPECT_EQ(c.of(SparseForm::kPanels), 2);
  EXPECT_EQ(c.of(SparseForm::kStrips), 2);
  EXPECT_EQ(c.of(SparseForm::kSingles), 3);
  EXPECT_DOUBLE_EQ(c.zero_share(), 57.0 / 60);
}

/// 2:4 has as many zeros in a sample as in all.
TEST(SparseWeightsOf, SampleMeetsNoPeriod) {
  std::vector<float> w(64 * 64);
  for (size_t i = 0; i < w.size(); ++i) w[i] = i % 4 < 2 ? 0.0f : 1.0f;
  EXPECT_NEAR(ShareOfSample(64 * 64, [&](int64_t i) { return w[static_cast<size_t>(i)] == 0; }),
              0.5, 0.06);
}

}  // namespace
}  // namespace infer
