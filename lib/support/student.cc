#include "lib/support/student.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "lib/support/status.h"

namespace infer {
namespace {

/// P(|T| <= t).
double Within(double t, int df) {
  const double theta = std::atan(t / std::sqrt(static_cast<double>(df)));
  const double c = std::cos(theta), s = std::sin(theta);
  const bool odd = df % 2 == 1;
  // The series 1 + a c^2 + ..., whose factors are even over odd numbers, or odd over even ones.
  double term = odd ? c : 1, sum = odd && df == 1 ? 0 : term;
  for (int k = odd ? 3 : 2; k <= df - 2; k += 2) {
    term *= c * c * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  return odd ? 2 / std::numbers::pi * (theta + s * sum) : s * sum;
}

}  // namespace

double StudentCdf(double t, int df) {
  INFER_CHECK(df >= 1);
  const double within = Within(std::abs(t), df);
  return t < 0 ? (1 - within) / 2 : (1 + within) / 2;
}

double StudentQuantile(double confidence, int df) {
  INFER_CHECK(df >= 1 && confidence > 0 && confidence < 1);
  double low = 0, high = 1;
  while (Within(high, df) < confidence) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (Within(middle, df) < confidence ? low : high) = middle;
  }
  return high;
}

Estimate MeanInterval(std::span<const double> values, double confidence) {
  INFER_CHECK(!values.empty());
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const double mean = sum / n;
  if (values.size() < 2) {
    const double infinity = std::numeric_limits<double>::infinity();
    return {mean, -infinity, infinity};
  }
  for (const double v : values) squares += (v - mean) * (v - mean);
  const double error = std::sqrt(squares / (n - 1) / n);
  const double reach = StudentQuantile(confidence, static_cast<int>(values.size()) - 1) * error;
  return {mean, mean - reach, mean + reach};
}

}  // namespace infer
