/// Quantized networks in the spellings of other tools: the same integers, by the same kernels, as
/// in the plain spelling DequantizeLinear -> operator -> QuantizeLinear with constants.
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// Codes and, with the scales of Scales(), the numbers that they stand for.
std::string Weights(std::string_view type, const Dims& dims, bool as_numbers = false) {
  Random random(5);
  std::vector<std::string> values;
  const int64_t inner = NumElements(dims) / dims[0];
  for (int64_t i = 0; i < NumElements(dims); ++i) {
    const int64_t code = static_cast<int64_t>(random.Below(255)) - 127;
    const double scale = std::ldexp(1.0, -8 - static_cast<int>(i / inner % 2));
    values.push_back(as_numbers ? FormatDouble(static_cast<double>(code) * scale) : Cat(code));
  }
  return Cat("const ", type, ToString(dims), " {", Join(values, ", "), "} ");
}

/// By row: 2^-8, 2^-9, 2^-8, ...
std::string Scales(int64_t n, std::string_view type = "f32", std::string_view dims = "") {
  std::vector<std::string> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(FormatDouble(std::ldexp(1.0, -8 - i % 2)));
  return Cat("const ", type, dims.empty() ? Cat("[", n, "]") : std::string(dims), " {",
             Join(values, ", "), "} ");
}

std::string Repeated(std::string_view type, int64_t n, int value) {
  return Cat("const ", type, "[", n, "] {",
             Join(std::vector<std::string>(static_cast<size_t>(n), Cat(value)), ", "), "} ");
}

struct Spelling {
  const char* name;
  std::string spelled, plain;
};

struct Run {
  std::vector<Datum> outputs;
  std::vector<std::string> kernels;
  int float_products = 0;
};

