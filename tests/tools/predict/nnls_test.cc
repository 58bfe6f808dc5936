#include "tools/infer_bench/predict/nnls.h"

#include <cmath>

#include "lib/support/random.h"

namespace infer::bench {
namespace {

/// The gradient of |A x - b|^2 / 2 by x.
std::vector<double> Gradient(const std::vector<double>& a, size_t columns,
                             const std::vector<double>& b, const std::vector<double>& x) {
  std::vector<double> g(columns, 0);
  for (size_t r = 0; r < b.size(); ++r) {
    double error = -b[r];
    for (size_t c = 0; c < columns; ++c) error += a[r * columns + c] * x[c];
    for (size_t c = 0; c < columns; ++c) g[c] += error * a[r * columns + c];
  }
  return g;
}

TEST(Nnls, FindsWhatMadeTheData) {
  constexpr size_t kColumns = 6, kRows = 40;
  const std::vector<double> truth = {0.5, 0, 3e-4, 200, 0, 1};
  Random random(1);
  std::vector<double> a, b;
  for (size_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (size_t c = 0; c < kColumns; ++c) {
      a.push_back(random.Uniform() * (c == 2 ? 1e4 : 1));
      sum += a.back() * truth[c];
    }
    b.push_back(sum);
  }
  const std::vector<double> x = Nnls(a, kColumns, b);
  for (size_t c = 0; c < kColumns; ++c)
    EXPECT_NEAR(x[c], truth[c], 1e-7 * std::max(1.0, truth[c])) << c;
}

TEST(Nnls, ByHand) {
  // Without the bound x = (2, -1): the second column only makes it worse, and the first alone
  // gives 1.5.
  EXPECT_THAT(Nnls(std::vector<double>{1, 0, 1, 1}, 2, std::vector<double>{2, 1}),
              testing::ElementsAre(testing::DoubleNear(1.5, 1e-12), 0));
  EXPECT_THAT(Nnls(std::vector<double>{1, 1}, 1, std::vector<double>{-1, -2}),
              testing::ElementsAre(0));
  EXPECT_THAT(Nnls(std::vector<double>{0, 1, 0, 1}, 2, std::vector<double>{3, 5}),
              testing::ElementsAre(0, testing::DoubleNear(4, 1e-12)));
  EXPECT_THAT(Nnls({}, 3, {}), testing::ElementsAre(0, 0, 0));
}

/// Karush, Kuhn and Tucker: where x > 0 the gradient is 0, elsewhere it is not below 0. The problem
/// is convex, so this is all there is to being a minimum.
TEST(Nnls, MeetsTheConditionsOfAMinimum) {
  int at_bound = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const size_t columns = 1 + random.Below(20), rows = columns + random.Below(60);
    std::vector<double> a(columns * rows), b(rows);
    for (double& v : a) v = random.Normal();
    for (double& v : b) v = random.Normal();
    const std::vector<double> x = Nnls(a, columns, b), g = Gradient(a, columns, b, x);
    for (size_t c = 0; c < columns; ++c) {
      EXPECT_GE(x[c], 0) << "seed " << seed;
      EXPECT_GE(g[c], -1e-8) << "seed " << seed;
      EXPECT_NEAR(x[c] * g[c], 0, 1e-8) << "seed " << seed;
      at_bound += x[c] == 0;
    }
  }
  EXPECT_GT(at_bound, 200);  // the bound mattered
}

TEST(Nnls, ARidgeSharesBetweenEqualColumns) {
  const std::vector<double> a = {1, 1, 2, 2, 3, 3}, b = {2, 4, 6};
  const std::vector<double> x = Nnls(a, 2, b, 1e-6);
  EXPECT_NEAR(x[0], 1, 1e-3);
  EXPECT_NEAR(x[1], 1, 1e-3);
}

}  // namespace
}  // namespace infer::bench
