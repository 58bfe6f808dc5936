/// The loops of attention of this machine against plain loops in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lib/support/isa_tables.h"
#include "lib/support/random.h"
#include "runtime/cpu/simd/attention.h"

namespace infer::simd {
namespace {

std::vector<float> Floats(int64_t n, Random& random) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = static_cast<float>(random.Uniform() * 2 - 1);
  return v;
}

/// On every instruction set with vectors that this machine has; on ARM there is none.
using AttentionLoopsOf = testing::TestWithParam<const AttentionLoops*>;
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AttentionLoopsOf);
INSTANTIATE_TEST_SUITE_P(, AttentionLoopsOf, testing::ValuesIn(AllTables<AttentionLoops>()),
                         [](const auto& info) { return std::string(info.param->isa); });

TEST_P(AttentionLoopsOf, Products) {
  const AttentionLoops* l = GetParam();
  const int64_t width = int64_t{2} * l->lanes;
  Random random(1);
  for (int rows = 1; rows <= l->rows; ++rows)
    for (int64_t depth : {0, 1, 5, 70})
      for (bool narrow : {false, true})
        for (bool scaled : {false, true}) {
          const auto a = Floats(rows * (depth + 3), random), factors = Floats(rows, random);
          const auto b = Floats(depth * width + 1, random);
          auto d = Floats(rows * (width + 1), random);
          const auto before = d;
          l->multiply(rows, {a.data(), depth + 3, b.data(), depth, d.data(), width + 1,
                             scaled ? factors.data() : nullptr, narrow});
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t j = 0; j <= width; ++j) {
              const auto at = static_cast<size_t>(r * (width + 1) + j);
              if (j >= (narrow ? l->lanes : width)) {
                EXPECT_EQ(d[at], before[at]);
                continue;
              }
              double want = 0;
              for (int64_t k = 0; k < depth; ++k)
                want += static_cast<double>(a[static_cast<size_t>(r * (depth + 3) + k)]) *
                        static_cast<double>(b[static_cast<size_t>(k * width + j)]);
              if (scaled) want *= static_cast<double>(factors[static_cast<size_t>(r)]);
              EXPECT_NEAR(d[at], want, 1e-5) << l->isa << " " << rows << " " << depth;
            }
        }
}

TEST_P(AttentionLoopsOf, Transpose) {
  const AttentionLoops* l = GetParam();
  const int64_t width = int64_t{2} * l->lanes;
  Random random(2);
  for (int64_t rows = 1; rows <= width; ++rows)
    for (int64_t depth : {1, 8, 15, 16, 40}) {
      const auto from = Floats(rows * (depth + 1), random);
      std::vector<float> to(static_cast<size_t>(depth * width), 7);
      l->transpose_panel(from.data(), depth + 1, rows, depth, to.data());
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t j = 0; j < width; ++j)
          EXPECT_EQ(to[static_cast<size_t>(k * width + j)],
                    j < rows ? from[static_cast<size_t>(j * (depth + 1) + k)] : 0);
    }
}

/// The bound that simd/attention.h states.
TEST_P(AttentionLoopsOf, ErrorOfTheExponential) {
  const AttentionLoops* l = GetParam();
  for (float lowest : {-1.0f, -20.0f, -86.9f}) {
    std::vector<float> x(100000);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = lowest * static_cast<float>(i) / static_cast<float>(x.size());
    auto y = x;
    ScoreRow row;
    row.scores = y.data();
    row.n = static_cast<int64_t>(y.size());
    const double got = l->soften(row);
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(static_cast<double>(x[i]));
      sum += want;
      EXPECT_NEAR(y[i], want, 2e-7 * want) << x[i];
    }
    EXPECT_NEAR(got, sum, 2e-7 * sum);
  }
}

TEST_P(AttentionLoopsOf, SpecialScores) {
  const AttentionLoops* l = GetParam();
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  auto soften = [&](std::vector<float>& s, bool zero) {
    ScoreRow row;
    row.scores = s.data();
    row.n = 3;
    row.zero_where_none = zero;
    return l->soften(row);
  };
  std::vector<float> s(32, 5);
  s[0] = 1, s[1] = -inf, s[2] = -200;
  EXPECT_EQ(soften(s, false), 1);
  EXPECT_EQ(s[1], 0);
  EXPECT_EQ(s[2], 0);
  for (int i = 3; i < l->lanes; ++i) EXPECT_EQ(s[static_cast<size_t>(i)], 0);
  s[0] = s[1] = s[2] = -inf;
  EXPECT_EQ(soften(s, true), 0);
  EXPECT_EQ(s[0], 0);
  s[0] = s[1] = s[2] = -inf;
  EXPECT_TRUE(std::isnan(soften(s, false)));
  for (float bad : {nan, inf}) {
    s[0] = 1, s[1] = bad, s[2] = -inf;
    EXPECT_TRUE(std::isnan(soften(s, true)));
    EXPECT_TRUE(std::isnan(s[1]));
  }
}

}  // namespace
}  // namespace infer::simd
