/// Straight-through gradients of QuantizeLinear and DequantizeLinear. A step function has no
/// gradient to compare with, so each rule is compared with central differences, in f64, of the
/// operator without its rounding: clip(x / scale + zero point, lowest, highest) and (code - zero
/// point) scale, codes as real numbers. Both in a row are compared with formula 3 of Esser and
/// others, "Learned Step Size Quantization", arXiv:1902.08153.
#include "lib/ops/gradients/gradients.h"
#include "tests/passes/gradient/differences.h"

namespace infer {
namespace {

Graph MustBe(std::string_view text) {
  auto g = ParseGraph(text, TestOps());
  INFER_CHECK(g.ok());
  return *std::move(g);
}

/// Scales above 0, codes, numbers; the same for every call.
std::vector<Datum> NumbersFor(const Graph& g) {
  Random random(41);
  std::vector<Datum> inputs;
  for (const Value* v : g.inputs()) {
    Tensor t(v->dtype(), v->shape().static_dims());
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.Set(i, v->name() == "s"       ? 0.03 + 0.01 * static_cast<double>(i)
               : IsInteger(t.dtype()) ? std::round(20 * random.Normal())
                                      : 4 * random.Normal());
    inputs.emplace_back(std::move(t));
  }
  return inputs;
}

/// Inputs of `smooth` as they are in `rounded`, inputs or constants, as f64.
std::vector<Datum> SameNumbers(const Graph& smooth, const Graph& rounded,
                               const std::vector<Datum>& inputs) {
  std::vector<Datum> same;
  for (const Value* v : smooth.inputs()) {
    const Value* from = rounded.FindValue(v->name());
    Tensor t = from->is_constant() ? *from->constant() : Tensor();
    for (size_t i = 0; i < inputs.size(); ++i)
      if (rounded.inputs()[i] == from) t = inputs[i].tensor();
    same.emplace_back(t.Cast(DType::kF64));
  }
  return same;
}

/// Gradients of `rounded`, in f32, beside central differences of `smooth`, in f64.
void ExpectStraightThrough(Graph rounded, std::string_view smooth_text,
                           const std::vector<std::string>& wanted) {
  SCOPED_TRACE(Print(rounded));
  Graph smooth = MustBe(smooth_text);
  const size_t loss = AddProjection(smooth);
  ASSERT_EQ(AddProjection(rounded), loss);
  const std::vector<Datum> given = NumbersFor(rounded);
  const std::vector<Datum> inputs = SameNumbers(smooth, rounded, given);
  const auto gradients = AddGradients(rounded, loss, wanted);
  ASSERT_TRUE(gradients.ok()) << gradients.status().message();
  for (Value* v : *gradients) {
    ASSERT_NE(v, nullptr);
    GraphEditor(rounded).MarkOutput(v);
  }
  const auto out = Evaluate(rounded, given);
  ASSERT_TRUE(out.ok()) << out.status().message();
  for (size_t k = 0; k < wanted.size(); ++k) {
    size_t at = 0;
    while (smooth.inputs()[at]->name() != wanted[k]) ++at;
    const Tensor& x = inputs[at].tensor();
    const Tensor& got = (*out)[loss + 1 + k].tensor();
    ASSERT_EQ(got.dims(), x.dims());
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const double h = 1e-6 * std::max(0.01, std::abs(x.At(i)));
      double sides[2];
      for (const int side : {0, 1}) {
        Tensor moved = x.Clone();
        moved.Set(i, x.At(i) + (side == 1 ? h : -h));
        std::vector<Datum> with = inputs;
        with[at] = Datum(moved);
        sides[side] = LossOf(smooth, with, loss);
      }
      const double difference = (sides[1] - sides[0]) / (2 * h);
      EXPECT_NEAR(got.At(i), difference, 1e-4 * std::max(1.0, std::abs(difference)))
          << wanted[k] << "[" << i << "]";
    }
  }
}

/// Codes that are an output become numbers.
Graph WithNumbers(Graph g) {
  GraphEditor editor(g);
  Value* one = editor.AddConstant(Tensor::Scalar(1.0f));
  Value* y = *editor.Add("DequantizeLinear", {g.outputs()[0], one});
  INFER_CHECK(editor.SetOutput(0, y).ok());
  return g;
}

TEST(StraightThrough, OfTheOperatorsOwnExamples) {
  const auto example = [](Trait t) {
    for (const OpDef* def : TestOps().all())
      if (def->traits.Has(t) && FindGradient(*def)) return MustBe(def->example);
    return MustBe("graph none() -> () {}");
  };
  ExpectStraightThrough(WithNumbers(example(Trait::kQuantize)),
                        R"(graph g(x: f64[2,3], s: f64[]) -> (y) {
      z = const f64[] {128}  lo = const f64[] {0}  hi = const f64[] {255}
      r = Div(x, s)  c = Add(r, z)  y = Clip(c, lo, hi) })",
                        {"x", "s"});
  ExpectStraightThrough(example(Trait::kDequantize),
                        "graph g(x: f64[2,3], s: f64[3]) -> (y) { y = Mul(x, s) }", {"s"});
}

/// Of DequantizeLinear with respect to codes: they come from numbers by a scale of 1.
TEST(StraightThrough, OfCodes) {
  ExpectStraightThrough(MustBe(R"(graph g(x: f32[2,3], s: f32[3]) -> (y) {
      one = const f32[] {1}  z = const i8[] {0}
      q = QuantizeLinear(x, one, z)  y = DequantizeLinear(q, s) })"),
                        R"(graph g(x: f64[2,3], s: f64[3]) -> (y) {
      lo = const f64[] {-128}  hi = const f64[] {127}  c = Clip(x, lo, hi)  y = Mul(c, s) })",
                        {"x"});
}

