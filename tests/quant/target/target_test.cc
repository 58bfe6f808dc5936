#include <gmock/gmock.h>

#include "lib/support/strings.h"
#include "tests/quant/target/checked.h"

namespace infer {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

using target_test::Check;
using target_test::Only;

/// The beginning of a graph: activations u8 of extents `x` and weights i8 [2, 2], both dequantized.
std::string Codes(std::string_view x, std::string_view zero_point) {
  return Cat("graph g(x: u8[", x, R"(]) -> (y) {
    s = const f32[] {0.1}
    z = const u8[] {3}
    w = const i8[2, 2] {1, 2, 3, 4}
    ws = const f32[2] {0.1, 0.2}
    wz = const i8[2] {0, 0}
    xd = DequantizeLinear(x, s, z)
    wd = DequantizeLinear(w, ws)",
             zero_point, ") {axis=1}\n    ");
}
/// A Gemm of codes: `zero_point`, `bias` and `attrs` as graph text.
std::string Gemm(std::string_view zero_point, std::string_view bias, std::string_view attrs) {
  return Cat(Codes("2, 2", zero_point), bias, "\n    y = Gemm(xd, wd, b)", attrs, "\n}");
}
constexpr std::string_view kBias32 = R"(c = const i32[2] {1, 2}
    cs = const f32[2] {0.01, 0.02}
    b = DequantizeLinear(c, cs) {axis=0})";
constexpr std::string_view kBiasF32 = "b = const f32[2] {1, 2}";

TEST(Target, OrtAloneIsTheNewest) {
  EXPECT_EQ(FindTarget("ort"), FindTarget("ort-1.30"));
  EXPECT_EQ(FindTarget("ort-1.19"), nullptr);
}

TEST(Target, NewerOpsetsAndIrVersionsAreRefused) {
  constexpr char kRelu[] = "graph g(x: f32[2]) -> (y) { y = Relu(x) }";
  EXPECT_THAT(Check(kRelu, "ort-1.22", 22, 10).findings, IsEmpty());
  const TargetFinding opset = Only(Check(kRelu, "ort-1.22", 23, 10));
  EXPECT_EQ(opset.severity, Severity::kError);
  EXPECT_THAT(opset.what, HasSubstr("opset 23"));
  EXPECT_THAT(opset.remedy, HasSubstr("--opset 22"));
  EXPECT_THAT(Only(Check(kRelu, "ort-1.22", 22, 11)).what, HasSubstr("IR version 11"));
}

TEST(Target, GemmOfCodesIsQGemm) {
  for (const char* t : {"ort-1.20", "ort-1.24", "ort-1.30"}) {
    const TargetReport r = Check(Gemm(", wz", kBias32, ""), t);
    EXPECT_THAT(r.findings, IsEmpty()) << t;
    EXPECT_THAT(r.kernels, UnorderedElementsAre(Pair("QGemm", 1))) << t;
  }
}

TEST(Target, WhatVersionsFuseDiffers) {
  const std::string no_zero_point = Gemm("", kBias32, ""), float_bias = Gemm(", wz", kBiasF32, "");
  EXPECT_THAT(Check(no_zero_point, "ort-1.24").findings, IsEmpty());
  EXPECT_THAT(Only(Check(no_zero_point, "ort-1.30")).what, HasSubstr("zero point"));
  EXPECT_THAT(Only(Check(float_bias, "ort-1.20")).what, HasSubstr("bias"));
  EXPECT_THAT(Check(float_bias, "ort-1.21", 13).findings, IsEmpty());
  EXPECT_THAT(Only(Check(float_bias, "ort-1.21", 21)).severity, Severity::kSlow);
  // Newer ones give codes to a bias only where the result has some.
  EXPECT_THAT(Only(Check(float_bias, "ort-1.22", 13)).severity, Severity::kSlow);
  EXPECT_THAT(Only(Check(float_bias, "ort-1.30", 13)).severity, Severity::kSlow);
  std::string rounded = float_bias;
  rounded.replace(rounded.find("y = Gemm"), 1, "r");
  rounded.insert(rounded.rfind('}'),
                 "q = QuantizeLinear(r, s, z)\ny = DequantizeLinear(q, s, z)\n");
  EXPECT_THAT(Check(rounded, "ort-1.22", 13).findings, IsEmpty());
  EXPECT_THAT(Only(Check(rounded, "ort-1.22", 21)).severity, Severity::kSlow);
  EXPECT_THAT(Check(rounded, "ort-1.24", 21).findings, IsEmpty());
  EXPECT_THAT(Only(Check(Gemm(", wz", kBias32, " {beta=0.5}"), "ort-1.30")).what,
              HasSubstr("beta"));
}

