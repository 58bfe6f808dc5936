/// Integer products against plain integer loops; convolutions against Conv on centred values.
#include <gmock/gmock.h>

#include <cmath>

#include "lib/support/strings.h"
#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

using ::testing::ElementsAre;

Tensor RandomBytes(Random& r, DType t, Dims dims) {
  Tensor out(t, std::move(dims));
  for (int64_t i = 0; i < out.num_elements(); ++i)
    out.SetInt(i, IntegerMin(t) + static_cast<int64_t>(r.Below(256)));
  return out;
}

DType ByteType(Random& r) { return r.Below(2) ? DType::kI8 : DType::kU8; }

TEST(MatMulInteger, EqualsIntegerLoops) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(Cat("seed ", seed));
    Random r(seed);
    const int64_t m = 1 + r.Below(9), n = 1 + r.Below(30), k = 1 + r.Below(40);
    const DType ta = ByteType(r), tb = ByteType(r);
    const Tensor a = RandomBytes(r, ta, {m, k}), b = RandomBytes(r, tb, {k, n});
    const bool per_row = r.Below(2), per_column = r.Below(2);
    const Tensor az = RandomBytes(r, ta, per_row ? Dims{m} : Dims{});
    const Tensor bz = RandomBytes(r, tb, per_column ? Dims{n} : Dims{1});
    const OpResult got = RunOp("MatMulInteger", {}, {a, b, az, bz});
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        int64_t sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += (a.IntAt(i * k + l) - az.IntAt(per_row ? i : 0)) *
                 (b.IntAt(l * n + j) - bz.IntAt(per_column ? j : 0));
        ASSERT_EQ(got.y().IntAt(i * n + j), sum);
      }
  }
}

TEST(MatMulInteger, BadZeroPointsAreRefused) {
  Random r(1);
  const Tensor a = RandomBytes(r, DType::kU8, {2, 3}), b = RandomBytes(r, DType::kU8, {3, 4});
  EXPECT_FALSE(RunOp("MatMulInteger", {}, {a, b, RandomBytes(r, DType::kU8, {3})}).status.ok());
}

TEST(ConvInteger, IsConvOfCentredValues) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(Cat("seed ", seed));
    Random r(seed);
    const DType tx = ByteType(r), tw = ByteType(r);
    const Tensor x = RandomBytes(r, tx, {2, 4, 7, 6}), w = RandomBytes(r, tw, {6, 2, 3, 2});
    const Tensor xz = RandomBytes(r, tx, {}), wz = RandomBytes(r, tw, seed % 2 ? Dims{6} : Dims{});
    const AttrMap attrs = {{"group", int64_t{2}},
                           {"pads", std::vector<int64_t>{1, 0, 2, 1}},
                           {"strides", std::vector<int64_t>{2, 1}}};
    const OpResult got = RunOp("ConvInteger", attrs, {x, w, xz, wz});
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    Tensor xf = x.Cast(DType::kF32), wf = w.Cast(DType::kF32);
    for (int64_t i = 0; i < xf.num_elements(); ++i) xf.Set(i, xf.At(i) - xz.At(0));
    for (int64_t i = 0; i < wf.num_elements(); ++i)
      wf.Set(i, wf.At(i) - wz.At(wz.rank() ? i / 12 : 0));
    const Tensor want = RunOp("Conv", attrs, {xf, wf}).y();
    for (int64_t i = 0; i < want.num_elements(); ++i)
      ASSERT_EQ(got.y().IntAt(i), static_cast<int64_t>(want.At(i)));
  }
}

TEST(QLinearConv, ScalesRoundsAndSaturates) {
  // One tap: y = rint(x * w * xs * ws / ys) + yz per channel.
  const Tensor x = Tensor::Of<uint8_t>({1, 1, 4}, {10, 13, 0, 255});
  const auto f = [](float v) { return Tensor::Scalar(v); };
  const OpResult got =
      RunOp("QLinearConv", {},
            {x, f(0.5f), Tensor::Scalar<uint8_t>(10), Tensor::Of<int8_t>({2, 1, 1}, {1, -2}),
             Tensor::Of<float>({2}, {1, 3}), Tensor::Of<int8_t>({2}, {0, 0}), f(1),
             Tensor::Scalar<int8_t>(5), Tensor::Of<int32_t>({2}, {0, 1})});
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  // Channel 0: (x - 10) / 2 = 0, 1.5 -> 2, -5, 122.5 -> 122, + 5. Channel 1: (-2 (x - 10) + 1) 1.5.
  EXPECT_THAT(got.y().ToInts(), ElementsAre(5, 7, 0, 127, 7, -3, 37, -128));
  EXPECT_EQ(got.y().dtype(), DType::kI8);
}

TEST(QLinearMatMul, EqualsTheFormula) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(Cat("seed ", seed));
    Random r(seed);
    const int64_t m = 1 + r.Below(5), n = 1 + r.Below(9), k = 1 + r.Below(20);
    const DType ta = ByteType(r), tb = ByteType(r), ty = ByteType(r);
    const Tensor a = RandomBytes(r, ta, {2, m, k}), b = RandomBytes(r, tb, {k, n});
    auto scale = [&](Dims dims) {
      Tensor t(DType::kF32, std::move(dims));
      for (int64_t i = 0; i < t.num_elements(); ++i) t.Set(i, r.Uniform(0.01, 0.1));
      return t;
    };
    const bool per_row = r.Below(2), per_column = r.Below(2);
    const Dims rows = per_row ? Dims{2, m, 1} : Dims{}, columns = per_column ? Dims{n} : Dims{};
    const Tensor as = scale(rows), az = RandomBytes(r, ta, rows);
    const Tensor bs = scale(columns), bz = RandomBytes(r, tb, columns);
    const Tensor ys = scale({}), yz = RandomBytes(r, ty, {});
    const OpResult got = RunOp("QLinearMatMul", {}, {a, as, az, b, bs, bz, ys, yz});
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    for (int64_t i = 0; i < 2 * m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const int64_t row = per_row ? i : 0, column = per_column ? j : 0;
        int64_t sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += (a.IntAt(i * k + l) - az.IntAt(row)) * (b.IntAt(l * n + j) - bz.IntAt(column));
        const double v = static_cast<double>(sum) * as.At(row) * bs.At(column) / ys.At(0);
        const double want =
            std::clamp(std::nearbyint(v) + yz.At(0), static_cast<double>(IntegerMin(ty)),
                       static_cast<double>(IntegerMax(ty)));
        // The factor is rounded to f32, so a value near a tie may go to the other side.
        const double from_tie = std::abs(std::abs(v - std::floor(v)) - 0.5);
        if (from_tie > 1e-4 + 1e-6 * std::abs(v)) {
          ASSERT_EQ(got.y().At(i * n + j), want);
        }
      }
  }
}

TEST(QLinearMatMul, TakesFloat8AndNarrowScales) {
  const DType t = DType::kF8E4M3FN;
  Tensor a(t, {1, 2}), b(t, {2, 1}), zero = Tensor::Zeros(t, {});
  a.Set(0, 2), a.Set(1, 3), b.Set(0, 4), b.Set(1, -1);
  const Tensor one = Tensor::Scalar(1.0f).Cast(DType::kF16);
  const OpResult got = RunOp("QLinearMatMul", {}, {a, one, zero, b, one, zero, one, zero});
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  EXPECT_EQ(got.y().At(0), 5);
}

}  // namespace
}  // namespace infer
