/// Forms written for a runtime that computes the usual ones otherwise than meant.
#include "quant/target/forms.h"

#include "lib/ir/eval.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "tests/quant/target/checked.h"

namespace infer {
namespace {

using target_test::Check;
using target_test::Only;

/// The patches of a vision transformer beside its class token, expanded to the batch.
std::string Patches(std::string_view other, std::string_view bias = "b",
                    std::string_view more = "") {
  return Cat(R"(
graph g(x: f32[N,2,4,4], z: f32[N,1,16]) -> (y) {
  s = const f32[] {0.1}
  o = const u8[] {128}
  w = const i8[2,2,1,1] {1, 2, 3, 4}
  ws = const f32[2] {0.1, 0.2}
  bq = const i32[2] {500, -300}
  bs = const f32[2] {0.01, 0.02}
  b = DequantizeLinear(bq, bs) {axis=0}
  n = const i64[3] {0, 2, 16}
  token = const f32[1,1,16] ~1
  e = const i64[2] {1, 16}
  batch = Shape(x) {start=0, end=1}
  to = Concat(batch, e) {axis=0}
  expanded = Expand(token, to)
  t = Tanh(z)
  xq = QuantizeLinear(x, s, o)
  xd = DequantizeLinear(xq, s, o)
  wd = DequantizeLinear(w, ws) {axis=0}
  c = Conv(xd, wd, )",
             bias, R"() {name="patches"}
  )",
             more, R"(
  cq = QuantizeLinear()",
             more.empty() ? "c" : "r", R"(, s, o)
  cd = DequantizeLinear(cq, s, o)
  v = Reshape(cd, n)
  y = Concat()",
             other, R"(, v) {axis=1}
}
)");
}

TEST(OpenVino, TheBiasOfAConvolutionIsLostBesideWhatIsMadeOfConstants) {
  const TargetFinding f = Only(Check(Patches("expanded"), "openvino"));
  EXPECT_EQ(f.severity, Severity::kDiffers);
  EXPECT_THAT(f.node, testing::HasSubstr("patches"));
  EXPECT_THAT(f.remedy, testing::HasSubstr("--target openvino"));
  Only(Check(Patches("expanded", "b", "r = Relu(c)"), "openvino"));
  EXPECT_TRUE(Check(Patches("expanded", "_"), "openvino").findings.empty());
  EXPECT_TRUE(Check(Patches("t"), "openvino").findings.empty());
  EXPECT_TRUE(Check(Patches("expanded"), "ort").findings.empty());
}

TEST(OpenVino, SuchABiasIsWrittenAsANodeOfItsOwn) {
  const Target& openvino = *FindTarget("openvino");
  for (const char* more : {"", "r = Relu(c)"}) {
    Graph g = MustParse(Patches("expanded", "b", more));
    EXPECT_FALSE(HasOtherForms(g, *FindTarget("ort")));
    ASSERT_TRUE(HasOtherForms(g, openvino));
    Tensor x(DType::kF32, {3, 2, 4, 4}), z(DType::kF32, {3, 1, 16});
    for (int64_t i = 0; i < x.num_elements(); ++i) x.Set(i, 0.07 * static_cast<double>(i - 40));
    const std::vector<Datum> inputs = {x, z};
    const auto before = Evaluate(g, inputs);
    ASSERT_TRUE(ToFormsOf(g, openvino).ok());
    ASSERT_TRUE(Verify(g).ok()) << Verify(g).message();
    EXPECT_FALSE(HasOtherForms(g, openvino));
    EXPECT_EQ(g.FindValue("c")->producer()->op(), "Add");
    const auto after = Evaluate(g, inputs);
    ASSERT_TRUE(before.ok() && after.ok());
    const Tensor &a = (*before)[0].tensor(), &b = (*after)[0].tensor();
    for (int64_t i = 0; i < a.num_elements(); ++i) EXPECT_NEAR(a.At(i), b.At(i), 0.101) << i;
  }
}

}  // namespace
}  // namespace infer
