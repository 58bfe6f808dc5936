#include "lib/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/support/strings.h"

namespace infer {
namespace {

TEST(Float16, EveryCodeSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto h = static_cast<uint16_t>(bits);
    const float f = F16ToFloat(h);
    if (std::isnan(f)) continue;
    EXPECT_EQ(FloatToF16(f), h);
    const auto b = static_cast<uint16_t>(bits);
    const float g = BF16ToFloat(b);
    if (!std::isnan(g)) {
      EXPECT_EQ(FloatToBF16(g), b);
    }
  }
}

TEST(Float16, RoundsToNearestEven) {
  EXPECT_EQ(F16ToFloat(FloatToF16(2049.f)), 2048.f);
  EXPECT_EQ(F16ToFloat(FloatToF16(2051.f)), 2052.f);
  EXPECT_TRUE(std::isinf(F16ToFloat(FloatToF16(65520.f))));
  EXPECT_EQ(F16ToFloat(FloatToF16(65519.f)), 65504.f);
  EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(NAN))));
}

TEST(MiniFloat, EveryCodeSurvivesTheRoundTrip) {
  for (DType t : {DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ,
                  DType::kF4E2M1, DType::kF8E8M0}) {
    for (int code = 0; code < (t == DType::kF4E2M1 ? 16 : 256); ++code) {
      const float f = MiniFloatToFloat(t, static_cast<uint8_t>(code));
      if (std::isnan(f)) continue;
      EXPECT_EQ(FloatToMiniFloat(t, f, false), code) << Name(t) << " " << f;
    }
  }
}

TEST(MiniFloat, Saturates) {
  EXPECT_EQ(MiniFloatToFloat(DType::kF8E4M3FN, FloatToMiniFloat(DType::kF8E4M3FN, 1e6f)), 448.f);
  EXPECT_TRUE(std::isnan(
      MiniFloatToFloat(DType::kF8E4M3FN, FloatToMiniFloat(DType::kF8E4M3FN, 1e6f, false))));
  EXPECT_TRUE(
      std::isinf(MiniFloatToFloat(DType::kF8E5M2, FloatToMiniFloat(DType::kF8E5M2, 1e9f, false))));
}

TEST(Tensor, PackedElementsRoundTrip) {
  for (DType t : {DType::kU4, DType::kI4, DType::kU2, DType::kI2}) {
    Tensor x(t, {7});
    for (int64_t i = 0; i < 7; ++i) x.SetInt(i, IntegerMin(t) + i);
    for (int64_t i = 0; i < 7; ++i)
      EXPECT_EQ(x.IntAt(i), std::min(IntegerMin(t) + i, IntegerMax(t))) << Name(t);
    EXPECT_EQ(x.byte_size(), t == DType::kU4 || t == DType::kI4 ? 4 : 2);
  }
}

TEST(Tensor, CastRoundsAndSaturates) {
  const Tensor x = Tensor::Of<float>({4}, {-1.7f, 0.4f, 300.f, NAN});
  const Tensor u = x.Cast(DType::kU8);
  EXPECT_EQ(u.ToInts(), (std::vector<int64_t>{0, 0, 255, 0}));
  EXPECT_EQ(x.Cast(DType::kI32).IntAt(0), -1);
}

TEST(Tensor, HashAndEqualityFollowTheContents) {
  const Tensor a = Tensor::Of<float>({2}, {1, 2}), b = Tensor::Of<float>({2}, {1, 2});
  EXPECT_EQ(HashOf(a), HashOf(b));
  EXPECT_TRUE(BitEqual(a, b));
  EXPECT_NE(HashOf(a), HashOf(a.Reshaped({2, 1})));
  EXPECT_FALSE(BitEqual(a, Tensor::Of<float>({2}, {1, 3})));
}

TEST(Dim, Arithmetic) {
  const Dim n = Dim::Symbol("N"), s = Dim::Symbol("S");
  EXPECT_EQ((n + 1 - 1), n);
  EXPECT_EQ((n * 2 + s * n).ToString(), "2*N+N*S");
  EXPECT_EQ((n * s).ExactDiv(n), s);
  EXPECT_EQ((n * 4 + 8).FloorDiv(4), n + 2);
  EXPECT_EQ((n + 1).FloorDiv(2), (n + 1).FloorDiv(2));
  EXPECT_EQ((n + 3).FloorDiv(2), (n + 1).FloorDiv(2) + 1);
  EXPECT_TRUE((n * Dim()).is_unknown());
  EXPECT_EQ(n * 0, Dim(0));
  EXPECT_EQ((n - n), Dim(0));
  EXPECT_FALSE(Dim().KnownEqual(Dim()));
}

TEST(Dim, WhatOverflowsIsUnknown) {
  const int64_t most = std::numeric_limits<int64_t>::max(), least = -most - 1;
  const Dim n = Dim::Symbol("N");
  EXPECT_TRUE((Dim(most) + 3).is_unknown());
  EXPECT_TRUE((Dim(most) * 2).is_unknown());
  EXPECT_TRUE((Dim(3) - Dim(least)).is_unknown());
  EXPECT_TRUE((n * most + n).is_unknown());
  EXPECT_TRUE((n * most * 2).is_unknown());
  EXPECT_TRUE(Dim(least).ExactDiv(-1).is_unknown());
  EXPECT_TRUE(Dim(most).CeilDiv(most).is_unknown());
  EXPECT_FALSE((n - most).FloorDiv(most).is_unknown());
  Dim product = 1;
  for (int i = 0; i < 40; ++i) product = product * (Dim::Symbol(Cat("A", i)) + n);
  EXPECT_TRUE(product.is_unknown());
  Dim power = n;
  for (int i = 0; i < 40; ++i) power = power * power;
  EXPECT_TRUE(power.is_unknown());
}

TEST(Shape, BroadcastAndLattice) {
  const Shape a(std::vector<Dim>{Dim::Symbol("N"), 1, 3}), b(Dims{4, 3});
  EXPECT_EQ(Broadcast(a, b)->ToString(), "[N,4,3]");
  EXPECT_FALSE(Broadcast(Shape(Dims{2}), Shape(Dims{3})).ok());
  EXPECT_TRUE(Shape(Dims{2, 1, 3}).Refines(a));
  EXPECT_FALSE(a.Refines(Shape(Dims{2, 1, 3})));
  EXPECT_EQ(Meet(a, Shape(std::vector<Dim>{5, Dim(), Dim()}))->ToString(), "[5,1,3]");
}

}  // namespace
}  // namespace infer