/// A MatMul of codes whose result is f32, and the Add of a bias behind it.
TEST(Target, OrtMakesAGemmOfMatMulAndAddFirst) {
  const auto product = [](std::string_view x, std::string_view bias) {
    return Cat(Codes(x, ", wz"), bias, "\n m = MatMul(xd, wd)\n y = Add(m, b)\n}");
  };
  const auto kernels = [](const std::string& g, std::string_view t) { return Check(g, t).kernels; };
  const auto floats = UnorderedElementsAre(Pair("MatMulIntegerToFloat", 1)),
             gemm = UnorderedElementsAre(Pair("QGemm", 1));
  EXPECT_THAT(kernels(product("3,2,2", kBias32), "ort-1.30"), gemm);
  EXPECT_THAT(kernels(product("3,2,2", kBias32), "ort-1.22"), gemm);
  EXPECT_THAT(kernels(product("3,2,2", kBias32), "ort-1.20"), floats);
  EXPECT_THAT(kernels(product("N,2", kBias32), "ort-1.20"), gemm);
  EXPECT_THAT(kernels(product("N,2,2", kBias32), "ort-1.30"), floats);
  EXPECT_THAT(kernels(product("N,2,2", kBiasF32), "ort-1.30"), floats);
  EXPECT_THAT(kernels(product("3,2,2", kBiasF32), "ort-1.20"), floats);
  EXPECT_THAT(kernels(product("3,2,2", kBiasF32), "ort-1.21"), gemm);
  std::string rounded = product("3,2,2", kBias32);
  rounded.replace(rounded.find("y = Add(m, b)"), 13, "a = Add(b, m)");
  rounded.insert(rounded.rfind('}'),
                 "q = QuantizeLinear(a, s, z)\ny = DequantizeLinear(q, s, z)\n");
  EXPECT_THAT(kernels(rounded, "ort-1.30"), gemm);
  EXPECT_THAT(Check(rounded, "ort-1.30").findings, IsEmpty());
  for (const char* x : {"3,2,2", "N,2"}) {
    const TargetReport r = Check(product(x, kBiasF32), "ort-1.30");
    EXPECT_THAT(Only(r).what, HasSubstr("its bias is not quantized")) << x;
    EXPECT_THAT(r.kernels, IsEmpty()) << x;
  }
}

/// Its kernels for AMX lack s8 with zero points on both sides; others have it.
TEST(Target, OpenVinoRefusesSignedConvolutionsOnSomeProcessors) {
  constexpr char kConv[] = R"(graph g(x: f32[1, 1, 4, 4]) -> (y) {
    s = const f32[] {0.1}
    z = const i8[] {IN}
    o = const i8[] {OUT}
    w = const i8[1, 1, 3, 3] {1, 1, 1, 1, 1, 1, 1, 1, 1}
    wz = const i8[] {0}
    wd = DequantizeLinear(w, s, wz)
    xq = QuantizeLinear(x, s, z)
    xd = DequantizeLinear(xq, s, z)
    c = Conv(xd, wd)
    r = Relu(c)
    rq = QuantizeLinear(r, s, o)
    y = DequantizeLinear(rq, s, o)
  })";
  const auto conv = [&](const char* in, const char* out) {
    std::string text = kConv;
    text.replace(text.find("IN"), 2, in);
    text.replace(text.find("OUT"), 3, out);
    return Check(text, "openvino");
  };
  const TargetFinding both = Only(conv("3", "-5"));
  EXPECT_EQ(both.severity, Severity::kError);
  EXPECT_EQ(both.processors, "amx_int8");
  EXPECT_THAT(both.remedy, HasSubstr("--activations u8"));
  EXPECT_THAT(conv("0", "-5").findings, IsEmpty());
  EXPECT_THAT(conv("3", "0").findings, IsEmpty());
}

/// s8 activations that two read keep their type there, others become u8.
TEST(Target, SignedActivationsWithTwoReadersAreNotFused) {
  constexpr char kPair[] = R"(graph g(x: f32[1, 1, 4, 4]) -> (y) {
    s = const f32[] {0.1}
    z = const i8[] {3}
    w = const i8[1, 1, 1, 1] {1}
    wz = const i8[] {0}
    wd = DequantizeLinear(w, s, wz)
    xq = QuantizeLinear(x, s, z)
    xd = DequantizeLinear(xq, s, z)
    c = Conv(xd, wd)
    cq = QuantizeLinear(c, s, z)
    cd = DequantizeLinear(cq, s, z)
    d = Conv(cd, wd)
    dq = QuantizeLinear(d, s, z)
    dd = DequantizeLinear(dq, s, z)
    y = SECOND
  })";
  std::string one = kPair, two = kPair;
  one.replace(one.find("SECOND"), 6, "Relu(dd)");
  two.replace(two.find("SECOND"), 6, "Add(dd, cd)");
  EXPECT_THAT(Check(one, "ort").findings, IsEmpty());
  EXPECT_THAT(Check(one, "ort").kernels, UnorderedElementsAre(Pair("QLinearConv", 2)));
  const TargetReport r = Check(two, "ort");
  ASSERT_EQ(r.findings.size(), 2u);  // into and out of the value that two read
  EXPECT_THAT(r.findings[0].what, HasSubstr("other types"));
  EXPECT_EQ(r.errors(), 0);
}

