/// Cast, CastLike, QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear against numbers
/// worked out from the specification.
#include <cmath>
#include <limits>

#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

AttrMap To(DType t) { return {{"to", static_cast<int64_t>(t)}}; }
Tensor Codes(DType t, std::initializer_list<uint8_t> codes) {
  Tensor out(t, {static_cast<int64_t>(codes.size())});
  int64_t i = 0;
  for (uint8_t c : codes) out.mutable_raw()[i++] = static_cast<std::byte>(c);
  return out;
}

TEST(Cast, BetweenNumbers) {
  EXPECT_TRUE(BitEqual(Call("Cast", {F({1.9f, -1.9f, 0})}, To(DType::kI64)), I({1, -1, 0})));
  EXPECT_TRUE(BitEqual(Call("Cast", {F({0.5f, 0, -0.f})}, To(DType::kBool)),
                       Tensor::Of<bool>({3}, {true, false, false})));
  EXPECT_TRUE(BitEqual(Call("Cast", {I({200, -1, 256})}, To(DType::kI8)),
                       Tensor::Of<int8_t>({3}, {-56, -1, 0})));
  EXPECT_TRUE(BitEqual(Call("Cast", {I({3, -1})}, To(DType::kF32)), F({3, -1})));
  EXPECT_TRUE(BitEqual(Call("Cast", {F({1e6f})}, To(DType::kF16)), F({kInf}).Cast(DType::kF16)));
  // 17 = 0x11 keeps its low four bits.
  EXPECT_EQ(Call("Cast", {I({17, 9, -1})}, To(DType::kI4)).ToInts(),
            (std::vector<int64_t>{1, -7, -1}));
  EXPECT_EQ(Call("Cast", {I({17, 9, -1})}, To(DType::kU4)).ToInts(),
            (std::vector<int64_t>{1, 9, 15}));
  EXPECT_FALSE(RunOp("Cast", {{"to", int64_t{99}}}, {F({1})}).status.ok());
  EXPECT_FALSE(RunOp("Cast", To(DType::kC64), {F({1})}).status.ok());
}

TEST(Cast, Strings) {
  const Tensor s = Tensor::OfStrings({6}, {"3.5", "1e-3", "+INF", "-inf", "NaN", "-7"});
  ExpectClose(Call("Cast", {s}, To(DType::kF32)), F({3.5f, 1e-3f, kInf, -kInf, std::nanf(""), -7}));
  EXPECT_TRUE(
      BitEqual(Call("Cast", {Tensor::OfStrings({1}, {"9223372036854775807"})}, To(DType::kI64)),
               I({INT64_MAX})));
  EXPECT_TRUE(BitEqual(Call("Cast", {I({-12, 3})}, To(DType::kString)),
                       Tensor::OfStrings({2}, {"-12", "3"})));
  EXPECT_EQ(RunOp("Cast", To(DType::kF32), {Tensor::OfStrings({1}, {"Hello"})}).status.code(),
            Code::kInvalidModel);
}

TEST(Cast, Float8SaturatesOnlyWhenAsked) {
  const Tensor x = F({1, 500, -kInf, 0.0625f});
  AttrMap attrs = To(DType::kF8E4M3FN);
  EXPECT_TRUE(
      BitEqual(Call("Cast", {x}, attrs), Codes(DType::kF8E4M3FN, {0x38, 0x7e, 0xfe, 0x18})));
  attrs["saturate"] = int64_t{0};
  EXPECT_TRUE(
      BitEqual(Call("Cast", {x}, attrs), Codes(DType::kF8E4M3FN, {0x38, 0x7f, 0xff, 0x18})));
  attrs = To(DType::kF8E5M2);
  attrs["saturate"] = int64_t{0};
  EXPECT_TRUE(
      BitEqual(Call("Cast", {F({1e6f, -1e6f})}, attrs), Codes(DType::kF8E5M2, {0x7c, 0xfc})));
  EXPECT_TRUE(BitEqual(Call("Cast", {Codes(DType::kF8E4M3FN, {0x38, 0x7e})}, To(DType::kF32)),
                       F({1, 448})));
}