Run RunHighest(const std::string& text, const std::vector<Datum>& inputs) {
  Run run;
  auto g = ParseGraph(text, SuiteOps());
  EXPECT_TRUE(g.ok()) << g.status().message() << "\n" << text.substr(0, 3000);
  if (!g.ok()) return run;
  auto program = BackendUnderTest().Compile(*g, {.level = 2, .threads = 1});
  EXPECT_TRUE(program.ok()) << program.status().message();
  if (!program.ok()) return run;
  for (const StepInfo& s : (*program)->steps()) {
    run.kernels.push_back(Cat(s.kernel, " ", s.precision));
    const bool product = s.op.find("Conv") != std::string::npos ||
                         s.op.find("MatMul") != std::string::npos ||
                         s.op.find("Gemm") != std::string::npos;
    run.float_products += product && s.precision == "f32";
  }
  auto outputs = RunOnce(**program, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  if (outputs.ok()) run.outputs = *std::move(outputs);
  return run;
}

/// Both give the same codes; on the cpu by the same kernels, which multiply integers.
void CheckSpelling(const Spelling& s) {
  SCOPED_TRACE(s.name);
  const auto g = ParseGraph(s.plain, SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message() << "\n" << s.plain;
  std::vector<Datum> inputs;
  Random random(3);
  for (const Value* v : g->inputs())
    inputs.emplace_back(RandomInput(v->dtype(), DimsOf(*v), random));
  CheckGraph(s.spelled, inputs, 2e-2);
  const Run spelled = RunHighest(s.spelled, inputs), plain = RunHighest(s.plain, inputs);
  ASSERT_EQ(spelled.outputs.size(), plain.outputs.size());
  for (size_t i = 0; i < plain.outputs.size(); ++i)
    EXPECT_TRUE(BitEqual(spelled.outputs[i].tensor(), plain.outputs[i].tensor()))
        << ToString(spelled.outputs[i].tensor()) << " wants "
        << ToString(plain.outputs[i].tensor());
  if (BackendUnderTest().name() != "cpu") return;
  EXPECT_EQ(spelled.kernels, plain.kernels);
  EXPECT_EQ(spelled.float_products, 0);
  EXPECT_EQ(plain.float_products, 0);
}

constexpr std::string_view kHead = "graph g(x: f32[1,8,6,6]) -> (y) { ";
constexpr std::string_view kX = "xs = const f32[] {0.03125} xz = const u8[] {127} ";
constexpr std::string_view kY = "ys = const f32[] {0.0625} yz = const u8[] {121} ";
constexpr std::string_view kAttributes = " {pads=[1,1,1,1]} ";

/// x -> Q -> DQ -> Conv [-> Relu] -> Q -> DQ with constants, the weights as codes.
std::string PlainConv(std::string_view activation = "") {
  return Cat(kHead, kX, kY, "q = QuantizeLinear(x, xs, xz) d = DequantizeLinear(q, xs, xz) w = ",
             Weights("i8", {8, 8, 3, 3}), "ws = ", Scales(8),
             "v = DequantizeLinear(w, ws) {axis=0} c = Conv(d, v)", kAttributes, activation,
             "p = QuantizeLinear(", activation.empty() ? "c" : "r",
             ", ys, yz) y = DequantizeLinear(p, ys, yz) }");
}

TEST(QuantSpellings, IdentityAroundConstantsAndCasts) {
  CheckSpelling(
      {"identities and casts",
       Cat(kHead, kX, kY, "xs1 = Identity(xs) xz1 = Identity(xz) ys1 = Identity(ys) ",
           "yz1 = Identity(yz) q = QuantizeLinear(x, xs1, xz1) q1 = Cast(q) {to=2} ",
           "q2 = Identity(q1) d = DequantizeLinear(q2, xs1, xz1) d1 = Identity(d) w = ",
           Weights("i8", {8, 8, 3, 3}), "ws = ", Scales(8),
           "w1 = Identity(w) w2 = Cast(w1) {to=3} ws1 = Identity(ws) ",
           "v = DequantizeLinear(w2, ws1) {axis=0} v1 = Identity(v) c = Conv(d1, v1)", kAttributes,
           "c1 = Identity(c) r = Relu(c1) r1 = Identity(r) p = QuantizeLinear(r1, ys1, yz1) ",
           "p1 = Cast(p) {to=2} y = DequantizeLinear(p1, ys1, yz1) }"),
       PlainConv("r = Relu(c) ")});
}

/// torch.fake_quantize_per_channel_affine: weights in f32, parameters cast to their types.
TEST(QuantSpellings, WeightsInFloats) {
  CheckSpelling(
      {"fake-quantized weights",
       Cat(kHead, kX, kY, "q = QuantizeLinear(x, xs, xz) d = DequantizeLinear(q, xs, xz) w = ",
           Weights("f32", {8, 8, 3, 3}, true), "ws = ", Scales(8, "f64"),
           "ws1 = Cast(ws) {to=1} wz = ", Repeated("i32", 8, 0), "wz1 = Cast(wz) {to=3} ",
           "k = QuantizeLinear(w, ws1, wz1) {axis=0} v = DequantizeLinear(k, ws1, wz1) {axis=0} ",
           "c = Conv(d, v)", kAttributes,
           "p = QuantizeLinear(c, ys, yz) y = DequantizeLinear(p, ys, yz) }"),
       PlainConv()});
}

/// NNCF and TensorFlow: parameters with the extents of a broadcast, constants that are reshaped.
TEST(QuantSpellings, ReshapedParametersAndWeights) {
  CheckSpelling(
      {"reshaped",
       Cat(kHead, kX, kY, "q = QuantizeLinear(x, xs, xz) d = DequantizeLinear(q, xs, xz) w = ",
           Weights("i8", {8, 72}), "to = const i64[4] {8, 8, 3, 3} w1 = Reshape(w, to) ws = ",
           Scales(8, "f32", "[8,1,1,1]"), "flat = const i64[1] {-1} ws1 = Reshape(ws, flat) ",
           "v = DequantizeLinear(w1, ws1) {axis=0} c = Conv(d, v)", kAttributes,
           "p = QuantizeLinear(c, ys, yz) y = DequantizeLinear(p, ys, yz) }"),
       PlainConv()});
  CheckSpelling(
      {"reshaped when dequantized",
       Cat(kHead, kX, kY, "q = QuantizeLinear(x, xs, xz) d = DequantizeLinear(q, xs, xz) w = ",
           Weights("i8", {8, 72}), "to = const i64[4] {8, 8, 3, 3} ws = ", Scales(8),
           "v = DequantizeLinear(w, ws) {axis=0} v1 = Reshape(v, to) c = Conv(d, v1)", kAttributes,
           "p = QuantizeLinear(c, ys, yz) y = DequantizeLinear(p, ys, yz) }"),
       PlainConv()});
}

/// OpenVINO and PyTorch: every reader has a QuantizeLinear of its own.
TEST(QuantSpellings, APairForEachReader) {
  const std::string w = Cat("w = ", Weights("i8", {8, 8, 3, 3}), "ws = ", Scales(8),
                            "v = DequantizeLinear(w, ws) {axis=0} ");
  const std::string tail = Cat("u = Conv(e, v)", kAttributes, "p = QuantizeLinear(u, ys, yz) ",
                               "a = DequantizeLinear(p, ys, yz) t = Add(a, f) ",
                               "o = QuantizeLinear(t, ys, yz) y = DequantizeLinear(o, ys, yz) }");
  CheckSpelling({"a pair each",
                 Cat(kHead, kX, kY, "xt = const f32[] {0.03125} xy = const u8[] {127} ", w,
                     "q = QuantizeLinear(x, xs, xz) d = DequantizeLinear(q, xs, xz) c = Conv(d, v)",
                     kAttributes,
                     "r = Relu(c) k = QuantizeLinear(r, xs, xz) e = DequantizeLinear(k, xs, xz) ",
                     "l = QuantizeLinear(r, xt, xy) f = DequantizeLinear(l, xt, xy) ", tail),
                 Cat(kHead, kX, kY, w,
                     "q = QuantizeLinear(x, xs, xz) d = DequantizeLinear(q, xs, xz) c = Conv(d, v)",
                     kAttributes,
                     "r = Relu(c) k = QuantizeLinear(r, xs, xz) e = DequantizeLinear(k, xs, xz) ",
                     "f = DequantizeLinear(k, xs, xz) ", tail)});
}

/// ONNX Runtime: operands and result of a Concat have parameters of their own.
TEST(QuantSpellings, JoinsOfOtherCodes) {
  const std::string head =
      Cat("graph g(x: f32[1,8,6,6], t: f32[1,3,6,6], f: f32[1,2,6,6]) -> (y) { ", kX, kY,
          "ts = const f32[] {0.5} tz = const u8[] {0} q = QuantizeLinear(x, xs, xz) ",
          "d = DequantizeLinear(q, xs, xz) u = QuantizeLinear(t, ts, tz) ",
          "e = DequantizeLinear(u, ts, tz) g = Relu(f) ");
  CheckSpelling({"joined codes",
                 Cat(head, "c = Concat(d, e, g) {axis=1} p = QuantizeLinear(c, ys, yz) ",
                     "y = DequantizeLinear(p, ys, yz) }"),
                 Cat(head, "dq = QuantizeLinear(d, ys, yz) eq = QuantizeLinear(e, ys, yz) ",
                     "gq = QuantizeLinear(g, ys, yz) p = Concat(dq, eq, gq) {axis=1} ",
                     "y = DequantizeLinear(p, ys, yz) }")});
}

/// Codes of other parameters: by a table, no step in f32 between.
TEST(QuantSpellings, CodesOfOtherParameters) {
  const std::string text =
      Cat("graph g(q: u8[3,50]) -> (y) { ", kX, "ys = const f32[] {0.0625} yz = const i8[] {-9} ",
          "d = DequantizeLinear(q, xs, xz) y = QuantizeLinear(d, ys, yz) }");
  Random random(3);
  const std::vector<Datum> inputs{RandomInput(DType::kU8, {3, 50}, random)};
  const auto steps = CheckGraph(text, inputs, 0);
  if (BackendUnderTest().name() != "cpu" || steps.empty()) return;
  EXPECT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps.back().kernel, "own:table");
}

/// Brevitas and PyTorch: codes of fewer bits.
TEST(QuantSpellings, ClippedCodes) {
  for (std::string_view activation : {"", "r = Relu(c) "})
    for (const auto& [low, high, reals] :
         {std::tuple{"lo = const u8[] {20} ", "hi = const u8[] {201} ",
                     activation.empty() ? "{-6.3125} " : "{0} "},
          std::tuple{"lo = const u8[] {0} ", "hi = const u8[] {201} ",
                     activation.empty() ? "" : "{0} "}}) {
      const std::string codes =
          Cat("p = QuantizeLinear(", activation.empty() ? "c" : "r", ", ys, yz) ", low, high,
              "k = Clip(p, lo, hi) y = DequantizeLinear(k, ys, yz) }");
      const std::string real = reals;
      const std::string plain =
          Cat(real.empty() ? "" : Cat("lo = const f32[] ", real),
              "hi = const f32[] {5} r = Clip(c, ", real.empty() ? "_" : "lo", ", hi) ");
      const std::string with_clip = PlainConv(plain);
      const std::string spelled = PlainConv(activation);
      const size_t tail = spelled.find("p = QuantizeLinear");
      CheckSpelling({"clipped", spelled.substr(0, tail) + codes, with_clip});
    }
  const std::string plain = PlainConv();
  const size_t tail = plain.find("y = ");
  CheckSpelling({"bounds that no code exceeds",
                 plain.substr(0, tail) +
                     "lo = const u8[] {0} hi = const u8[] {255} k = Clip(p, lo, "
                     "hi) y = DequantizeLinear(k, ys, yz) }",
                 plain});
}

/// Quantized, bounded, and quantized alike again.
TEST(QuantSpellings, RoundedTwice) {
  for (std::string_view bound :
       {"Relu(", "lo = const f32[] {0} hi = const f32[] {3.03} r = Clip("}) {
    const bool relu = bound == "Relu(";
    const std::string plain = PlainConv();
    const size_t tail = plain.find("y = ");
    CheckSpelling({"rounded twice",
                   Cat(plain.substr(0, tail), "e = DequantizeLinear(p, ys, yz) ",
                       relu ? "r = " : "", bound, "e", relu ? ") " : ", lo, hi) ",
                       "k = QuantizeLinear(r, ys, yz) y = DequantizeLinear(k, ys, yz) }"),
                   PlainConv(Cat(relu ? "r = " : "", bound, "c", relu ? ") " : ", lo, hi) "))});
  }
  const std::string plain = PlainConv();
  const size_t tail = plain.find("y = ");
  CheckSpelling({"rounded twice with nothing between",
                 Cat(plain.substr(0, tail), "e = DequantizeLinear(p, ys, yz) ",
                     "k = QuantizeLinear(e, ys, yz) y = DequantizeLinear(k, ys, yz) }"),
                 plain});
}

/// Weights of a linear layer lie [out, in] and are transposed behind DequantizeLinear; the bias is
/// added by itself.
TEST(QuantSpellings, TransposedWeights) {
  const std::string head = Cat("graph g(x: f32[5,24]) -> (y) { ", kX, kY,
                               "q = QuantizeLinear(x, xs, xz) d = DequantizeLinear(q, xs, xz) ");
  const std::string tail = " p = QuantizeLinear(c, ys, yz) y = DequantizeLinear(p, ys, yz) }";
  const std::string w = Cat("w = ", Weights("i8", {16, 24}), "ws = ", Scales(16),
                            "v = DequantizeLinear(w, ws) {axis=0} ");
  const std::string turned = Cat(w, "t = Transpose(v) {perm=[1,0]} ");
  CheckSpelling({"no bias", Cat(head, turned, "c = MatMul(d, t)", tail),
                 Cat(head, w, "c = Gemm(d, v) {transB=1}", tail)});
  CheckSpelling({"a bias",
                 Cat(head, turned, "b = const f32[16] ~4 m = MatMul(d, t) c = Add(b, m)", tail),
                 Cat(head, w, "b = const f32[16] ~4 c = Gemm(d, v, b) {transB=1}", tail)});
}

/// TensorFlow: a bias in an Add of its own, images turned between DequantizeLinear and Conv.
TEST(QuantSpellings, BiasAndTransposedImages) {
  const std::string w = Cat("w = ", Weights("i8", {8, 8, 3, 3}), "ws = ", Scales(8),
                            "v = DequantizeLinear(w, ws) {axis=0} ");
  const std::string tail = "p = QuantizeLinear(r, ys, yz) y = DequantizeLinear(p, ys, yz) }";
  const std::string head =
      Cat("graph g(x: f32[1,6,6,8]) -> (y) { ", kX, kY, w, "q = QuantizeLinear(x, xs, xz) ");
  CheckSpelling({"channels last, a bias",
                 Cat(head, "d = DequantizeLinear(q, xs, xz) t = Transpose(d) {perm=[0,3,1,2]} ",
                     "b = const f32[1,8,1,1] ~4 m = Conv(t, v)", kAttributes,
                     "c = Add(m, b) r = Relu(c) ", tail),
                 Cat(head, "t = Transpose(q) {perm=[0,3,1,2]} d = DequantizeLinear(t, xs, xz) ",
                     "b = const f32[8] ~4 c = Conv(d, v, b)", kAttributes, "r = Relu(c) ", tail)});
}

/// Unlike codes stay apart: a second rounding by another scale, another zero point.
TEST(QuantSpellings, WhatRoundsOtherwiseStays) {
  const std::string plain = PlainConv();
  const size_t tail = plain.find("y = ");
  for (std::string_view other : {"zs = const f32[] {0.05} zz = const u8[] {121} ",
                                 "zs = const f32[] {0.0625} zz = const u8[] {0} "})
    CheckGraph(Cat(plain.substr(0, tail), other, "e = DequantizeLinear(p, ys, yz) r = Relu(e) ",
                   "k = QuantizeLinear(r, zs, zz) y = DequantizeLinear(k, zs, zz) }"),
               7, 2e-2);
}

}  // namespace
}  // namespace infer