TEST(Target, FewBitsAndSignedConvIntegerNeedNewVersions) {
  constexpr char kNBits[] = R"(graph g(x: f32[1, 64]) -> (y) {
    w = const u8[4, 1, 16] ~1
    s = const f32[4, 1] ~1
    y = com.microsoft::MatMulNBits(x, w, s) {K=64, N=4, bits=2, block_size=64}
  })";
  EXPECT_THAT(Only(Check(kNBits, "ort-1.23")).what, HasSubstr("ort-1.24"));
  EXPECT_THAT(Check(kNBits, "ort-1.24").kernels, UnorderedElementsAre(Pair("MatMulNBits", 1)));
  EXPECT_EQ(Check(kNBits, "openvino").errors(), 1);
}

TEST(Target, OpenVinoRefusesChannelScalesOfQLinearConv) {
  constexpr char kConv[] = R"(graph g(x: u8[1, 2, 4, 4]) -> (y) {
    s = const f32[] {0.1}
    z = const u8[] {3}
    w = const i8[3, 2, 1, 1] ~1
    ws = const f32[3] {0.1, 0.2, 0.3}
    wz = const i8[3] {0, 0, 0}
    y = QLinearConv(x, s, z, w, ws, wz, s, z)
  })";
  EXPECT_THAT(Only(Check(kConv, "openvino")).what, HasSubstr("axis"));
  EXPECT_THAT(Check(kConv, "ort-1.20").findings, IsEmpty());
}

TEST(Target, OursIsAskedAndSaysWhatRunsOnReferenceKernels) {
  constexpr char kInteger[] = R"(graph g(x: u8[2, 2], w: u8[2, 2]) -> (y) {
    y = MatMulInteger(x, w)
  })";
  const TargetReport r = Check(kInteger, "infer");
  EXPECT_EQ(r.errors(), 0);
  EXPECT_THAT(Only(r).severity, Severity::kSlow);
  EXPECT_THAT(Only(r).what, HasSubstr("reference"));
}

TEST(Target, Bf16IsRefusedByOnnxRuntime) {
  constexpr char kRelu[] = "graph g(x: bf16[2]) -> (y) { y = Relu(x) }";
  EXPECT_EQ(Check(kRelu, "ort", 22).errors(), 1);
  EXPECT_EQ(Check(kRelu, "openvino", 22).errors(), 0);
}

/// Each was tried in ONNX Runtime 1.30: the first two cannot run, the third ends the process.
TEST(Target, SomeHalvesAreRefusedByOnnxRuntime) {
  const auto errors = [](std::string_view body) {
    return Check(Cat("graph g(x: f16[3,2,8], d: f16[4,8], i: i64[2,1], u: f16[2,8], e: i64[4,8]) "
                     "-> (y) {",
                     "w = const f16[8,5] ~1 ", body, " }"),
                 "ort", 18)
        .errors();
  };
  EXPECT_EQ(errors("y = ScatterND(d, i, u) {reduction=\"add\"}"), 1);
  EXPECT_EQ(errors("y = ScatterElements(d, e, d) {reduction=\"max\"}"), 1);
  EXPECT_EQ(errors("t = Transpose(x) {perm=[1,0,2]} y = MatMul(t, w)"), 1);
  EXPECT_EQ(errors("y = ScatterND(d, i, u)"), 0);
  EXPECT_EQ(errors("t = Transpose(x) {perm=[1,0,2]} y = Relu(t)"), 0);
}

