/// Fused products against the operators that they are made of.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

TEST(FusedConv, IsConvAddActivation) {
  Random r(1);
  const Tensor x = RandomTensor(r, DType::kF32, {1, 2, 5, 5});
  const Tensor w = RandomTensor(r, DType::kF32, {3, 2, 3, 3});
  const Tensor b = RandomTensor(r, DType::kF32, {3}),
               z = RandomTensor(r, DType::kF32, {1, 3, 3, 3});
  const OpResult got = RunOp(
      "FusedConv",
      {{"activation", std::string("LeakyRelu")}, {"activation_params", std::vector<float>{0.5}}},
      {x, w, b, z}, 1, kMicrosoft);
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  const Tensor plain = RunOp("Conv", {}, {x, w, b}).y();
  for (int64_t i = 0; i < plain.num_elements(); ++i) {
    const auto v = static_cast<float>(plain.At(i) + z.At(i));
    EXPECT_FLOAT_EQ(static_cast<float>(got.y().At(i)), v < 0 ? v / 2 : v);
  }
  EXPECT_EQ(got.cost.flops, 27 * (2 * 18 + 3));
}

TEST(FusedGemm, IsGemmActivation) {
  Random r(1);
  const Tensor a = RandomTensor(r, DType::kF32, {3, 4}), b = RandomTensor(r, DType::kF32, {5, 4});
  AttrMap attrs = {{"transB", int64_t{1}}};
  const Tensor plain = RunOp("Gemm", attrs, {a, b}).y();
  attrs["activation"] = std::string("Relu");
  const OpResult got = RunOp("FusedGemm", attrs, {a, b}, 1, kMicrosoft);
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(got.y().At(i), std::max(plain.At(i), 0.0));
}

/// Of NaN, zeros of either sign and infinities, too: fuse writes the one as the other.
TEST(FusedGemm, ItsActivationsAreTheOperators) {
  const float inf = std::numeric_limits<float>::infinity();
  Tensor x(DType::kF32, {8, 1});
  const float values[] = {NAN, 0, inf, -inf, 1, -1, 1e-40f, -1e-40f};
  for (int64_t i = 0; i < 8; ++i) x.Set(i, static_cast<double>(values[i]));
  const Tensor one = Tensor::Scalar(1.0f).Reshaped({1, 1});
  for (const char* name : {"Relu", "Tanh", "Sigmoid", "Softsign", "Softplus", "LeakyRelu",
                           "ThresholdedRelu", "Elu", "HardSigmoid"})
    for (const float alpha : {1.0f, -1.0f}) {  // -1 makes -0
      AttrMap attrs = {{"alpha", alpha}};
      const Tensor plain = RunOp("Gemm", attrs, {x, one}).y();
      attrs["activation"] = std::string(name);
      const OpResult got = RunOp("FusedGemm", attrs, {x, one}, 1, kMicrosoft);
      ASSERT_TRUE(got.status.ok()) << got.status.message();
      const Tensor want = RunOp(name, {}, {plain}).y();
      for (int64_t i = 0; i < 8; ++i) {
        const double a = got.y().At(i), b = want.At(i);
        EXPECT_EQ(std::isnan(a), std::isnan(b)) << name << " of " << plain.At(i);
        if (std::isnan(b)) continue;
        EXPECT_FLOAT_EQ(static_cast<float>(a), static_cast<float>(b)) << name;
        EXPECT_EQ(std::signbit(a), std::signbit(b)) << name << " of " << plain.At(i);
      }
    }
}

TEST(FusedMatMul, TransposesBatchesAndMatrices) {
  // A [m, batch, k] with transBatchA is [batch, m, k]; B [batch, n, k] with transB is [batch, k,
  // n].
  Random r(1);
  const int64_t batch = 2, m = 3, k = 4, n = 5;
  const Tensor a = RandomTensor(r, DType::kF32, {m, batch, k});
  const Tensor b = RandomTensor(r, DType::kF32, {batch, n, k});
  const OpResult got =
      RunOp("FusedMatMul", {{"transBatchA", int64_t{1}}, {"transB", int64_t{1}}, {"alpha", 0.5f}},
            {a, b}, 1, kMicrosoft);
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  ASSERT_EQ(got.y().dims(), (Dims{batch, m, n}));
  for (int64_t i = 0; i < batch * m * n; ++i) {
    const int64_t s = i / (m * n), row = i / n % m, col = i % n;
    double sum = 0;
    for (int64_t l = 0; l < k; ++l)
      sum += a.At((row * batch + s) * k + l) * b.At((s * n + col) * k + l);
    EXPECT_FLOAT_EQ(static_cast<float>(got.y().At(i)), static_cast<float>(sum / 2));
  }
}

TEST(MatMulNBits, UnpacksLowBitsFirst) {
  for (int64_t bits : {2, 4, 8}) {
    Random r(static_cast<uint64_t>(bits));
    const int64_t n = 3, k = 20, block = 16, blocks = 2, bytes = block * bits / 8;
    std::vector<int64_t> codes;  // of [n, blocks * block], padding included
    Tensor b(DType::kU8, {n, blocks, bytes});
    for (int64_t i = 0; i < b.num_elements(); ++i) {
      int64_t byte = 0;
      for (int64_t at = 0; at < 8 / bits; ++at) {
        codes.push_back(r.Below(1u << bits));
        byte |= codes.back() << (at * bits);
      }
      b.SetInt(i, byte);
    }
    const Tensor x = RandomTensor(r, DType::kF32, {2, k});
    const Tensor scales = RandomTensor(r, DType::kF32, {n * blocks});
    const Tensor bias = RandomTensor(r, DType::kF32, {n});
    // Zero points: float per block, or packed codes with a row of whole bytes.
    const Tensor zeros = RandomTensor(r, DType::kF32, {n * blocks});
    const AttrMap attrs = {{"N", n}, {"K", k}, {"bits", bits}, {"block_size", block}};
    for (const Tensor& z : {Tensor(), zeros}) {
      const OpResult got = RunOp("MatMulNBits", attrs, {x, b, scales, z, {}, bias}, 1, kMicrosoft);
      ASSERT_TRUE(got.status.ok()) << got.status.message();
      for (int64_t i = 0; i < 2 * n; ++i) {
        double sum = bias.At(i % n);
        for (int64_t l = 0; l < k; ++l) {
          const int64_t group = i % n * blocks + l / block;
          const double zero = z.defined() ? z.At(group) : static_cast<double>(1 << (bits - 1));
          const auto code =
              static_cast<double>(codes[static_cast<size_t>(i % n * blocks * block + l)]);
          sum += x.At(i / n * k + l) * (code - zero) * scales.At(group);
        }
        EXPECT_NEAR(got.y().At(i), sum, 1e-4 * std::max(1.0, std::abs(sum)));
      }
    }
  }
  EXPECT_EQ(RunOp("MatMulNBits",
                  {{"N", int64_t{1}},
                   {"K", int64_t{16}},
                   {"bits", int64_t{3}},
                   {"block_size", int64_t{16}}},
                  {Tensor::Zeros(DType::kF32, {1, 16}), Tensor::Zeros(DType::kU8, {1, 1, 6}),
                   Tensor::Zeros(DType::kF32, {1})},
                  1, kMicrosoft)
                .status.code(),
            Code::kUnsupported);
}

}  // namespace
}  // namespace infer
