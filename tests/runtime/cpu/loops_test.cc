/// The error bounds that simd/loops.h states, for every instruction set of this machine.
#include "runtime/cpu/simd/loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lib/support/isa_tables.h"

namespace infer::simd {
namespace {

std::vector<float> Samples(float lo, float hi) {
  std::vector<float> x;
  for (int i = 0; i <= 200000; ++i) x.push_back(lo + (hi - lo) * static_cast<float>(i) / 200000.0f);
  return x;
}

struct Bound {
  Unary kind;
  double (*exact)(double);
  float lo, hi;
  double relative, absolute;
};

TEST(Loops, ErrorBounds) {
  const Bound bounds[] = {
      {Unary::kExp, [](double v) { return std::exp(v); }, -87.0f, 88.0f, 2e-7, 0},
      {Unary::kExp, [](double v) { return std::exp(v); }, -103.0f, 88.7f, 2e-7, 3e-45},
      {Unary::kTanh, [](double v) { return std::tanh(v); }, -12.0f, 12.0f, 0, 3e-7},
      {Unary::kTanh, [](double v) { return std::tanh(v); }, -0.6f, 0.6f, 3e-7, 0},
      {Unary::kSigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }, -90.0f, 90.0f, 0, 3e-7},
      {Unary::kErf, [](double v) { return std::erf(v); }, -6.0f, 6.0f, 0, 4e-7},
      {Unary::kSoftplus, [](double v) { return std::log1p(std::exp(v)); }, -30.0f, 30.0f, 4e-7,
       4e-7},
      {Unary::kGelu, [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }, -8.0f,
       8.0f, 4e-7, 1e-6},
      {Unary::kGeluTanh,
       [](double v) {
         return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
       },
       -8.0f, 8.0f, 4e-7, 1e-6},
      {Unary::kLog, [](double v) { return std::log(v); }, 1e-30f, 3.0f, 2e-7, 1e-8},
      {Unary::kLog, [](double v) { return std::log(v); }, 1e-3f, 1e30f, 2e-7, 0},
      {Unary::kSin, [](double v) { return std::sin(v); }, -kMaxAngle, kMaxAngle, 0, 2e-7},
      {Unary::kCos, [](double v) { return std::cos(v); }, -kMaxAngle, kMaxAngle, 0, 2e-7},
      {Unary::kRound, [](double v) { return std::nearbyint(v); }, -100.0f, 100.0f, 0, 0},
      {Unary::kTan, [](double v) { return std::tan(v); }, -kMaxAngle, kMaxAngle, 4e-7, 0},
      {Unary::kTan, [](double v) { return std::tan(v); }, -7.0f, 7.0f, 4e-7, 0},
      {Unary::kAsin, [](double v) { return std::asin(v); }, -1.0f, 1.0f, 4e-7, 0},
      {Unary::kAcos, [](double v) { return std::acos(v); }, -1.0f, 1.0f, 4e-7, 0},
      {Unary::kAcos, [](double v) { return std::acos(v); }, 0.999f, 1.0f, 4e-7, 0},
      {Unary::kAtan, [](double v) { return std::atan(v); }, -9.0f, 9.0f, 4e-7, 0},
      {Unary::kAtan, [](double v) { return std::atan(v); }, -3e38f, 3e38f, 4e-7, 0},
      {Unary::kSinh, [](double v) { return std::sinh(v); }, -2.0f, 2.0f, 4e-7, 0},
      {Unary::kSinh, [](double v) { return std::sinh(v); }, -89.41f, 89.41f, 4e-7, 0},
      {Unary::kCosh, [](double v) { return std::cosh(v); }, -89.41f, 89.41f, 4e-7, 0},
      {Unary::kAsinh, [](double v) { return std::asinh(v); }, -2.0f, 2.0f, 4e-7, 0},
      {Unary::kAsinh, [](double v) { return std::asinh(v); }, -1e5f, 1e5f, 4e-7, 0},
      {Unary::kAsinh, [](double v) { return std::asinh(v); }, -3e38f, 3e38f, 4e-7, 0},
      {Unary::kAcosh, [](double v) { return std::acosh(v); }, 1.0f, 3.0f, 4e-7, 0},
      {Unary::kAcosh, [](double v) { return std::acosh(v); }, 1.0f, 1e5f, 4e-7, 0},
      {Unary::kAcosh, [](double v) { return std::acosh(v); }, 1.0f, 3e38f, 4e-7, 0},
      {Unary::kAtanh, [](double v) { return std::atanh(v); }, -0.9999999f, 0.9999999f, 4e-7, 0},
  };
  for (const Loops* table : AllTables<Loops>())
    for (const Bound& b : bounds) {
      const std::vector<float> x = Samples(b.lo, b.hi);
      std::vector<float> y(x.size());
      table->unary[static_cast<int>(b.kind)](x.data(), y.data(), static_cast<int64_t>(x.size()), 1,
                                             0);
      double worst = 0, at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = b.exact(static_cast<double>(x[i]));
        const double excess =
            std::abs(static_cast<double>(y[i]) - want) - b.relative * std::abs(want) - b.absolute;
        if (excess > worst) {
          worst = excess;
          at = static_cast<double>(x[i]);
        }
      }
      EXPECT_EQ(worst, 0) << table->isa << " function " << static_cast<int>(b.kind) << " at " << at;
    }
}