TEST(Target, OrtMakesZeroOfQueriesWithoutAKey) {
  constexpr std::string_view kMasked = R"(graph g(q: f32[1,2,3,4], k: f32[1,2,5,4],
      v: f32[1,2,5,4], keep: f32[1,1,3,5], c: bool[1,1,3,5], t: bool[]) -> (y) {
    one = const f32[] {1}
    low = const f32[] {-3.4028234663852886e38}
    some = const f32[] {-10000}
    less = const f32[] {0.99999994}
    hide = Sub(one, keep)
    zero = const f32[] {0}
    last = const i64[1] {-1}
    %  y = Attention(q, k, v, m) })";
  const auto with = [&](std::string_view mask) {
    std::string text(kMasked);
    return text.replace(text.find('%'), 1, mask);
  };
  for (const std::string_view mask :
       {"m = Mul(hide, low)", "m = Where(c, zero, low)", "m = Identity(keep)",
        "a = Mul(low, hide)  m = Add(a, keep)", "a = Mul(low, hide)  m = ReduceMax(a, last)",
        "a = Mul(low, hide)  m = ReduceMin(a, last)",
        R"(m = If(t) [zero, low, c] {then_branch=graph(z, l, d) -> (o) { o = Where(d, z, l) },
                                     else_branch=graph(z, l, d) -> (o) { o = Cast(d) {to=1} }})",
        R"(n = const i64[] {2}  s = Cast(c) {to=1}  m = Loop(n, t, s) [c] {
             body=graph(i, go, x, d) -> (go2, y) { l = const f32[] {-3.4028234663852886e38}
               z = const f32[] {0}  go2 = Identity(go)  y = Where(d, z, l) }})"}) {
    const TargetFinding f = Only(Check(with(mask), "ort", 23, 10));
    EXPECT_EQ(f.severity, Severity::kDiffers) << mask;
    EXPECT_THAT(f.remedy, HasSubstr("--target ort")) << mask;
    EXPECT_THAT(Check(with(mask), "infer", 23, 10).findings, IsEmpty()) << mask;
  }
  for (const std::string_view mask :
       {"x = Cast(c) {to=1}  h = Sub(one, x)  m = Mul(h, some)", "m = Where(c, zero, some)",
        "a = Mul(hide, low)  m = Mul(a, less)", "m = Max(keep, some)", "m = Not(c)",
        "m = const f32[3,5] {0,0,0,0,0, -3.4028234663852886e38,0,0,0,0, -inf,0,0,0,0}"})
    EXPECT_THAT(Check(with(mask), "ort", 23, 10).findings, IsEmpty()) << mask;
}

/// Where a Relu has become the lower bound of the codes nothing is left of the result.
TEST(OpenVino, SixteenBitCodesDoNotSaturate) {
  const auto graph = [](std::string_view type) {
    return Cat(
        "graph g(x: f32[2,3]) -> (y) { s = const f32[] {0.01}  o = const ", type,
        "[] {0}  q = QuantizeLinear(x, s, o) {name=\"rounds\"}  y = DequantizeLinear(q, s, o) }");
  };
  for (const std::string_view type : {"u16", "i16"}) {
    const TargetFinding f = Only(Check(graph(type), "openvino"));
    EXPECT_EQ(f.severity, Severity::kDiffers);
    EXPECT_THAT(f.node, testing::HasSubstr("rounds"));
    EXPECT_THAT(f.remedy, testing::HasSubstr("--activations u8"));
  }
  EXPECT_TRUE(Check(graph("u8"), "openvino").findings.empty());
}

/// It drops zero points that stand for less than 1e-5 where it moves a dequantization behind a sum:
/// the same graph with larger scales, or beside what is rounded, too, comes out right.
TEST(OpenVino, ASmallZeroPointInASumDiffers) {
  const auto graph = [](std::string_view scale, std::string_view sum) {
    return Cat(R"(
graph g(x: f32[1,2,4,4], z: f32[1,16,2]) -> (y: f32[1,16,2]) {
  s = const f32[] {)",
               scale, R"(}
  o = const u8[] {83}
  n = const i64[3] {1, 2, 16}
  k = const f32[] {2}
  r = Tanh(x) {name="rounded"}
  q = QuantizeLinear(r, s, o)
  d = DequantizeLinear(q, s, o)
  m = Reshape(d, n)
  t = Transpose(m) {perm=[0,2,1]}
  f = Sin(z)
  c = Mul(f, k)
  fq = QuantizeLinear(f, s, o)
  fd = DequantizeLinear(fq, s, o)
  y = )",
               sum, "}\n");
  };
  for (const std::string_view sum : {"Add(t, f)", "Add(f, t)", "Sub(t, f)", "Sub(f, t)"}) {
    const TargetFinding f = Only(Check(graph("1.2e-7", sum), "openvino"));
    EXPECT_EQ(f.severity, Severity::kDiffers);
    EXPECT_THAT(f.node, testing::HasSubstr("rounded"));
    EXPECT_THAT(f.what, testing::HasSubstr("the zero point is lost"));
    EXPECT_THAT(f.remedy, testing::HasSubstr("--exclude 'rounded'"));
    EXPECT_TRUE(Check(graph("1.22e-7", sum), "openvino").findings.empty());
  }
  for (const std::string_view sum :
       {"Mul(t, f)", "Add(t, k)", "Add(t, c)", "Add(t, fd)", "Add(t, t)"})
    EXPECT_TRUE(Check(graph("1e-7", sum), "openvino").findings.empty()) << sum;
  EXPECT_TRUE(Check(graph("1e-7", "Add(t, f)"), "ort").findings.empty());
}

}  // namespace
}  // namespace infer