TEST(Cast, ScaleTypeRoundsAsAsked) {
  const Tensor x = F({1, 1.25f, 1.5f, 3, kInf});
  auto codes = [&](const char* mode) {
    AttrMap attrs = To(DType::kF8E8M0);
    attrs["round_mode"] = std::string(mode);
    return Call("Cast", {x}, attrs);
  };
  EXPECT_TRUE(BitEqual(codes("up"), Codes(DType::kF8E8M0, {127, 128, 128, 129, 254})));
  EXPECT_TRUE(BitEqual(codes("down"), Codes(DType::kF8E8M0, {127, 127, 127, 128, 254})));
  EXPECT_TRUE(BitEqual(codes("nearest"), Codes(DType::kF8E8M0, {127, 127, 128, 129, 254})));
}

TEST(Cast, LikeTakesTheTypeOfTheOther) {
  EXPECT_TRUE(BitEqual(Call("CastLike", {F({1.5f}), I({0, 0})}), I({1})));
}

TEST(Quantize, PerTensorRoundsHalvesToEvenAndSaturates) {
  const Tensor x = F({0, 1, 3, 1000, -254, -1000, 5});
  const Tensor zero = Tensor::Scalar<uint8_t>(128);
  EXPECT_TRUE(BitEqual(Call("QuantizeLinear", {x, F({}, {2}), zero}),
                       Tensor::Of<uint8_t>({7}, {128, 128, 130, 255, 1, 0, 130})));
  const Tensor q = Tensor::Of<uint8_t>({4}, {0, 3, 128, 255});
  EXPECT_TRUE(BitEqual(Call("DequantizeLinear", {q, F({}, {2}), zero}), F({-256, -250, 0, 254})));
}

TEST(Quantize, PerAxisAndBlocks) {
  const Tensor x = F({2, 3}, {2, 4, 6, 20, 40, 60});
  EXPECT_TRUE(BitEqual(Call("QuantizeLinear", {x, F({1, 10})}, {{"axis", int64_t{0}}}),
                       Tensor::Of<uint8_t>({2, 3}, {2, 4, 6, 2, 4, 6})));
  EXPECT_TRUE(BitEqual(Call("QuantizeLinear", {x, F({1, 2, 3}), Tensor::Of<int8_t>({3}, {0, 1, 2})},
                            {{"axis", int64_t{-1}}}),
                       Tensor::Of<int8_t>({2, 3}, {2, 3, 4, 20, 21, 22})));
  // Blocks of 2 along axis 1 of 3: the last block is short.
  const AttrMap blocks = {{"axis", int64_t{1}}, {"block_size", int64_t{2}}};
  const Tensor scale = F({2, 2}, {1, 2, 10, 20});
  const Tensor q = Call("QuantizeLinear", {x, scale}, blocks);
  EXPECT_TRUE(BitEqual(q, Tensor::Of<uint8_t>({2, 3}, {2, 4, 3, 2, 4, 3})));
  EXPECT_TRUE(BitEqual(Call("DequantizeLinear", {q, scale}, blocks), x));
  // Blocks along axis 0: the scale varies over axis 1 too.
  const AttrMap rows = {{"axis", int64_t{0}}, {"block_size", int64_t{2}}};
  EXPECT_TRUE(BitEqual(Call("DequantizeLinear", {q, F({1, 3}, {1, 10, 100})}, rows),
                       F({2, 3}, {2, 40, 300, 2, 40, 300})));
  EXPECT_FALSE(RunOp("QuantizeLinear", {{"axis", int64_t{1}}}, {x, F({1, 2})}).status.ok());
  EXPECT_FALSE(RunOp("QuantizeLinear", blocks, {x, F({2, 3}, {1, 1, 1, 1, 1, 1})}).status.ok());
}

