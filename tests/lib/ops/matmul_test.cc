/// MatMul, Gemm and the blocked product against plain loops.
#include <gmock/gmock.h>

#include <cmath>

#include "lib/ops/matmul/gemm_reference.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

/// Extents around every block and tile boundary of the blocked product.
int64_t Extent(Random& r) {
  static constexpr int64_t kEdges[] = {1,  2,  3,  4,  5,  7,  8,  9,  15, 16,  17,  23,  24,
                                       25, 31, 33, 63, 64, 65, 95, 96, 97, 127, 239, 240, 241};
  return kEdges[r.Below(std::size(kEdges))];
}

Tensor NaiveMatMul(const Tensor& a, const Tensor& b, int64_t m, int64_t k, int64_t n) {
  Tensor y(a.dtype(), {m, n});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += a.At(i * k + l) * b.At(l * n + j);
      y.Set(i * n + j, sum);
    }
  return y;
}

TEST(MatMul, IsBitForBitTheSequentialDoubleSum) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(Cat("seed ", seed));
    Random r(seed);
    const int64_t m = Extent(r), n = Extent(r), k = seed % 7 == 0 ? 513 : Extent(r);
    const Tensor a = RandomTensor(r, DType::kF32, {m, k}), b = RandomTensor(r, DType::kF32, {k, n});
    const OpResult got = RunOp("MatMul", {}, {a, b});
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    EXPECT_TRUE(BitEqual(got.y(), NaiveMatMul(a, b, m, k, n))) << m << " " << n << " " << k;
    EXPECT_EQ(got.cost.flops, 2 * m * n * k);
  }
}

TEST(MatMul, BroadcastsBatchesAndTakesVectors) {
  struct Row {
    Dims a, b, y;
  };
  for (const Row& c : std::vector<Row>{{{3}, {3}, {}},
                                       {{3}, {3, 4}, {4}},
                                       {{2, 3}, {3}, {2}},
                                       {{5, 1, 2, 3}, {4, 3, 2}, {5, 4, 2, 2}},
                                       {{1, 2, 3}, {6, 3, 1}, {6, 2, 1}},
                                       {{3}, {2, 5, 3, 4}, {2, 5, 4}},
                                       {{2, 5, 4, 3}, {3}, {2, 5, 4}},
                                       {{0, 3}, {3, 2}, {0, 2}},
                                       {{2, 0}, {0, 3}, {2, 3}}}) {
    Random r(2);
    const Tensor a = RandomTensor(r, DType::kF32, c.a), b = RandomTensor(r, DType::kF32, c.b);
    const OpResult got = RunOp("MatMul", {}, {a, b});
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    ASSERT_EQ(got.y().dims(), c.y);
    // Each batch on its own, found by broadcasting its index by hand.
    Dims wa = c.a, wb = c.b;
    if (wa.size() == 1) wa.insert(wa.begin(), 1);
    if (wb.size() == 1) wb.push_back(1);
    const int64_t m = wa[wa.size() - 2], k = wa.back(), n = wb.back();
    const Dims batch = *Broadcast(Dims(wa.begin(), wa.end() - 2), Dims(wb.begin(), wb.end() - 2));
    for (int64_t i = 0, count = NumElements(batch); i < count; ++i) {
      auto offset = [&](const Dims& own) {
        int64_t rest = i, flat = 0, step = own[own.size() - 1] * own[own.size() - 2];
        for (size_t d = 0; d < batch.size(); ++d) {
          const size_t from_end = batch.size() - 1 - d;
          const int64_t at = rest % batch[from_end];
          rest /= batch[from_end];
          if (d + 2 >= own.size()) continue;
          const int64_t extent = own[own.size() - 3 - d];
          flat += (extent == 1 ? 0 : at) * step;
          step *= extent;
        }
        return flat;
      };
      for (int64_t row = 0; row < m; ++row)
        for (int64_t col = 0; col < n; ++col) {
          double sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += a.At(offset(wa) + row * k + l) * b.At(offset(wb) + l * n + col);
          EXPECT_FLOAT_EQ(static_cast<float>(got.y().At((i * m + row) * n + col)),
                          static_cast<float>(sum));
        }
    }
  }
  EXPECT_FALSE(
      RunOp("MatMul", {}, {Tensor::Zeros(DType::kF32, {2, 3}), Tensor::Zeros(DType::kF32, {2, 3})})
          .status.ok());
  EXPECT_FALSE(
      RunOp("MatMul", {}, {Tensor::Scalar(1.0f), Tensor::Zeros(DType::kF32, {1, 3})}).status.ok());
}

