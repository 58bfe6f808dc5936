/// Values and inference of element-wise operators against numbers worked out independently.
#include <cmath>
#include <limits>

#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Binary, BroadcastsOverEveryCombinationOfExtents) {
  // a[i,j,k] = 100 i + 10 j + k with some extents 1, against the defining triple loop.
  for (int mask = 0; mask < 64; ++mask) {
    const Dims full = {2, 3, 4};
    Dims da = full, db = full;
    for (size_t d = 0; d < 3; ++d) {
      if (mask >> d & 1) da[d] = 1;
      if (mask >> (d + 3) & 1) db[d] = 1;
    }
    Tensor a(DType::kF32, da), b(DType::kF32, db);
    for (int64_t i = 0; i < a.num_elements(); ++i) a.Set(i, static_cast<double>(i * i + 1));
    for (int64_t i = 0; i < b.num_elements(); ++i) b.Set(i, 1000.0 - static_cast<double>(i));
    const Tensor c = Call("Sub", {a, b});
    for (size_t d = 0; d < 3; ++d)
      ASSERT_EQ(c.dims()[d], std::max(da[d], db[d])) << "mask " << mask;
    int64_t at = 0;
    for (int64_t i = 0; i < c.dim(0); ++i)
      for (int64_t j = 0; j < c.dim(1); ++j)
        for (int64_t k = 0; k < c.dim(2); ++k, ++at) {
          auto pick = [&](const Tensor& t) {
            auto in = [&](size_t d, int64_t x) { return t.dims()[d] == 1 ? 0 : x; };
            return t.At((in(0, i) * t.dim(1) + in(1, j)) * t.dim(2) + in(2, k));
          };
          ASSERT_EQ(c.At(at), pick(a) - pick(b)) << "mask " << mask << " at " << at;
        }
  }
}

TEST(Binary, RanksDiffer) {
  EXPECT_TRUE(
      BitEqual(Call("Add", {F({2, 2}, {1, 2, 3, 4}), F({10, 20})}), F({2, 2}, {11, 22, 13, 24})));
  EXPECT_TRUE(BitEqual(Call("Mul", {F({}, {2}), F({3, 1}, {1, 2, 3})}), F({3, 1}, {2, 4, 6})));
  EXPECT_EQ(Call("Add", {Tensor(DType::kF32, {0, 3}), F({1, 2, 3})}).dims(), (Dims{0, 3}));
}

TEST(Binary, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(RunOp("Add", {}, {F({1, 2}), F({1, 2, 3})}).status.ok());
  EXPECT_FALSE(RunOp("Add", {}, {F({1, 2}), I({1, 2})}).status.ok());
  EXPECT_FALSE(RunOp("Add", {}, {F({1, 2})}).status.ok());
}

TEST(Binary, IntegersWrapAndDivideTowardZero) {
  auto i8 = [](std::initializer_list<int8_t> v) {
    return Tensor::Of<int8_t>({static_cast<int64_t>(v.size())}, v);
  };
  EXPECT_TRUE(BitEqual(Call("Add", {i8({127, -128}), i8({1, -1})}), i8({-128, 127})));
  EXPECT_TRUE(
      BitEqual(Call("Div", {i8({-7, 7, -128, 5}), i8({2, -2, -1, 0})}), i8({-3, -3, -128, 0})));
  EXPECT_TRUE(BitEqual(Call("Mul", {I({int64_t{1} << 62}), I({4})}), I({0})));
  const auto u16 = Tensor::Of<uint16_t>({1}, {65535});
  EXPECT_TRUE(BitEqual(Call("Mul", {u16, u16}), Tensor::Of<uint16_t>({1}, {1})));
}

TEST(Binary, ModFollowsDivisorOrDividend) {
  const Tensor a = I({-4, 7, 5, 4, -7, 8}), b = I({2, -3, 8, -2, 3, 5});
  EXPECT_TRUE(BitEqual(Call("Mod", {a, b}), I({0, -2, 5, 0, 2, 3})));
  EXPECT_TRUE(BitEqual(Call("Mod", {a, b}, {{"fmod", int64_t{1}}}), I({0, 1, 5, 0, -1, 3})));
  ExpectClose(Call("Mod", {F({-4.3f, 7.2f, 5.f}), F({2.1f, -3.4f, 8.f})}, {{"fmod", int64_t{1}}}),
              F({-0.1f, 0.4f, 5.f}), 1e-5, 1e-5);
}

