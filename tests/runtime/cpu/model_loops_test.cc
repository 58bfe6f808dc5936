/// Loops of models of every instruction set of this machine against plain loops in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lib/support/isa_tables.h"
#include "lib/support/random.h"
#include "runtime/cpu/simd/models.h"

namespace infer::simd {
namespace {

using ModelLoopsOf = testing::TestWithParam<const ModelLoops*>;
INSTANTIATE_TEST_SUITE_P(, ModelLoopsOf, testing::ValuesIn(AllTables<ModelLoops>()),
                         [](const auto& info) { return std::string(info.param->isa); });

template <typename T>
std::vector<T> Uniform(int64_t n, Random& random, double scale = 1) {
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) x = static_cast<T>((random.Uniform() * 2 - 1) * scale);
  return v;
}

template <typename T>
void CheckNear(const SupportLoops<T>& loops, double tolerance) {
  Random random(7);
  for (int64_t rows : {1, 2, 3, 4, 5, 9})
    for (int64_t groups : {1, 3})
      for (int64_t features : {1, 2, 7, 33}) {
        const int64_t stride = groups * kSupports;
        const auto x = Uniform<T>(rows * features, random);
        const auto v = Uniform<T>(stride * features, random);
        std::vector<T> dots(static_cast<size_t>(rows * stride)), distances(dots.size());
        loops.dots(x.data(), rows, features, v.data(), groups, dots.data());
        loops.distances(x.data(), rows, features, v.data(), groups, distances.data());
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t s = 0; s < stride; ++s) {
            double dot = 0, distance = 0;
            for (int64_t i = 0; i < features; ++i) {
              const auto a = static_cast<double>(x[static_cast<size_t>(r * features + i)]);
              const auto b = static_cast<double>(v[static_cast<size_t>(
                  (s / kSupports * features + i) * kSupports + s % kSupports)]);
              dot += a * b;
              distance += (a - b) * (a - b);
            }
            const auto at = static_cast<size_t>(r * stride + s);
            ASSERT_NEAR(static_cast<double>(dots[at]), dot, tolerance * 40);
            ASSERT_NEAR(static_cast<double>(distances[at]), distance, tolerance * 160);
            // The same bits for one row alone.
            std::vector<T> alone(static_cast<size_t>(stride));
            loops.distances(x.data() + r * features, 1, features, v.data(), groups, alone.data());
            ASSERT_EQ(alone[static_cast<size_t>(s)], distances[at]);
          }
      }
}

TEST_P(ModelLoopsOf, RowsBesideSupportVectors) {
  CheckNear(GetParam()->narrow, 1.2e-7);
  CheckNear(GetParam()->wide, 2.3e-16);
}

template <typename T>
void CheckFunctions(const SupportLoops<T>& loops, double tolerance) {
  constexpr int64_t kCount = 4096;
  Random random(3);
  for (double scale : {1e-6, 0.1, 1.0, 10.0, 85.0, 1e4}) {
    auto k = Uniform<T>(kCount, random, scale);
    k[0] = std::numeric_limits<T>::quiet_NaN();
    k[1] = std::numeric_limits<T>::infinity();
    k[2] = -std::numeric_limits<T>::infinity();
    k[3] = 0;
    const auto check = [&](const std::vector<T>& got, auto of, const char* what) {
      ASSERT_TRUE(std::isnan(got[0])) << what;
      for (size_t i = 1; i < got.size(); ++i) {
        const double want = of(static_cast<double>(k[i])), is = static_cast<double>(got[i]);
        if (std::isinf(want) || want > static_cast<double>(std::numeric_limits<T>::max()) * 0.5)
          ASSERT_TRUE(std::isinf(is) || is > 1e38) << what << " of " << k[i] << " is " << is;
        else
          ASSERT_LE(std::abs(is - want), tolerance * std::max(1.0, std::abs(want)))
              << what << " of " << k[i] << " is " << is;
      }
    };
    auto y = k;
    loops.exp(y.data(), kCount, 1);
    check(
        y, [](double v) { return std::exp(v); }, "exp");
    y = k;
    loops.exp(y.data(), kCount, T{-0.5});
    check(
        y, [](double v) { return std::exp(-0.5 * v); }, "exp, scaled");
    y = k;
    loops.tanh(y.data(), kCount, 1, 0);
    check(
        y, [](double v) { return std::tanh(v); }, "tanh");
  }
  for (int degree : {0, 1, 2, 3, 4, 7, 16}) {
    const auto k = Uniform<T>(kCount, random, 2);
    auto y = k;
    loops.power(y.data(), kCount, T{0.5}, T{0.25}, degree);
    for (size_t i = 0; i < y.size(); ++i) {
      const double want = std::pow(0.5 * static_cast<double>(k[i]) + 0.25, degree);
      ASSERT_LE(std::abs(static_cast<double>(y[i]) - want),
                tolerance * (degree + 1) * std::max(1.0, std::abs(want)))
          << degree;
    }
  }
}

TEST_P(ModelLoopsOf, FunctionsOfWhatIsNear) {
  CheckFunctions(GetParam()->narrow, 4e-7);
  CheckFunctions(GetParam()->wide, 4e-15);
}

TEST_P(ModelLoopsOf, SumsOfEveryLength) {
  Random random(9);
  for (int64_t n = 0; n < 80; ++n) {
    const auto w = Uniform<double>(n, random), wide = Uniform<double>(n, random);
    const auto narrow = Uniform<float>(n, random);
    double of_wide = 0, of_narrow = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      of_wide += w[i] * wide[i];
      of_narrow += w[i] * static_cast<double>(narrow[i]);
    }
    ASSERT_NEAR(GetParam()->wide.sum(w.data(), wide.data(), n), of_wide, 1e-14);
    ASSERT_NEAR(GetParam()->narrow.sum(w.data(), narrow.data(), n), of_narrow, 1e-14);
  }
}

TEST_P(ModelLoopsOf, LinearFunctions) {
  Random random(11);
  for (int64_t features : {1, 3, 4, 5, 8, 11, 16, 17, 31, 40})
    for (int64_t rows : {1, 3, 4, 6})
      for (int64_t outputs : {1, 3, 4, 7}) {
        const auto x = Uniform<float>(rows * features, random);
        const auto w = Uniform<float>(outputs * features, random);
        const auto bias = Uniform<float>(outputs, random);
        std::vector<float> y(static_cast<size_t>(rows * outputs)), alone(bias.size());
        GetParam()->linear(x.data(), rows, features, w.data(), bias.data(), outputs, y.data());
        for (int64_t r = 0; r < rows; ++r) {
          GetParam()->linear(x.data() + r * features, 1, features, w.data(), bias.data(), outputs,
                             alone.data());
          for (int64_t o = 0; o < outputs; ++o) {
            double want = static_cast<double>(bias[static_cast<size_t>(o)]);
            for (int64_t i = 0; i < features; ++i)
              want += static_cast<double>(x[static_cast<size_t>(r * features + i)]) *
                      static_cast<double>(w[static_cast<size_t>(o * features + i)]);
            const float is = y[static_cast<size_t>(r * outputs + o)];
            ASSERT_NEAR(static_cast<double>(is), want, 4e-6);
            ASSERT_EQ(is, alone[static_cast<size_t>(o)]);
          }
        }
      }
}

}  // namespace
}  // namespace infer::simd