TEST(MatMul, IntegersWrap) {
  const Tensor a = Tensor::Of<int32_t>({1, 2}, {INT32_MAX, 2});
  const Tensor b = Tensor::Of<int32_t>({2, 1}, {2, 5});
  EXPECT_EQ(RunOp("MatMul", {}, {a, b}).y().IntAt(0), 8);  // 2^32 - 2 + 10 mod 2^32
  const Tensor c = Tensor::Of<uint64_t>({1, 1}, {UINT64_MAX});
  EXPECT_EQ(RunOp("MatMul", {}, {c, c}).y().data<uint64_t>()[0], 1u);
}

TEST(MatMul, SameBitsForAnyNumberOfLanes) {
  Random r(9);
  const Tensor a = RandomTensor(r, DType::kF32, {3, 200, 300});
  const Tensor b = RandomTensor(r, DType::kF32, {300, 500});
  const Tensor one = RunOp("MatMul", {}, {a, b}).y();
  const int before = LaneBudget();
  SetLaneBudget(4);
  {
    LaneLease lease(4);
    EXPECT_TRUE(BitEqual(one, RunOp("MatMul", {}, {a, b}).y()));
  }
  SetLaneBudget(before);
}

TEST(Gemm, EqualsTheFormula) {
  for (uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(Cat("seed ", seed));
    Random r(seed);
    const int64_t m = 1 + r.Below(20), n = 1 + r.Below(20), k = 1 + r.Below(40);
    const bool ta = seed & 1, tb = seed & 2;
    const DType t = seed % 5 == 3 ? DType::kI32 : seed % 5 == 4 ? DType::kF64 : DType::kF32;
    auto operand = [&](Dims dims) {  // integers small enough not to wrap
      Tensor v = RandomTensor(r, DType::kF32, std::move(dims));
      for (int64_t i = 0; t == DType::kI32 && i < v.num_elements(); ++i)
        v.Set(i, std::round(10 * v.At(i)));
      return v.Cast(t);
    };
    const Tensor a = operand(ta ? Dims{k, m} : Dims{m, k});
    const Tensor b = operand(tb ? Dims{n, k} : Dims{k, n});
    const Dims c_dims[] = {{n}, {m, 1}, {1, n}, {m, n}, {}, {1}};
    const bool with_c = seed % 7 != 0;
    const Tensor c = with_c ? operand(c_dims[seed % std::size(c_dims)]) : Tensor();
    const float alpha = seed % 3 ? 1.0f : 0.5f, beta = seed % 4 ? 1.0f : 2.0f;
    const OpResult got =
        RunOp("Gemm",
              {{"transA", int64_t{ta}}, {"transB", int64_t{tb}}, {"alpha", alpha}, {"beta", beta}},
              {a, b, c});
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    Tensor want(t, {m, n});
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += a.At(ta ? l * m + i : i * k + l) * b.At(tb ? j * k + l : l * n + j);
        double bias = 0;
        if (with_c) {
          const int64_t rows = c.rank() == 2 ? c.dim(0) : 1, cols = c.rank() ? c.dim(-1) : 1;
          bias = c.At((rows == 1 ? 0 : i) * cols + (cols == 1 ? 0 : j));
        }
        want.Set(i * n + j, alpha * sum + beta * bias);
      }
    EXPECT_LE(RelativeError(got.y(), want), t == DType::kF64 ? 1e-13 : 1e-6);
    EXPECT_EQ(got.cost.flops, m * n * (2 * k + (alpha != 1) + with_c + (with_c && beta != 1)));
  }
}

TEST(Gemm, CMustBroadcastToTheResult) {
  const Tensor a = Tensor::Zeros(DType::kF32, {2, 3}), b = Tensor::Zeros(DType::kF32, {3, 4});
  const OpResult got = RunOp("Gemm", {}, {a, b, Tensor::Zeros(DType::kF32, {3, 1, 4})});
  EXPECT_THAT(got.status.message(), ::testing::HasSubstr("does not broadcast"));
}

}  // namespace
}  // namespace infer
