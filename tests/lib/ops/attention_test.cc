/// Attention against its formula written out, and laws that tie its options to each other.
#include <gmock/gmock.h>

#include <cmath>

#include "lib/support/strings.h"
#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

Tensor Slice2(const Tensor& t, int64_t begin, int64_t end) {  // along axis 2 of rank 4
  Tensor out(t.dtype(), {t.dim(0), t.dim(1), end - begin, t.dim(3)});
  int64_t at = 0;
  for (int64_t o = 0; o < t.dim(0) * t.dim(1); ++o)
    for (int64_t i = begin; i < end; ++i)
      for (int64_t e = 0; e < t.dim(3); ++e) out.Set(at++, t.At((o * t.dim(2) + i) * t.dim(3) + e));
  return out;
}

TEST(Attention, EqualsTheFormulaOnGeneratedShapes) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(Cat("seed ", seed));
    Random r(seed);
    const int64_t b = 1 + r.Below(2), kv_heads = 1 + r.Below(2),
                  heads = kv_heads * (1 + r.Below(3));
    const int64_t s = 1 + r.Below(5), t = 1 + r.Below(6), d = 1 + r.Below(8), e = 1 + r.Below(5);
    const Tensor q = RandomTensor(r, DType::kF32, {b, heads, s, d});
    const Tensor k = RandomTensor(r, DType::kF32, {b, kv_heads, t, d});
    const Tensor v = RandomTensor(r, DType::kF32, {b, kv_heads, t, e});
    const bool causal = r.Below(2), with_mask = r.Below(2);
    const double cap = r.Below(2) ? 1.5 : 0;
    const Tensor mask = with_mask ? RandomTensor(r, DType::kF32, {heads, s, t}) : Tensor();
    AttrMap attrs = {{"is_causal", int64_t{causal}},
                     {"softcap", static_cast<float>(cap)},
                     {"qk_matmul_output_mode", int64_t{3}}};
    const OpResult got = RunOp("Attention", attrs, {q, k, v, mask}, 4);
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    Tensor y(DType::kF32, {b, heads, s, e}), weights(DType::kF32, {b, heads, s, t});
    for (int64_t row = 0; row < b * heads * s; ++row) {
      const int64_t i = row % s, h = row / s % heads, sample = row / s / heads;
      const int64_t kv = sample * kv_heads + h / (heads / kv_heads);
      std::vector<double> p;
      double sum = 0;
      for (int64_t j = 0; j < t; ++j) {
        double score = 0;
        for (int64_t l = 0; l < d; ++l) score += q.At(row * d + l) * k.At((kv * t + j) * d + l);
        score /= std::sqrt(static_cast<double>(d));
        if (cap != 0) score = cap * std::tanh(score / cap);
        if (with_mask) score += mask.At((h * s + i) * t + j);
        p.push_back(causal && j > i ? 0 : std::exp(score));
        sum += p.back();
      }
      for (int64_t c = 0; c < e; ++c) {
        double value = 0;
        for (int64_t j = 0; j < t; ++j)
          value += p[static_cast<size_t>(j)] / sum * v.At((kv * t + j) * e + c);
        y.Set(row * e + c, value);
      }
      for (int64_t j = 0; j < t; ++j) weights.Set(row * t + j, p[static_cast<size_t>(j)] / sum);
    }
    EXPECT_LE(RelativeError(got.y(), y), 1e-6);
    EXPECT_LE(RelativeError(got.outputs[3], weights), 1e-6);
    EXPECT_EQ(got.cost.flops, b * heads * s * t * (2 * (d + e) + 5));
  }
}

TEST(Attention, DecodingWithACacheEqualsTheWholeSequence) {
  Random r(7);
  const Tensor q = RandomTensor(r, DType::kF32, {2, 4, 6, 8});
  const Tensor k = RandomTensor(r, DType::kF32, {2, 2, 6, 8});
  const Tensor v = RandomTensor(r, DType::kF32, {2, 2, 6, 8});
  const AttrMap attrs = {{"is_causal", int64_t{1}}};
  const Tensor whole = RunOp("Attention", attrs, {q, k, v}).y();
  const OpResult step = RunOp(
      "Attention", attrs,
      {Slice2(q, 4, 6), Slice2(k, 4, 6), Slice2(v, 4, 6), {}, Slice2(k, 0, 4), Slice2(v, 0, 4)}, 3);
  ASSERT_TRUE(step.status.ok()) << step.status.message();
  EXPECT_TRUE(BitEqual(step.y(), Slice2(whole, 4, 6)));
  EXPECT_TRUE(BitEqual(step.outputs[1], k));
  EXPECT_TRUE(BitEqual(step.outputs[2], v));
}