TEST(Loops, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float x[] = {inf, -inf, nan, 0.0f, -0.0f, 1e-40f, 200.0f, -200.0f};
  constexpr int kN = 8;
  for (const Loops* table : AllTables<Loops>()) {
    auto run = [&](Unary kind) {
      std::vector<float> y(kN);
      table->unary[static_cast<int>(kind)](x, y.data(), kN, 1, 0);
      return y;
    };
    const auto e = run(Unary::kExp);
    EXPECT_EQ(e[0], inf);
    EXPECT_EQ(e[1], 0);
    EXPECT_TRUE(std::isnan(e[2]));
    EXPECT_EQ(e[3], 1);
    EXPECT_EQ(e[6], inf);
    EXPECT_EQ(e[7], 0);
    const auto t = run(Unary::kTanh), s = run(Unary::kSigmoid), r = run(Unary::kErf);
    EXPECT_EQ(t[0], 1);
    EXPECT_EQ(t[1], -1);
    EXPECT_TRUE(std::isnan(t[2]));
    EXPECT_EQ(s[0], 1);
    EXPECT_EQ(s[1], 0);
    EXPECT_TRUE(std::isnan(s[2]));
    EXPECT_EQ(r[0], 1);
    EXPECT_EQ(r[1], -1);
    EXPECT_TRUE(std::isnan(r[2]));
    EXPECT_TRUE(std::isnan(run(Unary::kRelu)[2]));
    EXPECT_TRUE(std::isnan(table->max(x, kN)));
  }
}