TEST(StraightThrough, OfScalesPerAxisAndWithoutZeroPoints) {
  ExpectStraightThrough(MustBe(R"(graph g(x: f32[2,3,5], s: f32[3]) -> (y) {
      z = const i8[3] {0, 7, -9}  q = QuantizeLinear(x, s, z) {axis=-2}
      one = const f32[] {1}  y = DequantizeLinear(q, one) })"),
                        R"(graph g(x: f64[2,3,5], s: f64[3]) -> (y) {
      z = const f64[3,1] {0, 7, -9}  lo = const f64[] {-128}  hi = const f64[] {127}
      d = const i64[2] {3, 1}  w = Reshape(s, d)
      r = Div(x, w)  c = Add(r, z)  y = Clip(c, lo, hi) })",
                        {"x", "s"});
  ExpectStraightThrough(MustBe(R"(graph g(x: f32[4,3], s: f32[4]) -> (y) {
      q = QuantizeLinear(x, s) {axis=0}  one = const f32[] {1}  y = DequantizeLinear(q, one) })"),
                        R"(graph g(x: f64[4,3], s: f64[4]) -> (y) {
      lo = const f64[] {0}  hi = const f64[] {255}  d = const i64[2] {4, 1}  w = Reshape(s, d)
      r = Div(x, w)  y = Clip(r, lo, hi) })",
                        {"x", "s"});
}

/// DequantizeLinear is linear in its scale: its codes are constants here.
TEST(StraightThrough, OfDequantizedConstants) {
  ExpectStraightThrough(MustBe(R"(graph g(s: f32[3]) -> (y) {
      q = const i8[2,3] {5, -7, 100, -128, 0, 9}  z = const i8[3] {1, -2, 3}
      y = DequantizeLinear(q, s, z) {axis=1} })"),
                        R"(graph g(s: f64[3]) -> (y) {
      q = const f64[2,3] {5, -7, 100, -128, 0, 9}  z = const f64[3] {1, -2, 3}
      c = Sub(q, z)  y = Mul(c, s) })",
                        {"s"});
  ExpectStraightThrough(MustBe(R"(graph g(s: f32[]) -> (y) {
      q = const u8[4] {5, 0, 255, 128}  y = DequantizeLinear(q, s) })"),
                        R"(graph g(s: f64[]) -> (y) {
      q = const f64[4] {5, 0, 255, 128}  y = Mul(q, s) })",
                        {"s"});
}

/// d y / d s = round(x / s) - x / s inside, the bound less the zero point beyond it; d y / d x = 1
/// inside and at the bounds, 0 beyond.
TEST(StraightThrough, OfBothIsTheLearnedStepSize) {
  Graph g = MustBe(R"(graph g(x: f32[6], s: f32[6]) -> (loss) {
      z = const u8[6] {100, 100, 100, 100, 100, 100}
      q = QuantizeLinear(x, s, z) {axis=0}  y = DequantizeLinear(q, s, z) {axis=0}
      w = const f32[6] {1, 2, 3, 4, 5, 6}  p = Mul(y, w)  loss = ReduceSum(p) {keepdims=0} })");
  const auto d = AddGradients(g, 0, {"x", "s"});
  ASSERT_TRUE(d.ok()) << d.status().message();
  for (Value* v : *d) GraphEditor(g).MarkOutput(v);
  // x / s of the codes 0 to 255 is -100 to 155.
  const std::vector<float> x = {0.1f, -0.9f, 3.25f, -60, 77.5f, 90};
  const std::vector<Datum> inputs = {Datum(Tensor::Of<float>({6}, x)),
                                     Datum(Tensor::Of<float>({6}, std::vector(6, 0.5f)))};
  const auto out = Evaluate(g, inputs);
  ASSERT_TRUE(out.ok()) << out.status().message();
  const double of_x[] = {1, 1, 1, 0, 1, 0};
  const double of_s[] = {0 - 0.2, -2 + 1.8, 6 - 6.5, -100, 0, 155};
  for (int64_t i = 0; i < 6; ++i) {
    const auto w = static_cast<double>(i + 1);
    EXPECT_NEAR((*out)[1].tensor().At(i), w * of_x[i], 1e-6) << i;
    EXPECT_NEAR((*out)[2].tensor().At(i), w * of_s[i], 1e-5 * w * std::max(1.0, std::abs(of_s[i])))
        << i;
  }
}

TEST(StraightThrough, RefusesByName) {
  for (const auto& [text, why] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"(graph g(x: f32[4]) -> (y) { s = const f32[] {1}  q = QuantizeLinear(x, s)
               d = const i64[2] {2, 2}  r = Reshape(q, d)  t = DequantizeLinear(r, s)
               y = ReduceSum(t) {keepdims=0} })",
            "Reshape"},
           {R"(graph g(x: f32[2,4]) -> (y) { s = const f32[2,2] {1, 1, 1, 1}
               q = QuantizeLinear(x, s) {axis=1, block_size=2}
               t = DequantizeLinear(q, s) {axis=1, block_size=2}  y = ReduceSum(t) {keepdims=0} })",
            "scales of blocks"}}) {
    Graph g = MustBe(text);
    const auto d = AddGradients(g, 0, {"x"});
    ASSERT_FALSE(d.ok());
    EXPECT_EQ(d.status().code(), Code::kUnsupported);
    EXPECT_THAT(d.status().message(), ::testing::HasSubstr(why));
  }
}

}  // namespace
}  // namespace infer