TEST(Attention, ForbiddenRowsAreZeroAndForbiddenKeysMayBeAnything) {
  Random r(7);
  const Tensor q = RandomTensor(r, DType::kF32, {1, 1, 2, 4});
  Tensor k = RandomTensor(r, DType::kF32, {1, 1, 3, 4});
  const Tensor v = RandomTensor(r, DType::kF32, {1, 1, 3, 4});
  const Tensor mask = Tensor::Of<bool>({2, 3}, {false, false, false, true, true, false});
  const Tensor clean = RunOp("Attention", {}, {q, k, v, mask}).y();
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(clean.At(i), 0);
    k.Set(8 + i, NAN);
  }
  EXPECT_TRUE(BitEqual(RunOp("Attention", {}, {q, k, v, mask}).y(), clean));
  // A mask shorter than the keys forbids the rest.
  const Tensor shorter = Tensor::Of<bool>({2, 2}, {false, false, true, true});
  EXPECT_TRUE(BitEqual(RunOp("Attention", {}, {q, k, v, shorter}).y(), clean));
}

TEST(Attention, WindowsBoundBothSides) {
  Random r(7);
  const Tensor q = RandomTensor(r, DType::kF32, {1, 1, 4, 2});
  const Tensor v = RandomTensor(r, DType::kF32, {1, 1, 6, 2});
  const Tensor weights = RunOp("Attention",
                               {{"left_window_size", int64_t{2}},
                                {"right_window_size", int64_t{1}},
                                {"qk_matmul_output_mode", int64_t{3}}},
                               {q, v, v}, 4)
                             .outputs[3];
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 6; ++j)
      EXPECT_EQ(weights.At(i * 6 + j) != 0, j >= i - 2 && j <= i + 1) << i << " " << j;
}

TEST(Attention, BadHeadsAreRefused) {
  auto zeros = [](Dims d) { return Tensor::Zeros(DType::kF32, std::move(d)); };
  const Tensor merged = zeros({1, 3, 8});
  using ::testing::HasSubstr;
  EXPECT_THAT(RunOp("Attention", {}, {merged, merged, merged}).status.message(),
              HasSubstr("q_num_heads"));
  EXPECT_FALSE(
      RunOp("Attention", {}, {zeros({1, 3, 2, 4}), zeros({1, 2, 2, 4}), zeros({1, 2, 2, 4})})
          .status.ok());
  EXPECT_FALSE(RunOp("Attention", {},
                     {zeros({1, 1, 2, 4}), zeros({1, 1, 2, 4}), zeros({1, 1, 2, 4}), zeros({3, 2})})
                   .status.ok());
}

TEST(RotaryEmbedding, RotatesPairs) {
  const float c = 0.6f, s = 0.8f;
  const Tensor x = Tensor::Of<float>({1, 1, 1, 4}, {1, 2, 3, 4});
  const Tensor cos = Tensor::Of<float>({1, 1, 2}, {c, 1}),
               sin = Tensor::Of<float>({1, 1, 2}, {s, 0});
  auto near = [](std::vector<float> v) {
    return ::testing::Pointwise(::testing::FloatEq(), std::move(v));
  };
  EXPECT_THAT(RunOp("RotaryEmbedding", {}, {x, cos, sin}).y().ToFloats(),
              near({c - 3 * s, 2, s + 3 * c, 4}));
  EXPECT_THAT(RunOp("RotaryEmbedding", {{"interleaved", int64_t{1}}}, {x, cos, sin}).y().ToFloats(),
              near({c - 2 * s, s + 2 * c, 3, 4}));
  const Tensor cos1 = Tensor::Of<float>({2, 1}, {1, c}), sin1 = Tensor::Of<float>({2, 1}, {0, s});
  const AttrMap partial = {{"rotary_embedding_dim", int64_t{2}}};
  EXPECT_THAT(RunOp("RotaryEmbedding", partial, {x, cos1, sin1, Tensor::Of<int64_t>({1, 1}, {1})})
                  .y()
                  .ToFloats(),
              near({c - 2 * s, s + 2 * c, 3, 4}));
  EXPECT_FALSE(RunOp("RotaryEmbedding", partial, {x, cos1, sin1, Tensor::Of<int64_t>({1, 1}, {2})})
                   .status.ok());
}

}  // namespace
}  // namespace infer