/// What the library gives beyond the range of a function, at its ends, and for numbers whose last
/// bits or sign a formula may lose.
TEST(Loops, EndsOfRanges) {
  struct Case {
    Unary kind;
    float (*exact)(float);
  };
  const Case cases[] = {{Unary::kTan, [](float v) { return std::tan(v); }},
                        {Unary::kAsin, [](float v) { return std::asin(v); }},
                        {Unary::kAcos, [](float v) { return std::acos(v); }},
                        {Unary::kAtan, [](float v) { return std::atan(v); }},
                        {Unary::kSinh, [](float v) { return std::sinh(v); }},
                        {Unary::kCosh, [](float v) { return std::cosh(v); }},
                        {Unary::kAsinh, [](float v) { return std::asinh(v); }},
                        {Unary::kAcosh, [](float v) { return std::acosh(v); }},
                        {Unary::kAtanh, [](float v) { return std::atanh(v); }}};
  std::vector<float> x = {0.0f, 1e-45f, 1e-40f, 1.1754944e-38f, 1e-20f, 3e-4f, 0.49999997f};
  for (float v :
       {0.5f, 0.50000006f, 0.70710678f, 0.99999994f, 1.0f, 1.0000001f, 1.5f, 4096.0f, 89.0f,
        89.415985f, 89.5f, 1e10f, 3.4e38f, std::numeric_limits<float>::infinity(), std::nanf("")})
    x.push_back(v);
  // Near multiples of pi / 2.
  for (int i = 1; i < 5215; ++i) x.push_back(static_cast<float>(i * 1.5707963267948966));
  const size_t positive = x.size();
  for (size_t i = 0; i < positive; ++i) x.push_back(-x[i]);
  std::vector<float> y(x.size());
  for (const Loops* table : AllTables<Loops>())
    for (const Case& c : cases) {
      table->unary[static_cast<int>(c.kind)](x.data(), y.data(), static_cast<int64_t>(x.size()), 1,
                                             0);
      for (size_t i = 0; i < x.size(); ++i) {
        if (c.kind == Unary::kTan && std::abs(x[i]) > kMaxAngle && std::isfinite(x[i])) continue;
        const float want = c.exact(x[i]);
        const std::string where = std::string(table->isa) + " " +
                                  std::to_string(static_cast<int>(c.kind)) + " of " +
                                  std::to_string(x[i]);
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(y[i])) << where << " is " << y[i];
          continue;
        }
        EXPECT_EQ(std::signbit(y[i]), std::signbit(want)) << where << " is " << y[i];
        if (std::isinf(want) || want == 0)
          EXPECT_EQ(y[i], want) << where;
        else
          EXPECT_LE(std::abs(y[i] - want), 5e-7f * std::abs(want)) << where << " is " << y[i];
      }
    }
}

/// Rows that end within a vector and within a tile, against double.
TEST(Loops, MaxAndSoftmaxOfEveryLength) {
  for (const Loops* table : AllTables<Loops>())
    for (int64_t n :
         {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 63, 65, 127, 255, 256, 257, 300, 5000}) {
      std::vector<float> x(static_cast<size_t>(n)), y(x.size());
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<float>(std::sin(static_cast<double>(i) * 1.7) * 6);
      const float top = *std::max_element(x.begin(), x.end());
      EXPECT_EQ(table->max(x.data(), n), top) << table->isa << " of " << n;
      EXPECT_EQ(table->min(x.data(), n), *std::min_element(x.begin(), x.end()))
          << table->isa << " of " << n;
      double sum = 0;
      for (float v : x) sum += std::exp(static_cast<double>(v) - static_cast<double>(top));
      table->softmax(x.data(), y.data(), n, 1, false);
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = std::exp(static_cast<double>(x[i]) - static_cast<double>(top)) / sum;
        EXPECT_NEAR(y[i], want, 1e-6 * want) << table->isa << " [" << i << "] of " << n;
      }
      for (size_t i = 0; i < x.size(); i += 5) {
        const float kept = std::exchange(x[i], std::nanf(""));
        EXPECT_TRUE(std::isnan(table->max(x.data(), n))) << table->isa << " of " << n;
        EXPECT_TRUE(std::isnan(table->min(x.data(), n))) << table->isa << " of " << n;
        x[i] = kept;
      }
    }
}

/// Among others, in place, and with a NaN in one of them: each as it is alone, to the bit.
TEST(Loops, SoftmaxOfRowsAmongOthers) {
  const int64_t rows = 37;
  for (const Loops* table : AllTables<Loops>())
    for (int64_t n : {1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 40})
      for (bool log : {false, true}) {
        std::vector<float> x(static_cast<size_t>(n * rows));
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = static_cast<float>(std::sin(static_cast<double>(i) * 1.7) * 6);
        x[static_cast<size_t>(5 * n)] = std::nanf("");
        std::vector<float> all = x, one(static_cast<size_t>(n));
        table->softmax(all.data(), all.data(), n, rows, log);
        for (int64_t r = 0; r < rows; ++r) {
          const float* const row = x.data() + r * n;
          table->softmax(row, one.data(), n, 1, log);
          const std::string where = Cat(table->isa, " row ", r, " of ", n);
          ASSERT_EQ(std::memcmp(one.data(), all.data() + r * n, one.size() * sizeof(float)), 0)
              << where;
          if (r == 5) {
            EXPECT_TRUE(std::all_of(one.begin(), one.end(), [](float v) { return std::isnan(v); }))
                << where;
            continue;
          }
          double sum = 0;
          const double top = double{*std::max_element(row, row + n)};
          for (int64_t k = 0; k < n; ++k) sum += std::exp(double{row[k]} - top);
          for (int64_t k = 0; k < n; ++k) {
            const double ln = double{row[k]} - top - std::log(sum), want = log ? ln : std::exp(ln);
            // Sums are f32, of numbers up to 1: their logarithm is that far off where it is near 0.
            EXPECT_NEAR(one[static_cast<size_t>(k)], want, 1e-6 * std::abs(want) + (log ? 3e-7 : 0))
                << where;
          }
        }
      }
}

