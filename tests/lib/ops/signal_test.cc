/// Fourier transforms against the sum that defines them; windows and mel weights by their laws.
#include <gmock/gmock.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "lib/support/strings.h"
#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

std::complex<double> Bin(const Tensor& x, int64_t begin, int64_t n, int64_t k) {
  std::complex<double> sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += x.At(begin + i) * std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k * i) /
                                                 static_cast<double>(n));
  return sum;
}

TEST(Dft, EqualsTheDefiningSumForEveryLength) {
  for (int64_t n = 1; n <= 40; ++n) {
    SCOPED_TRACE(Cat("n ", n));
    Random r(static_cast<uint64_t>(n));
    const Tensor x = RandomTensor(r, DType::kF64, {2, n, 1});
    const Tensor axis = Tensor::Scalar<int64_t>(1);
    const OpResult full = RunOp("DFT", {}, {x, {}, axis});
    const OpResult half = RunOp("DFT", {{"onesided", int64_t{1}}}, {x, {}, axis});
    ASSERT_TRUE(full.status.ok() && half.status.ok()) << full.status.message();
    ASSERT_EQ(half.y().dims(), (Dims{2, n / 2 + 1, 2}));
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t k = 0; k < n; ++k) {
        const std::complex<double> want = Bin(x, b * n, n, k);
        EXPECT_NEAR(full.y().At((b * n + k) * 2), want.real(), 1e-9);
        EXPECT_NEAR(full.y().At((b * n + k) * 2 + 1), want.imag(), 1e-9);
        if (k <= n / 2) {
          EXPECT_EQ(half.y().At((b * (n / 2 + 1) + k) * 2), full.y().At((b * n + k) * 2));
        }
      }
    const Tensor length = Tensor::Scalar<int64_t>(n);
    const AttrMap inverse = {{"inverse", int64_t{1}}};
    const Tensor back = RunOp("DFT", inverse, {full.y(), {}, axis}).y();
    const Tensor real =
        RunOp("DFT", {{"inverse", int64_t{1}}, {"onesided", int64_t{1}}}, {half.y(), length, axis})
            .y();
    ASSERT_EQ(real.dims(), x.dims());
    for (int64_t i = 0; i < 2 * n; ++i) {
      EXPECT_NEAR(back.At(2 * i), x.At(i), 1e-9);
      EXPECT_NEAR(real.At(i), x.At(i), 1e-9);
    }
  }
}

TEST(Stft, IsTheTransformOfWindowedFrames) {
  Random r(3);
  const Tensor x = RandomTensor(r, DType::kF64, {2, 30, 1});
  const Tensor window = RandomTensor(r, DType::kF64, {8});
  const OpResult got = RunOp("STFT", {}, {x, Tensor::Scalar<int64_t>(3), window});
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  ASSERT_EQ(got.y().dims(), (Dims{2, 8, 5, 2}));
  for (int64_t f = 0; f < 16; ++f) {
    Tensor frame(DType::kF64, {8});
    for (int64_t i = 0; i < 8; ++i) frame.Set(i, x.At(f / 8 * 30 + f % 8 * 3 + i) * window.At(i));
    for (int64_t k = 0; k < 5; ++k)
      EXPECT_NEAR(got.y().At((f * 5 + k) * 2), Bin(frame, 0, 8, k).real(), 1e-9);
  }
}

TEST(Stft, ARealSignalMayHaveTwoAxes) {
  Random r(4);
  const Tensor x = RandomTensor(r, DType::kF32, {2, 30, 1});
  for (const Tensor& w : {Tensor(), RandomTensor(r, DType::kF32, {8})})
    for (const int64_t onesided : {0, 1}) {
      const auto run = [&](const Tensor& signal) {
        return RunOp("STFT", {{"onesided", onesided}}, {signal, Tensor::Scalar<int64_t>(3), w});
      };
      const OpResult two = run(x.Reshaped({2, 30})), three = run(x);
      ASSERT_TRUE(two.status.ok()) << two.status.message();
      EXPECT_TRUE(BitEqual(two.y(), three.y()));
    }
  EXPECT_EQ(RunOp("STFT", {}, {Tensor::Zeros(DType::kF32, {1, 8, 3}), Tensor::Scalar<int64_t>(1)})
                .status.code(),
            Code::kInvalidModel);
}

TEST(Windows, AreSymmetricOrPeriodic) {
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    const Tensor symmetric =
        RunOp(op, {{"periodic", int64_t{0}}}, {Tensor::Scalar<int64_t>(9)}).y();
    const Tensor periodic = RunOp(op, {}, {Tensor::Scalar<int64_t>(8)}).y();
    EXPECT_NEAR(symmetric.At(4), 1, 1e-6) << op;
    for (int64_t i = 0; i < 8; ++i) {
      EXPECT_NEAR(symmetric.At(i), symmetric.At(8 - i), 1e-6) << op;
      EXPECT_NEAR(symmetric.At(i), periodic.At(i), 1e-6) << op;
    }
    EXPECT_FALSE(RunOp(op, {}, {Tensor::Scalar<int64_t>(-1)}).status.ok());
  }
}

TEST(MelWeightMatrix, EveryTriangleHasPeakOne) {
  const OpResult got =
      RunOp("MelWeightMatrix", {},
            {Tensor::Scalar<int64_t>(8), Tensor::Scalar<int64_t>(64), Tensor::Scalar<int64_t>(8192),
             Tensor::Scalar(0.0f), Tensor::Scalar(4096.0f)});
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  ASSERT_EQ(got.y().dims(), (Dims{33, 8}));
  for (int64_t c = 0; c < 8; ++c) {
    double peak = 0;
    for (int64_t j = 0; j < 33; ++j) peak = std::max(peak, got.y().At(j * 8 + c));
    EXPECT_EQ(peak, 1);
  }
}

TEST(MelWeightMatrix, FrequenciesWithoutABinAreBadModels) {
  const Tensor n = Tensor::Scalar<int64_t>(8);
  for (const float high : {-4096.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    const OpResult got =
        RunOp("MelWeightMatrix", {}, {n, n, n, Tensor::Scalar(0.0f), Tensor::Scalar(high)});
    EXPECT_EQ(got.status.code(), Code::kInvalidModel) << high;
  }
}

TEST(Signal, NumbersThatAreNoneAreBadModels) {
  const Tensor none(DType::kF32, {0}), no_length(DType::kI64, {0});
  const Tensor n = Tensor::Scalar<int64_t>(8);
  for (const OpResult& got : {RunOp("MelWeightMatrix", {}, {n, n, n, Tensor::Scalar(0.0f), none}),
                              RunOp("DFT", {}, {Tensor::Zeros(DType::kF32, {1, 4, 1}), no_length}),
                              RunOp("STFT", {}, {Tensor::Zeros(DType::kF32, {1, 8, 1}), no_length}),
                              RunOp("HannWindow", {}, {no_length})})
    EXPECT_EQ(got.status.code(), Code::kInvalidModel) << got.status.message();
}

}  // namespace
}  // namespace infer