TEST(Binary, PowKeepsTheBaseType) {
  EXPECT_TRUE(BitEqual(Call("Pow", {I({2, -3, 0, 1, -1}), I({10, 3, 0, -2, -3})}),
                       I({1024, -27, 1, 1, -1})));
  EXPECT_TRUE(BitEqual(Call("Pow", {I({2, 3}), F({2.5f, 2.f})}), I({5, 9})));
  // No integer is NaN, and none is as large.
  EXPECT_TRUE(BitEqual(Call("Pow", {I({-2, 10, 10, -10}), F({0.5f, 30.f, INFINITY, 31.f})}),
                       I({0, INT64_MAX, INT64_MAX, INT64_MIN})));
  ExpectClose(Call("Pow", {F({2, 9, -2}), F({0.5f, 0.5f, 3})}), F({1.41421356f, 3, -8}));
  EXPECT_TRUE(BitEqual(Call("Pow", {F({-3, 1.5f}), F({}, {2})}), F({9, 2.25f})));
}

TEST(Binary, HalfPrecisionRoundsOnce) {
  // 1 + 2^-11 is halfway between 1 and the next f16: ties to even.
  const Tensor a = F({1, 1, 65504}).Cast(DType::kF16);
  const Tensor b = F({0x1p-11f, 0x1.8p-11f, 16}).Cast(DType::kF16);
  const Tensor c = Call("Add", {a, b});
  EXPECT_EQ(c.dtype(), DType::kF16);
  EXPECT_EQ(c.At(0), 1.0);
  EXPECT_EQ(c.At(1), 1.0 + 0x1p-10);
  EXPECT_EQ(c.At(2), kInf);
  EXPECT_EQ(Call("Mul", {F({3}).Cast(DType::kBF16), F({5}).Cast(DType::kBF16)}).At(0), 15.0);
}

TEST(Binary, InfersSymbolicShapesAndElements) {
  const Dim n = Dim::Symbol("N");
  const ValueType a = TensorType{DType::kF32, Shape(std::vector<Dim>{n, 1, 3})};
  const ValueType b = TensorType{DType::kF32, Shape(Dims{4, 3})};
  EXPECT_EQ(ToString(InferOp("Add", {a, b}).types[0]), "f32[N,4,3]");
  const ValueType i64 = TensorType{DType::kI64, Shape(Dims{2})};
  using E = std::vector<Dim>;
  auto elements = [&](std::string_view op, E x, E y) {
    auto r = InferOp(op, {i64, i64}, {}, 1, {x, y});
    EXPECT_TRUE(r.status.ok()) << r.status.message();
    std::string out;
    if (r.elements)
      for (const Dim& d : *r.elements) out += (out.empty() ? "" : " ") + d.ToString();
    return out;
  };
  EXPECT_EQ(elements("Add", {n, 3}, {1, 4}), "N+1 7");
  EXPECT_EQ(elements("Mul", {n, 3}, {2, -4}), "2*N -12");
  EXPECT_EQ(elements("Div", {n * 4, -7}, {2, 2}), "2*N -3");
  EXPECT_EQ(elements("Sub", {n, n}, {n, 1}), "0 N-1");
  EXPECT_EQ(elements("Max", {n + 1, n}, {n, 5}), "N+1 ?");
  EXPECT_EQ(elements("Mod", {n * 4, 7}, {4, -4}), "0 -1");
  EXPECT_EQ(elements("Equal", {n, 3}, {-1, 3}), "0 1");
}

/// The last positions of T5's bias: x[:, :, -length:], which is all of it where nothing is cached.
TEST(Unary, NegInfersElements) {
  const Dim n = Dim::Symbol("N");
  const auto elements = [&](DType t, std::vector<Dim> x) {
    const ValueType type = TensorType{t, Shape(Dims{static_cast<int64_t>(x.size())})};
    const auto r = InferOp("Neg", {type}, {}, 1, {std::move(x)});
    EXPECT_TRUE(r.status.ok()) << r.status.message();
    return r.elements ? Shape(*r.elements).ToString() : "";
  };
  EXPECT_EQ(elements(DType::kI64, {n, n - 3, 2}), "[-N,-N+3,-2]");
  EXPECT_EQ(elements(DType::kI8, {-128, -127}), "[?,127]");
}