TEST(Loops, QuantizeRoundsHalfToEvenAndSaturates) {
  const float x[] = {0.5f, 1.5f, 2.5f, -0.5f, 1000.0f, -1000.0f, 127.5f};
  for (const Loops* table : AllTables<Loops>()) {
    uint8_t u[7];
    table->quantize_u8(x, u, 7, 1.0f, 10);
    EXPECT_EQ(std::vector<int>(u, u + 7), (std::vector<int>{10, 12, 12, 10, 255, 0, 138}));
    int8_t s[7];
    table->quantize_s8(x, s, 7, 1.0f, 0);
    EXPECT_EQ(std::vector<int>(s, s + 7), (std::vector<int>{0, 2, 2, 0, 127, -128, 127}));
  }
}

/// Over all pairs of operands. Scales 5 : 2 : 4 put every second sum on a half but for the rounding
/// of the f32 steps, which must then be these.
TEST(Loops, SumsAndProductsOf8Bits) {
  const auto value = [](uint8_t q, uint8_t flip, int32_t zero, float scale) {
    return static_cast<float>(int32_t{static_cast<uint8_t>(q ^ flip)} - zero) * scale;
  };
  const Int8Params cases[] = {{0, 0, 0, 100, 128, 0, 0.02f, 0.05f, 0.04f, true},
                              {0, 0, 0, 3, 12, 7, 0.5f, 0.5f, 1.0f, false},
                              {0x80, 0, 0x80, 120, 0, 131, 0.0123f, 0.0457f, 0.0311f, false},
                              {0, 0x80, 0, 0, 255, 255, 1.0f, 3.0f, 0.1f, true}};
  std::vector<uint8_t> a(65536), b(65536), y(65536);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint8_t>(i);
    b[i] = static_cast<uint8_t>(i >> 8);
  }
  for (const Loops* table : AllTables<Loops>())
    for (const Int8Params& p : cases)
      for (const bool add : {true, false}) {
        std::vector<uint8_t> want(a.size());
        for (size_t i = 0; i < a.size(); ++i) {
          const float u = value(a[i], p.flip_a, p.zero_a, p.scale_a);
          const float v = value(b[i], p.flip_b, p.zero_b, p.scale_b);
          float real = add ? u + v : u * v;
          if (p.relu) real = std::max(real, 0.0f);
          const float q = std::nearbyint(real / p.scale_y) + static_cast<float>(p.zero_y);
          want[i] = static_cast<uint8_t>(std::clamp(q, 0.0f, 255.0f)) ^ p.flip_y;
        }
        (add ? table->exact_add_8 : table->exact_mul_8)(a.data(), b.data(), y.data(), 65536, p);
        EXPECT_TRUE(y == want) << table->isa << " add " << add << " scale " << p.scale_a;
        (add ? table->reciprocal_add_8 : table->reciprocal_mul_8)(a.data(), b.data(), y.data(),
                                                                  65536, p);
        EXPECT_TRUE(y == want) << table->isa << " by reciprocal, add " << add;
        (add ? table->add_8 : table->mul_8)(a.data(), b.data(), y.data(), 65536, p);
        int worst = 0;
        for (size_t i = 0; i < y.size(); ++i)
          worst = std::max(worst, std::abs((y[i] ^ p.flip_y) - (want[i] ^ p.flip_y)));
        EXPECT_LE(worst, 1) << table->isa << " add " << add << " scale " << p.scale_a;
      }
}

}  // namespace
}  // namespace infer::simd
