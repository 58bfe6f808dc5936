/// Every gradient rule beside central differences in f64, from the operator's own example and from
/// variants of it.
#include "lib/ir/body.h"
#include "lib/ops/gradients/gradients.h"
#include "tests/passes/gradient/differences.h"

namespace infer {
namespace {

/// Operands that have no gradient, by operator: bounds, fill values, statistics; and the exponent
/// of a negative base.
const std::map<std::string_view, std::set<size_t>>& Fixed() {
  static const std::map<std::string_view, std::set<size_t>> fixed = {
      {"Clip", {1, 2}}, {"Pad", {2}}, {"BatchNormalization", {3, 4}}, {"Pow", {1}}};
  return fixed;
}
bool IsFixed(const Node& n, size_t operand) {
  const auto it = Fixed().find(n.op());
  return it != Fixed().end() && it->second.contains(operand);
}

bool AllFinite(const Movable& m) {
  const auto out = Evaluate(m.graph, m.inputs);
  if (!out.ok()) return false;
  for (const Datum& d : *out)
    for (int64_t i = 0; i < d.tensor().num_elements(); ++i)
      if (!std::isfinite(d.tensor().At(i))) return false;
  return true;
}

/// Numbers of the operator's domain, none within 1e-3 of a whole number: kinks are there.
int64_t Check(std::string_view text) {
  SCOPED_TRACE(text);
  auto parsed = ParseGraph(InF64(text), TestOps());
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  if (!parsed.ok()) return 0;
  Random random(5);
  const auto away = [&](double x) { return std::abs(x - std::round(x)) < 1e-3 ? x + 0.01 : x; };
  const std::function<double()> domains[] = {
      [&] { return away(random.Normal()); },
      [&] { return away(random.Uniform(0.1, 0.9)); },
      [&] { return away(random.Uniform(1.1, 2.9)); },
  };
  for (const auto& domain : domains) {
    const Movable m = MakeMovable(parsed->Clone(), domain, IsFixed);
    if (AllFinite(m)) return ExpectGradients(m);
  }
  ADD_FAILURE() << "no domain gives finite results";
  return 0;
}

TEST(GradientRules, OfEveryExample) {
  int rules = 0;
  for (const OpDef* def : TestOps().all()) {
    if (!FindGradient(*def)) continue;
    ++rules;
    // f32 results would hide what moving a number by 1e-5 changes.
    if (def->name == "Cast") continue;
    // Steps have no differences: codes_test.cc.
    if (def->traits.HasAny(Trait::kQuantize | Trait::kDequantize)) continue;
    EXPECT_GT(Check(def->example), 0) << def->name;
  }
  EXPECT_GE(rules, 77);
  EXPECT_GT(Check("graph g(x: f32[2,3]) -> (y) { y = Cast(x) {to=11} }"), 0);
}

TEST(GradientRules, OfConvolutions) {
  for (std::string_view attrs :
       {"", "pads=[1, 1, 1, 1]", "strides=[2, 2], pads=[1, 1, 1, 1]", "strides=[2, 1]",
        "dilations=[2, 1], pads=[2, 0, 1, 2]", "strides=[3, 2]", "auto_pad=\"SAME_UPPER\"",
        "strides=[2, 2], auto_pad=\"SAME_LOWER\"", "pads=[3, 0, 0, 3]"})
    for (std::string_view shapes : {"x: f32[2,3,7,8], w: f32[4,3,3,2], b: f32[4]",
                                    "x: f32[2,4,6,7], w: f32[6,2,3,3], b: f32[6]",
                                    "x: f32[1,3,6,6], w: f32[3,1,3,3], b: f32[3]"}) {
      const int group = shapes[9] == '3' && shapes[7] == '2' ? 1 : shapes[9] == '4' ? 2 : 3;
      Check(Cat("graph g(", shapes, ") -> (y) { y = Conv(x, w, b) {group=", group,
                attrs.empty() ? "" : ", ", attrs, "} }"));
    }
  for (std::string_view rest :
       {"x: f32[2,3,4,6], w: f32[2,3,1,1]) -> (y) { y = Conv(x, w)",
        "x: f32[2,3,5,6], w: f32[2,3,1,1]) -> (y) { y = Conv(x, w) {strides=[2, 2]}",
        "x: f32[2,3,4,4], w: f32[5,3,2,2]) -> (y) { y = Conv(x, w) {strides=[2, 2]}",
        "x: f32[1,2,6,6], w: f32[5,2,3,3]) -> (y) { y = Conv(x, w) {strides=[3, 3]}",
        "x: f32[2,3,9], w: f32[4,3,3]) -> (y) { y = Conv(x, w) {strides=[2], pads=[1, 0]}",
        "x: f32[1,2,3,4,5], w: f32[3,2,2,2,2]) -> (y) { y = Conv(x, w) {strides=[1, 2, 2]}",
        "x: f32[1,4,3,4], w: f32[4,2,3,3]) -> (y) { y = ConvTranspose(x, w) {group=2}",
        "x: f32[1,2,3,4], w: f32[2,3,3,3]) -> (y) { y = ConvTranspose(x, w) {strides=[2, 3], "
        "pads=[1, 0, 0, 1], output_padding=[1, 2], dilations=[1, 2]}"})
    Check(Cat("graph g(", rest, " }"));
}

TEST(GradientRules, OfPooling) {
  for (std::string_view op : {"MaxPool", "AveragePool"})
    for (std::string_view attrs :
         {"kernel_shape=[2, 2], strides=[2, 2]", "kernel_shape=[3, 3], strides=[2, 2]",
          "kernel_shape=[3, 2], pads=[1, 0, 1, 1]",
          "kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1",
          "kernel_shape=[2, 2], dilations=[2, 1]",
          "kernel_shape=[3, 3], strides=[2, 2], auto_pad=\"SAME_UPPER\""})
      Check(Cat("graph g(x: f32[2,3,6,7]) -> (y) { y = ", op, "(x) {", attrs, "} }"));
  for (std::string_view more : {"", ", ceil_mode=1"})
    Check(
        Cat("graph g(x: f32[2,3,6,7]) -> (y) { y = AveragePool(x) {kernel_shape=[3, 3], "
            "strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1",
            more, "} }"));
}

TEST(GradientRules, OfProducts) {
  for (std::string_view operands :
       {"a: f32[3,4], b: f32[4,5]", "a: f32[2,3,4], b: f32[4,5]", "a: f32[2,3,4], b: f32[2,4,5]",
        "a: f32[2,1,3,4], b: f32[5,4,2]", "a: f32[3,4], b: f32[2,4,5]", "a: f32[4], b: f32[4,5]",
        "a: f32[3,4], b: f32[4]", "a: f32[4], b: f32[4]", "a: f32[4], b: f32[2,4,5]",
        "a: f32[2,3,4], b: f32[4]"})
    Check(Cat("graph g(", operands, ") -> (y) { y = MatMul(a, b) }"));
  for (const int ta : {0, 1})
    for (const int tb : {0, 1})
      for (std::string_view c : {"f32[]", "f32[5]", "f32[3,1]", "f32[3,5]"})
        Check(Cat("graph g(a: ", ta == 1 ? "f32[4,3]" : "f32[3,4]",
                  ", b: ", tb == 1 ? "f32[5,4]" : "f32[4,5]", ", c: ", c,
                  ") -> (y) { y = Gemm(a, b, c) {transA=", ta, ", transB=", tb,
                  ", alpha=0.5, beta=1.5} }"));
}

TEST(GradientRules, OfMovesAndRows) {
  for (std::string_view body :
       {"s = const i64[2] {1, -1} e = const i64[2] {4, -6} a = const i64[2] {1, 2} t = const "
        "i64[2] {2, -2} y = Slice(x, s, e, a, t)",
        "s = const i64[1] {-3} e = const i64[1] {100} a = const i64[1] {-1} y = Slice(x, s, e, a)",
        "p = const i64[4] {1, -1, 0, 2} a = const i64[2] {0, 2} v = const f32[] {3} "
        "y = Pad(x, p, v, a)",
        "i = const i64[2,2] {0, 1, 1, 1} y = Gather(x, i) {axis=0}",
        "i = const i32[3] {4, 0, -1} y = Gather(x, i) {axis=2}",
        "i = const i64[] {1} y = Gather(x, i) {axis=1}",
        "s = const i64[4] {2, 1, 4, 5} y = Expand(x, s)",
        "a, b, c = Split(x) {axis=2, num_outputs=3} y = Mul(a, b)",
        "y = ReduceMean(x)",
        "a = const i64[2] {0, 2} y = ReduceSum(x, a) {keepdims=0}",
        "y = ReduceSum(x) {noop_with_empty_axes=1}",
        "a = const i64[1] {1} y = ReduceMax(x, a) {keepdims=0}",
        "a = const i64[1] {-1} y = ReduceL2(x, a)",
        "y = Softmax(x)",
        "y = Softmax(x) {axis=0}",
        "y = LogSoftmax(x) {axis=1}",
        "y = Elu(x) {alpha=0.3}",
        "y = Selu(x)",
        "p = const f32[] {3} s = Abs(x) y = Pow(s, p)",
        "y = Add(x, x)",
        "y = Mul(x, x)",
        "y = Sum(x)",
        "c = Greater(x, x) z = Neg(x) y = Where(c, x, z)"})
    Check(Cat("graph g(x: f32[2,4,5]) -> (y) { ", body, " }"));
  Check("graph g(x: f32[2,3], p: f32[3]) -> (y) { s = Abs(x) y = Pow(s, p) }");
  for (std::string_view body : {"LayerNormalization(x, s) {axis=1}", "LayerNormalization(x, b, b)",
                                "RMSNormalization(x, s) {axis=1, epsilon=0.1}"})
    Check(Cat("graph g(x: f32[2,4,5], s: f32[4,5], b: f32[5]) -> (y) { y = ", body, " }"));
}

TEST(GradientRules, OfWhatIsMadeOfOthers) {
  for (std::string_view text :
       {"graph g(x: f32[2,3]) -> (y) { y = Gelu(x) }",
        "graph g(x: f32[2,3]) -> (y) { y = Gelu(x) {approximate=\"tanh\"} }",
        "graph g(x: f32[2,3]) -> (y) { y = HardSwish(x) }",
        "graph g(x: f32[2,3]) -> (y) { y = Swish(x) }",
        "graph g(x: f32[2,3]) -> (y) { y = Mish(x) }",
        "graph g(x: f32[2,3]) -> (y) { y = infer::Silu(x) }",
        "graph g(x: f32[2,3], u: f32[2,3]) -> (y) { y = infer::SwiGLU(x, u) }",
        "graph g(x: f32[2,4,3], s: f32[4], b: f32[4]) -> (y) { "
        "y = GroupNormalization(x, s, b) {num_groups=2} }",
        "graph g(q: f32[1,2,3,4], k: f32[1,2,5,4], v: f32[1,2,5,4]) -> (y) { "
        "y = Attention(q, k, v) }",
        "graph g(x: f32[3,4], w: f32[4,2]) -> (y) { "
        "y = com.microsoft::FusedMatMul(x, w) {alpha=0.5} }"})
    EXPECT_GT(Check(text), 0) << text;
}

/// The value of the gradient where the operator has a kink, as the documentation says.
TEST(GradientRules, AtKinks) {
  for (const auto& [body, at, want] :
       std::initializer_list<std::tuple<const char*, double, double>>{
           {"Relu(x)", 0, 0},
           {"Abs(x)", 0, 0},
           {"LeakyRelu(x) {alpha=0.25}", 0, 0.25},
           {"ThresholdedRelu(x) {alpha=2.0}", 2, 0},
           {"Elu(x) {alpha=0.5}", 0, 0.5},
           {"HardSigmoid(x) {alpha=0.5, beta=0.0}", 0, 0},
           {"HardSigmoid(x) {alpha=0.5, beta=0.0}", 2, 0},
           {"Clip(x, lo, hi)", -1, 1},
           {"Clip(x, lo, hi)", 2, 1},
           {"Max(x, hi)", 2, 1},
           {"Min(x, lo)", -1, 1}}) {
    auto g =
        ParseGraph(Cat("graph g(x: f64[1]) -> (y) { lo = const f64[] {-1} hi = const f64[] {2} "
                       "y = ",
                       body, " }"),
                   TestOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const auto d = AddGradients(*g, 0, {"x"});
    ASSERT_TRUE(d.ok()) << d.status().message();
    GraphEditor(*g).MarkOutput((*d)[0]);
    const auto out = Evaluate(*g, {{Datum(Tensor::Of<double>({1}, {at}))}});
    ASSERT_TRUE(out.ok()) << out.status().message();
    EXPECT_EQ((*out)[1].tensor().At(0), want) << body << " at " << at;
  }
}

TEST(GradientRules, RefuseByName) {
  for (const auto& [text, wanted, why] :
       std::initializer_list<std::tuple<const char*, const char*, const char*>>{
           {"graph g(x: f32[2]) -> (y) { f = Floor(x) y = ReduceSum(f) }", "x", "Floor"},
           {"graph g(x: f32[N]) -> (y) { f = Exp(x) y = ReduceSum(f) }", "x", "extents"},
           {"graph g(x: f32[2]) -> (y) { y = Exp(x) }", "x", "one floating-point number"},
           {"graph g(x: f32[2]) -> (y) { y = ReduceSum(x) }", "z", "'z'"},
           {"graph g(x: f32[2], m: f32[]) -> (y) { c = Clip(x, m) y = ReduceSum(c) }", "m",
            "operand 1 has no gradient"}}) {
    auto g = ParseGraph(text, TestOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const auto d = AddGradients(*g, 0, {wanted});
    EXPECT_FALSE(d.ok());
    EXPECT_THAT(d.status().message(), ::testing::HasSubstr(why));
    EXPECT_EQ(d.status().message().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace infer