TEST(Unary, Values) {
  const Tensor x = F({-2, -0.5f, 0, 0.5f, 3});
  ExpectClose(Call("Exp", {x}), F({0.13533528f, 0.60653066f, 1, 1.64872127f, 20.0855369f}));
  ExpectClose(Call("Erf", {x}), F({-0.99532227f, -0.52049988f, 0, 0.52049988f, 0.99997791f}));
  ExpectClose(Call("Sqrt", {F({4, 2, -1})}), F({2, 1.41421356f, kNan}));
  ExpectClose(Call("Log", {F({1, 0, 2.7182818f})}), F({0, -kInf, 1}));
  EXPECT_TRUE(BitEqual(Call("Round", {F({-2.5f, -1.5f, 0.5f, 1.5f, 2.4f})}), F({-2, -2, 0, 2, 2})));
  EXPECT_TRUE(BitEqual(Call("Floor", {F({-1.5f, 1.5f})}), F({-2, 1})));
  EXPECT_TRUE(BitEqual(Call("Ceil", {F({-1.5f, 1.5f})}), F({-1, 2})));
  EXPECT_TRUE(BitEqual(Call("Sign", {x}), F({-1, -1, 0, 1, 1})));
  EXPECT_TRUE(BitEqual(Call("Relu", {F({-1, 2, kInf})}), F({0, 2, kInf})));
  EXPECT_TRUE(std::isnan(Call("Relu", {F({kNan})}).At(0)));
  EXPECT_TRUE(BitEqual(Call("Abs", {I({INT64_MIN, -3, 3})}), I({INT64_MIN, 3, 3})));
  EXPECT_TRUE(BitEqual(Call("Neg", {I({-3, 3})}), I({3, -3})));
  ExpectClose(Call("Tan", {F({1})}), F({1.55740772f}));
  ExpectClose(Call("Atanh", {F({0.5f})}), F({0.54930614f}));
  ExpectClose(Call("Reciprocal", {F({4, -0.5f, 0})}), F({0.25f, -2, kInf}));
}

TEST(Unary, F64IsNotRoundedThroughF32) {
  const Tensor x = Tensor::Of<double>({1}, {1e-10});
  EXPECT_DOUBLE_EQ(Call("Exp", {x}).At(0), std::exp(1e-10));
}

