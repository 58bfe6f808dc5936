/// The quantized operators of com.microsoft, by their formulas.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor U8(std::initializer_list<uint8_t> v) {
  return Tensor::Of<uint8_t>({static_cast<int64_t>(v.size())}, v);
}
Tensor Scale(float v) { return Tensor::Scalar(v); }
Tensor Zero(uint8_t v) { return Tensor::Scalar(v); }

TEST(QLinearAdd, RoundsAfterTheZeroPointIsAdded) {
  // (a + b) / 2 = 0.5, 1.5, 2.5; with an odd zero point the tie goes to the even sum, 3 + 0.5 -> 4.
  const Tensor y = Call("com.microsoft::QLinearAdd", {U8({1, 3, 5}), Scale(0.5f), Zero(0), U8({0}),
                                                      Scale(0.5f), Zero(0), Scale(1), Zero(3)});
  EXPECT_THAT(y.ToInts(), ElementsAre(4, 4, 6));
}

TEST(QLinearConcat, RoundsBeforeTheZeroPointIsAdded) {
  // 0.5 -> 0, 1.5 -> 2, 2.5 -> 2, then + 3; the second operand has the output's parameters.
  const OpResult r = RunOp(
      "QLinearConcat", {{"axis", int64_t{0}}},
      {Scale(1), Zero(3), U8({1, 3, 5}), Scale(0.5f), Zero(0), U8({200, 7}), Scale(1), Zero(3)}, 1,
      kMicrosoft);
  ASSERT_TRUE(r.status.ok()) << r.status.message();
  EXPECT_THAT(r.y().ToInts(), ElementsAre(3, 5, 5, 200, 7));
}

TEST(QLinearConcat, RefusesWhatAreNoTriples) {
  const auto status = [](std::vector<Tensor> inputs) {
    return RunOp("QLinearConcat", {{"axis", int64_t{0}}}, inputs, 1, kMicrosoft).status.message();
  };
  EXPECT_THAT(status({Scale(1), Zero(3), U8({1}), Scale(1)}), HasSubstr("wants a scale"));
  EXPECT_THAT(status({Scale(1), Zero(3), U8({1}), Zero(1), Scale(1)}),
              HasSubstr("with an f32 scale and a zero point"));
  EXPECT_THAT(status({Scale(1), Zero(3), Tensor::Of<int8_t>({1}, {1}), Scale(1), Zero(1)}),
              HasSubstr("with an f32 scale and a zero point"));
}

TEST(QLinearMul, SaturatesAndTakesAbsentZeroPointsAsZero) {
  const Tensor y =
      Call("com.microsoft::QLinearMul",
           {U8({2, 100, 3}), Scale(1), Tensor(), U8({4, 100, 5}), Scale(1), Tensor(), Scale(2)});
  EXPECT_THAT(y.ToInts(), ElementsAre(4, 255, 8));  // 15 / 2 = 7.5 -> 8
}

TEST(QLinearAveragePool, ChannelsLastIsTheSameTransposed) {
  Random r(1);
  const Tensor x = RandomTensor(r, DType::kU8, {2, 5, 6, 3});
  Tensor first(DType::kU8, {2, 3, 5, 6});
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t i = 0; i < 30; ++i)
      for (int64_t c = 0; c < 3; ++c)
        first.SetInt((n * 3 + c) * 30 + i, x.IntAt((n * 30 + i) * 3 + c));
  AttrMap attrs = {{"kernel_shape", std::vector<int64_t>{2, 3}}};
  const auto run = [&](const Tensor& t) {
    const OpResult got = RunOp("QLinearAveragePool", attrs,
                               {t, Scale(0.1f), Zero(3), Scale(0.07f), Zero(9)}, 1, kMicrosoft);
    EXPECT_TRUE(got.status.ok()) << got.status.message();
    return got.y();
  };
  const Tensor want = run(first);
  attrs["channels_last"] = int64_t{1};
  const Tensor got = run(x);
  ASSERT_EQ(got.dims(), (Dims{2, 4, 4, 3}));
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t i = 0; i < 16; ++i)
      for (int64_t c = 0; c < 3; ++c)
        EXPECT_EQ(got.IntAt((n * 16 + i) * 3 + c), want.IntAt((n * 3 + c) * 16 + i));
}

TEST(QLinearSoftmax, OfOldOpsetsRunsOverAllBehindTheAxis) {
  const Tensor x = Tensor::Of<uint8_t>({1, 2, 2}, {10, 10, 10, 10});
  const std::vector<Tensor> inputs = {x, Scale(0.1f), Zero(0), Scale(1 / 256.f), Zero(0)};
  const auto run = [&](int64_t opset) {
    return RunOp("QLinearSoftmax", {{"opset", opset}, {"axis", int64_t{1}}}, inputs, 1, kMicrosoft)
        .y()
        .ToInts();
  };
  EXPECT_THAT(run(12), ElementsAre(64, 64, 64, 64));
  EXPECT_THAT(run(13), ElementsAre(128, 128, 128, 128));
}