TEST(Quantize, OtherTypes) {
  const Tensor x = F({-9, -1, 3, 100});
  AttrMap i4 = {{"output_dtype", static_cast<int64_t>(DType::kI4)}};
  const Tensor q = Call("QuantizeLinear", {x, F({}, {1})}, i4);
  EXPECT_EQ(Name(q.dtype()), "i4");
  EXPECT_EQ(q.ToInts(), (std::vector<int64_t>{-8, -1, 3, 7}));
  EXPECT_TRUE(BitEqual(Call("DequantizeLinear", {q, F({}, {0.5f})}), F({-4, -0.5f, 1.5f, 3.5f})));
  EXPECT_TRUE(BitEqual(Call("QuantizeLinear", {x, F({}, {1}), Tensor::Scalar<int16_t>(-5)}),
                       Tensor::Of<int16_t>({4}, {-14, -6, -2, 95})));
  const AttrMap f8 = {{"output_dtype", static_cast<int64_t>(DType::kF8E4M3FN)}};
  EXPECT_TRUE(BitEqual(Call("QuantizeLinear", {F({1, 1000}), F({}, {1})}, f8),
                       Codes(DType::kF8E4M3FN, {0x38, 0x7e})));
  // i32 above 2^24 minus its zero point is exact before the product.
  EXPECT_TRUE(BitEqual(Call("DequantizeLinear", {Tensor::Of<int32_t>({1}, {33554433}), F({}, {1}),
                                                 Tensor::Scalar<int32_t>(33554432)}),
                       F({1})));
  const Tensor half =
      Call("DequantizeLinear", {Tensor::Of<int8_t>({1}, {3}), F({}, {0.5f}).Cast(DType::kF16)});
  EXPECT_EQ(Name(half.dtype()), "f16");
  EXPECT_EQ(half.At(0), 1.5);
}

/// 256 + t is t where a number is narrowed to eight bits.
TEST(Quantize, NumbersThatNameNoTypeAreRefused) {
  const Tensor x = Tensor::Of<float>({2}, {1, 2}), q = Tensor::Of<uint8_t>({2}, {1, 2}),
               scale = Tensor::Scalar<float>(1);
  for (const int64_t t : {int64_t{256 + 2}, int64_t{27}, int64_t{-254}, (int64_t{1} << 32) + 3})
    EXPECT_EQ(RunOp("QuantizeLinear", {{"output_dtype", t}}, {x, scale}).status.code(),
              Code::kInvalidModel)
        << t;
  for (const int64_t t : {int64_t{256 + 1}, int64_t{-255}, (int64_t{1} << 40) + 1})
    EXPECT_EQ(RunOp("DequantizeLinear", {{"output_dtype", t}}, {q, scale}).status.code(),
              Code::kInvalidModel)
        << t;
}

TEST(Quantize, DynamicCoversZero) {
  OpResult out = RunOp("DynamicQuantizeLinear", {}, {F({0, 2, -3, -2.5f, 1.34f, 0.5f})}, 3);
  ASSERT_TRUE(out.status.ok());
  EXPECT_TRUE(BitEqual(out.outputs[0], Tensor::Of<uint8_t>({6}, {153, 255, 0, 26, 221, 179})));
  EXPECT_NEAR(out.outputs[1].At(0), 5.0 / 255, 1e-8);
  EXPECT_EQ(out.outputs[2].At(0), 153);
  out = RunOp("DynamicQuantizeLinear", {}, {F({0, 0})}, 3);
  ASSERT_TRUE(out.status.ok());
  EXPECT_TRUE(BitEqual(out.outputs[0], Tensor::Of<uint8_t>({2}, {0, 0})));
  // An infinite range has no zero point: 0, and no number has a code.
  const float inf = std::numeric_limits<float>::infinity();
  out = RunOp("DynamicQuantizeLinear", {}, {F({inf, -inf, 1})}, 3);
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_EQ(out.outputs[1].At(0), inf);
  EXPECT_EQ(out.outputs[2].IntAt(0), 0);
}

}  // namespace
}  // namespace infer