TEST(Activation, Values) {
  const Tensor x = F({-2, -0.5f, 0, 1, 4});
  ExpectClose(Call("Sigmoid", {x}), F({0.11920292f, 0.37754067f, 0.5f, 0.73105858f, 0.98201379f}));
  ExpectClose(Call("Sigmoid", {F({-1000, 1000})}), F({0, 1}));
  ExpectClose(Call("LeakyRelu", {x}, {{"alpha", 0.1f}}), F({-0.2f, -0.05f, 0, 1, 4}));
  ExpectClose(Call("Elu", {x}, {{"alpha", 2.f}}), F({-1.72932943f, -0.78693868f, 0, 1, 4}));
  ExpectClose(Call("Selu", {F({-1, 1})}), F({-1.11133073f, 1.05070102f}));
  ExpectClose(Call("Celu", {F({-1, 1})}, {{"alpha", 2.f}}), F({-0.78693868f, 1}));
  ExpectClose(Call("ThresholdedRelu", {F({0.5f, 1, 1.5f})}), F({0, 0, 1.5f}));
  ExpectClose(Call("HardSigmoid", {F({-3, 0, 1, 3})}), F({0, 0.5f, 0.7f, 1}));
  ExpectClose(Call("HardSwish", {F({-4, -1, 0, 1, 4})}), F({0, -0.33333334f, 0, 0.6666667f, 4}));
  ExpectClose(Call("Softplus", {F({-100, 0, 1, 100})}), F({0, 0.69314718f, 1.31326169f, 100}));
  ExpectClose(Call("Softsign", {F({-1, 3})}), F({-0.5f, 0.75f}));
  ExpectClose(Call("Mish", {F({-1, 1})}), F({-0.30340146f, 0.86509839f}));
  ExpectClose(Call("Gelu", {F({-1, 1})}), F({-0.15865525f, 0.84134475f}));
  ExpectClose(Call("Gelu", {F({-1, 1})}, {{"approximate", std::string("tanh")}}),
              F({-0.15880801f, 0.84119199f}));
  CheckTypes(
      {{R"(graph g(x: f32[2]) -> (y) { y = Gelu(x) {approximate="x"} })", "'none' or 'tanh'"},
       {R"(graph g(x: u8[2]) -> (y) { y = BitShift(x, x) {direction="UP"} })", "LEFT or RIGHT"}});
  ExpectClose(Call("Swish", {F({-1, 2})}, {{"alpha", 1.f}}), F({-0.26894142f, 1.76159416f}));
  ExpectClose(Call("com.microsoft::QuickGelu", {F({1})}), F({0.84579580f}));
  ExpectClose(Call("com.microsoft::BiasGelu", {F({1, 2}, {0, 1}), F({1, -2})}),
              F({1, 2}, {0.84134475f, -0.15865525f}));
  ExpectClose(Call("com.microsoft::FastGelu", {F({1})}), F({0.84119199f}));
  ExpectClose(Call("Shrink", {F({-2, -0.4f, 0.4f, 2})}, {{"bias", 1.5f}}), F({-0.5f, 0, 0, 0.5f}));
  const Tensor whole = Tensor::Of<int8_t>({3}, {-3, 0, 3});
  EXPECT_TRUE(BitEqual(Call("Shrink", {whole}, {{"bias", std::numeric_limits<float>::infinity()}}),
                       Tensor::Of<int8_t>({3}, {127, 0, -128})));
  ExpectClose(Call("PRelu", {F({2, 2}, {-1, -1, 2, -2}), F({0.5f, 2})}),
              F({2, 2}, {-0.5f, -2, 2, -4}));
}

TEST(Activation, ClipTakesEitherBound) {
  const Tensor x = F({-2, 0, 3, kNan}), none;
  ExpectClose(Call("Clip", {x, F({}, {-1}), F({}, {1})}), F({-1, 0, 1, kNan}));
  ExpectClose(Call("Clip", {x, none, F({}, {1})}), F({-2, 0, 1, kNan}));
  ExpectClose(Call("Clip", {x}), x);
  ExpectClose(Call("Clip", {F({0}), F({}, {2}), F({}, {1})}), F({1}));
  EXPECT_TRUE(BitEqual(Call("Clip", {I({-5, 9}), Tensor::Scalar<int64_t>(0)}), I({0, 9})));
  EXPECT_FALSE(RunOp("Clip", {}, {x, F({1, 2})}).status.ok());
}

TEST(Activation, DropoutIsIdentityInInference) {
  const Tensor x = F({1, 2});
  OpResult out = RunOp("Dropout", {}, {x}, 2);
  ASSERT_TRUE(out.status.ok());
  EXPECT_TRUE(BitEqual(out.outputs[0], x));
  EXPECT_TRUE(BitEqual(out.outputs[1], Tensor::Of<bool>({2}, {true, true})));
  EXPECT_EQ(RunOp("Dropout", {}, {x, F({}, {0.5f}), Tensor::Scalar(true)}).status.code(),
            Code::kUnsupported);
}

