#include "quant/algebra/product.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "lib/support/isa_tables.h"
#include "lib/support/parallel.h"
#include "lib/support/random.h"
#include "quant/algebra/product_loops.h"

namespace infer {
namespace {

template <class T>
std::vector<T> Normals(int64_t n, uint64_t seed) {
  Random r(seed);
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) x = static_cast<T>(r.Normal());
  return v;
}

template <class T>
MatrixView<T> RowMajor(std::vector<T>& v, int64_t rows, int64_t columns) {
  return {v.data(), rows, columns, columns, 1};
}
template <class T>
MatrixView<T> ColumnMajor(std::vector<T>& v, int64_t rows, int64_t columns) {
  return {v.data(), rows, columns, 1, rows};
}

/// |AddProduct - the sum in f64| against the rounding of the type.
template <class T>
void CheckProduct(int64_t m, int64_t n, int64_t depth, bool transposed, Part part) {
  SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << depth << " " << transposed << " "
                                  << static_cast<int>(part));
  std::vector<T> va = Normals<T>(m * depth, 1), vb = Normals<T>(depth * n, 2),
                 vc = Normals<T>(m * n, 3);
  const std::vector<T> before = vc;
  const auto a = transposed ? ColumnMajor(va, m, depth) : RowMajor(va, m, depth);
  const auto b = transposed ? ColumnMajor(vb, depth, n) : RowMajor(vb, depth, n);
  const auto c = transposed && part == Part::kWhole ? ColumnMajor(vc, m, n) : RowMajor(vc, m, n);
  AddProduct<T>(T{-2}, Const(a), Const(b), c, part);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < (part == Part::kLower ? std::min(n, i + 1) : n); ++j) {
      double sum = static_cast<double>(before[static_cast<size_t>(&c.at(i, j) - vc.data())]),
             size = std::abs(sum);
      for (int64_t k = 0; k < depth; ++k) {
        const double term =
            -2.0 * static_cast<double>(a.at(i, k)) * static_cast<double>(b.at(k, j));
        sum += term;
        size += std::abs(term);
      }
      const double epsilon = sizeof(T) == 4 ? 6e-8 : 1.2e-16;
      ASSERT_NEAR(static_cast<double>(c.at(i, j)), sum,
                  epsilon * size * std::sqrt(static_cast<double>(depth) + 4))
          << i << " " << j;
    }
}

TEST(Product, OfEveryShapeAndLayout) {
  for (const bool transposed : {false, true})
    for (const auto [m, n, depth] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                        {5, 7, 3},
                                                                        {12, 32, 256},
                                                                        {13, 33, 257},
                                                                        {100, 70, 600},
                                                                        {97, 1, 40},
                                                                        {1, 97, 0}}) {
      CheckProduct<float>(m, n, depth, transposed, Part::kWhole);
      CheckProduct<double>(m, n, depth, transposed, Part::kWhole);
    }
  for (const int64_t n : {1, 31, 64, 131}) {
    CheckProduct<float>(n, n, 70, false, Part::kLower);
    CheckProduct<double>(n, n, 300, true, Part::kLower);
  }
}

TEST(Product, EveryInstructionSetAddsTheTile) {
  ASSERT_EQ(AllTables<ProductLoops>().front()->isa, "generic");
  const auto check = [](const auto& loop, auto zero, double epsilon) {
    using T = decltype(zero);
    const int64_t depth = 37;
    const std::vector<T> a = Normals<T>(depth * loop.rows, 4),
                         b = Normals<T>(depth * loop.columns, 5);
    std::vector<T> tile(static_cast<size_t>(loop.rows * (loop.columns + 3)), T{1});
    loop.add(depth, a.data(), b.data(), tile.data(), loop.columns + 3);
    for (int64_t i = 0; i < loop.rows; ++i)
      for (int64_t j = 0; j < loop.columns + 3; ++j) {
        double sum = 1;
        for (int64_t k = 0; k < depth && j < loop.columns; ++k)
          sum += static_cast<double>(a[static_cast<size_t>(k * loop.rows + i)]) *
                 static_cast<double>(b[static_cast<size_t>(k * loop.columns + j)]);
        ASSERT_NEAR(static_cast<double>(tile[static_cast<size_t>(i * (loop.columns + 3) + j)]), sum,
                    epsilon);
      }
  };
  for (const ProductLoops* loops : AllTables<ProductLoops>()) {
    SCOPED_TRACE(loops->isa);
    check(loops->f32, 0.0f, 2e-5);
    check(loops->f64, 0.0, 1e-13);
  }
}

TEST(Product, SameBitsForAnyLanes) {
  std::vector<float> va = Normals<float>(300 * 500, 6), vb = Normals<float>(500 * 200, 7);
  std::vector<std::vector<float>> made;
  for (const int lanes : {1, 2, 3}) {
    SetLaneBudget(lanes);
    const LaneLease lease(lanes);
    made.emplace_back(size_t{300 * 200}, 0.0f);
    AddProduct<float>(1, Const(RowMajor(va, 300, 500)), Const(RowMajor(vb, 500, 200)),
                      RowMajor(made.back(), 300, 200));
  }
  SetLaneBudget(AvailableCores());
  EXPECT_EQ(made[0], made[1]);
  EXPECT_EQ(made[0], made[2]);
}

/// x x^T + a ridge.
std::vector<double> Positive(int64_t n) {
  std::vector<double> x = Normals<double>(n * n, 8), h(static_cast<size_t>(n * n), 0.0);
  for (int64_t i = 0; i < n; ++i) h[static_cast<size_t>(i * n + i)] = 0.1 * static_cast<double>(n);
  AddProduct<double>(1, Const(RowMajor(x, n, n)), Const(RowMajor(x, n, n).transposed()),
                     RowMajor(h, n, n));
  return h;
}

TEST(Cholesky, FactorAndInverses) {
  for (const int64_t n : {1, 3, 63, 64, 65, 130, 400}) {
    SCOPED_TRACE(n);
    const std::vector<double> h = Positive(n);
    std::vector<double> l = h, inverse = h, zero = h;
    const MatrixView<double> factor = RowMajor(l, n, n);
    ASSERT_TRUE(FactorCholesky(factor).ok());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j) factor.at(i, j) = 0;
    AddProduct<double>(-1, Const(factor), Const(factor.transposed()), RowMajor(zero, n, n));
    for (const double x : zero) ASSERT_NEAR(x, 0, 1e-12 * static_cast<double>(n * n));
    InvertLower(factor);
    ASSERT_TRUE(InvertSymmetric(RowMajor(inverse, n, n)).ok());
    std::vector<double> back(h.size(), 0.0), one(h.size(), 0.0);
    AddProduct<double>(1, Const(factor.transposed()), Const(factor), RowMajor(back, n, n));
    for (size_t i = 0; i < back.size(); ++i) ASSERT_NEAR(back[i], inverse[i], 1e-9);
    std::vector<double> copy = h;
    AddProduct<double>(1, Const(RowMajor(copy, n, n)), Const(RowMajor(inverse, n, n)),
                       RowMajor(one, n, n));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        ASSERT_NEAR(one[static_cast<size_t>(i * n + j)], i == j ? 1 : 0, 1e-9);
  }
}

TEST(Cholesky, NoPositiveMatrixNoFactor) {
  std::vector<double> h = Positive(100);
  h[50 * 100 + 50] = -1;
  std::vector<double> copy = h;
  EXPECT_FALSE(FactorCholesky(RowMajor(h, 100, 100)).ok());
  EXPECT_FALSE(InvertSymmetric(RowMajor(copy, 100, 100)).ok());
}

}  // namespace
}  // namespace infer