TEST(QGemm, EqualsTheFormula) {
  for (const bool quantized : {false, true}) {
    Random r(quantized);
    const int64_t m = 3, k = 7, n = 4;
    const Tensor a = RandomTensor(r, DType::kU8, {k, m}), b = RandomTensor(r, DType::kI8, {n, k});
    const Tensor bs = Tensor::Of<float>({n}, {0.1f, 0.2f, 0.3f, 0.4f});
    const Tensor bz = Tensor::Of<int8_t>({n}, {1, -2, 3, -4});
    const Tensor c = Tensor::Of<int32_t>({m, 1}, {100, -200, 300});
    std::vector<Tensor> inputs = {a, Scale(0.5f), Zero(11), b, bs, bz, c};
    if (quantized) {
      inputs.push_back(Scale(300));
      inputs.push_back(Zero(100));
    }
    const OpResult got =
        RunOp("QGemm", {{"transA", int64_t{1}}, {"transB", int64_t{1}}, {"alpha", 2.0f}}, inputs, 1,
              kMicrosoft);
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    EXPECT_EQ(got.cost.flops, m * n * (2 * k + 2));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        int64_t sum = c.IntAt(i);
        for (int64_t l = 0; l < k; ++l)
          sum += (a.IntAt(l * m + i) - 11) * (b.IntAt(j * k + l) - bz.IntAt(j));
        const double real = static_cast<double>(sum) * 2 * 0.5 * bs.At(j);
        if (quantized)
          EXPECT_EQ(got.y().IntAt(i * n + j),
                    std::clamp(std::nearbyint(real / 300) + 100, 0., 255.));
        else
          EXPECT_NEAR(got.y().At(i * n + j), real, 1e-5 * std::abs(real));
      }
  }
}

TEST(QGemm, RefusesAScaleWithoutAZeroPoint) {
  const Tensor a = Tensor::Of<uint8_t>({1, 1}, {1});
  const OpResult got = RunOp(
      "QGemm", {}, {a, Scale(1), Zero(0), a, Scale(1), Zero(0), Tensor(), Scale(1)}, 1, kMicrosoft);
  EXPECT_THAT(got.status.message(), HasSubstr("y_scale and y_zero_point"));
}

TEST(GatherBlockQuantized, UnpacksLowBitsFirst) {
  // Two rows of 32 codes of 4 bits, in blocks of 16; the zero points of a row share one byte.
  Tensor data(DType::kU8, {2, 16});
  for (int64_t i = 0; i < 32; ++i) data.SetInt(i, i % 16 | (15 - i % 16) << 4);
  const Tensor scales = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  const Tensor zeros = Tensor::Of<uint8_t>({2, 1}, {0x21, 0x43});
  const Tensor row = Tensor::Of<int64_t>({1}, {-1});  // the second one
  const AttrMap attrs = {{"block_size", int64_t{16}}};
  const OpResult got =
      RunOp("GatherBlockQuantized", attrs, {data, row, scales, zeros}, 1, kMicrosoft);
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  ASSERT_EQ(got.y().dims(), (Dims{1, 32}));
  for (int64_t i = 0; i < 32; ++i) {
    const int64_t code = i % 2 ? 15 - i / 2 : i / 2;
    EXPECT_EQ(got.y().At(i), static_cast<double>(i < 16 ? 3 * (code - 3) : 4 * (code - 4)));
  }
  const OpResult middle = RunOp("GatherBlockQuantized", attrs, {data, row, scales}, 1, kMicrosoft);
  EXPECT_EQ(middle.y().At(0), -24);  // 3 (0 - 8)
}

TEST(GatherBlockQuantized, RefusesWhatDoesNotFit) {
  const Tensor data(DType::kU8, {2, 16}), row = Tensor::Of<int64_t>({1}, {0});
  const Tensor scales(DType::kF32, {2, 2});
  const auto status = [&](const AttrMap& attrs, const Tensor& s) {
    return RunOp("GatherBlockQuantized", attrs, {data, row, s}, 1, kMicrosoft).status.message();
  };
  const int64_t one = 1;
  EXPECT_THAT(status({{"block_size", int64_t{24}}}, scales), HasSubstr("power of two"));
  EXPECT_THAT(status({{"block_size", int64_t{16}}, {"bits", int64_t{3}}}, scales),
              HasSubstr("bits"));
  EXPECT_THAT(status({{"block_size", int64_t{16}}, {"gather_axis", one}}, scales),
              HasSubstr("gather_axis 0"));
  EXPECT_THAT(status({{"block_size", int64_t{32}}}, scales), HasSubstr("does not fit data"));
}

}  // namespace
}  // namespace infer