TEST(Compare, Values) {
  auto bools = [](std::initializer_list<bool> v) {
    return Tensor::Of<bool>({static_cast<int64_t>(v.size())}, v);
  };
  const Tensor a = F({1, 2, kNan}), b = F({2, 2, kNan});
  EXPECT_TRUE(BitEqual(Call("Less", {a, b}), bools({true, false, false})));
  EXPECT_TRUE(BitEqual(Call("LessOrEqual", {a, b}), bools({true, true, false})));
  EXPECT_TRUE(BitEqual(Call("Greater", {a, b}), bools({false, false, false})));
  EXPECT_TRUE(BitEqual(Call("GreaterOrEqual", {a, b}), bools({false, true, false})));
  EXPECT_TRUE(BitEqual(Call("Equal", {a, b}), bools({false, true, false})));
  EXPECT_TRUE(
      BitEqual(Call("Equal", {Tensor::OfStrings({2}, {"a", "b"}), Tensor::OfStrings({}, {"b"})}),
               bools({false, true})));
  const Tensor i = F({-kInf, kInf, kNan, 0});
  EXPECT_TRUE(BitEqual(Call("IsInf", {i}), bools({true, true, false, false})));
  EXPECT_TRUE(BitEqual(Call("IsInf", {i}, {{"detect_negative", int64_t{0}}}),
                       bools({false, true, false, false})));
  EXPECT_TRUE(BitEqual(Call("IsNaN", {i}), bools({false, false, true, false})));
  EXPECT_TRUE(
      BitEqual(Call("And", {bools({true, true}), bools({true, false})}), bools({true, false})));
  EXPECT_TRUE(
      BitEqual(Call("Or", {bools({false, true}), bools({false, false})}), bools({false, true})));
  EXPECT_TRUE(
      BitEqual(Call("Xor", {bools({true, true}), bools({true, false})}), bools({false, true})));
  EXPECT_TRUE(BitEqual(Call("Not", {bools({true, false})}), bools({false, true})));
}

TEST(Compare, WhereTakesEveryType) {
  const Tensor c = Tensor::Of<bool>({2, 1}, {true, false});
  EXPECT_TRUE(BitEqual(Call("Where", {c, F({1, 2}), F({}, {9})}), F({2, 2}, {1, 2, 9, 9})));
  EXPECT_TRUE(
      BitEqual(Call("Where", {c, Tensor::OfStrings({}, {"x"}), Tensor::OfStrings({2}, {"y", "z"})}),
               Tensor::OfStrings({2, 2}, {"x", "x", "y", "z"})));
  const Tensor u8 = Tensor::Of<uint8_t>({2}, {1, 2});
  EXPECT_EQ(Call("Where", {c, u8, u8}).dims(), (Dims{2, 2}));
}

TEST(Logical, Bits) {
  auto u8 = [](std::initializer_list<uint8_t> v) {
    return Tensor::Of<uint8_t>({static_cast<int64_t>(v.size())}, v);
  };
  EXPECT_TRUE(BitEqual(
      Call("BitShift", {u8({16, 4, 1}), u8({1, 9, 7})}, {{"direction", std::string("LEFT")}}),
      u8({32, 0, 128})));
  EXPECT_TRUE(BitEqual(
      Call("BitShift", {u8({16, 4, 1}), u8({1, 2, 8})}, {{"direction", std::string("RIGHT")}}),
      u8({8, 1, 0})));
  EXPECT_TRUE(BitEqual(Call("BitwiseAnd", {u8({12}), u8({10})}), u8({8})));
  EXPECT_TRUE(BitEqual(Call("BitwiseOr", {u8({12}), u8({10})}), u8({14})));
  EXPECT_TRUE(BitEqual(Call("BitwiseXor", {u8({12}), u8({10})}), u8({6})));
  EXPECT_TRUE(BitEqual(Call("BitwiseNot", {u8({1})}), u8({254})));
}

TEST(Variadic, Values) {
  const Tensor a = F({2, 2}, {1, 5, 3, kNan}), b = F({4, 4}), c = F({}, {2});
  ExpectClose(Call("Max", {a, b, c}), F({2, 2}, {4, 5, 4, kNan}));
  ExpectClose(Call("Min", {a, b, c}), F({2, 2}, {1, 2, 2, kNan}));
  ExpectClose(Call("Sum", {a, b, c}), F({2, 2}, {7, 11, 9, kNan}));
  ExpectClose(Call("Mean", {a, b, c}), F({2, 2}, {7 / 3.f, 11 / 3.f, 3, kNan}));
  ExpectClose(Call("Max", {a}), a);
}

TEST(BatchNormalization, OfNoElements) {
  const Tensor two = F({1, 1}), x(DType::kF32, {1, 2, 0});
  EXPECT_EQ(Call("BatchNormalization", {x, two, two, two, two}).dims(), x.dims());
}

}  // namespace
}  // namespace infer
