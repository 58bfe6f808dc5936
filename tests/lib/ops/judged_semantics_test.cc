/// Where the standard's text leaves a choice, or ONNX Runtime and the text disagree: what we chose
/// (docs/compatibility.md, "Where operators can be read in two ways").
#include <gmock/gmock.h>

#include <cmath>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

std::vector<std::vector<double>> Results(std::string_view text) {
  static const OpRegistry* ops = new OpRegistry(AllOps());
  const auto g = ParseGraph(text, *ops);
  EXPECT_TRUE(g.ok()) << g.status().message();
  std::vector<std::vector<double>> results;
  if (!g.ok()) return results;
  const auto outputs = Evaluate(*g, {});
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  if (!outputs.ok()) return results;
  for (const Datum& d : *outputs) {
    std::vector<double>& values = results.emplace_back();
    for (int64_t i = 0; i < d.tensor().num_elements(); ++i) values.push_back(d.tensor().At(i));
  }
  return results;
}

testing::Matcher<std::vector<double>> Near(const std::vector<double>& want) {
  return testing::Pointwise(testing::DoubleNear(1e-6), want);
}

TEST(JudgedSemantics, TheNewestQueryOfMultiHeadAttentionSeesAllKeys) {
  // Scores are 0, so that a query's result is the mean of what it sees.
  const auto seen = [](std::string_view rest) {
    return Results(
        Cat(R"(graph g() -> (y) { v = const f32[1,4,4] {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}
      k = const f32[1,4,4] {0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0} )",
            rest, " }"))[0];
  };
  EXPECT_THAT(seen(R"(q = const f32[1,2,4] {0,0,0,0, 0,0,0,0}
      y = com.microsoft::MultiHeadAttention(q, k, v) {num_heads=1, unidirectional=1})"),
              Near({1, 0, 0, 0, .25, .25, .25, .25}));
  EXPECT_THAT(seen(R"(q = const f32[1,3,4] {0,0,0,0, 0,0,0,0, 0,0,0,0}
      y = com.microsoft::MultiHeadAttention(q, k, v) {num_heads=1, unidirectional=1})"),
              Near({1, 0, 0, 0, .5, .5, 0, 0, .25, .25, .25, .25}));
}

TEST(JudgedSemantics, ClipOfAnLstmBoundsTheCellBeforeItsActivation) {
  // All gates get 2, clipped to 0.5; the cell grows beyond 0.5 in the third step.
  const auto y = Results(R"(graph g() -> (y, h, c) { x = const f32[4,1,1] {1,1,1,1}
    w = const f32[1,4,1] {2,2,2,2}  r = const f32[1,4,1] {0,0,0,0}
    y, h, c = LSTM(x, w, r) {hidden_size=1, clip=0.5} })");
  const double gate = 1 / (1 + std::exp(-0.5)), in = gate * std::tanh(0.5);
  double cell = 0;
  std::vector<double> want;
  for (int i = 0; i < 4; ++i) {
    cell = gate * cell + in;
    want.push_back(gate * std::tanh(std::min(cell, 0.5)));
  }
  EXPECT_GT(cell, 0.5);
  EXPECT_THAT(y[0], Near(want));
  EXPECT_THAT(y[2], Near({cell}));
}

TEST(JudgedSemantics, ASequenceOfLengthZeroHasNoLastValue) {
  const auto run = [](std::string_view op, std::string_view outputs, int gates,
                      std::string_view more) {
    return Results(Cat("graph g() -> (", outputs, ") { x = const f32[2,2,1] ~1  w = const f32[1,",
                       gates, ",1] ~2  r = const f32[1,", gates, R"(,1] ~3
      l = const i32[2] {0, 1}  s = const f32[1,2,1] {5, 6}
      )",
                       outputs, " = ", op, "(x, w, r, _, l, s", more, ") {hidden_size=1} }"));
  };
  for (const auto& y :
       {run("RNN", "y, h", 1, ""), run("GRU", "y, h", 3, ""), run("LSTM", "y, h, c", 4, ", s")})
    for (size_t i = 1; i < y.size(); ++i) {
      EXPECT_EQ(y[i][0], 0);
      EXPECT_NE(y[i][1], 0);
      EXPECT_EQ(y[0][0], 0);
    }
}

TEST(JudgedSemantics, ResizeAlignsCornersOfTheFractionalExtent) {
  // 4 * 0.6 = 2.4 elements: the second result stands at 3 / 1.4.
  EXPECT_THAT(Results(R"(graph g() -> (y) { x = const f32[4] {0,1,2,3}  s = const f32[1] {0.6}
    y = Resize(x, _, s) {mode="linear", coordinate_transformation_mode="align_corners"} })")[0],
              Near({0, 3 / 1.4}));
  // Of given sizes there is no fraction.
  EXPECT_THAT(Results(R"(graph g() -> (y) { x = const f32[4] {0,1,2,3}  n = const i64[1] {2}
    y = Resize(x, _, _, n) {mode="linear", coordinate_transformation_mode="align_corners"} })")[0],
              Near({0, 3}));
}

TEST(JudgedSemantics, TheOnlyElementOfAGridIsItsCentre) {
  for (const int align : {0, 1})
    EXPECT_THAT(Results(Cat(R"(graph g() -> (y) { t = const f32[1,2,3] {1,0.5,0.25, 0.1,2,0.75}
      n = const i64[4] {1,1,1,1}  y = AffineGrid(t, n) {align_corners=)",
                            align, "} }"))[0],
                Near({0.25, 0.75}));
}

TEST(JudgedSemantics, NormalizationsDoNotOverflow) {
  // The squares are beyond f32.
  const double root = std::sqrt(2.0);
  for (const std::string_view op :
       {"LayerNormalization(x, s)", "RMSNormalization(x, s)", "LpNormalization(x) {p=2, axis=1}"}) {
    const bool lp = op.substr(0, 2) == "Lp";
    EXPECT_THAT(Results(Cat(R"(graph g() -> (y) { s = const f32[2] {1, 1}
      x = const f32[1,2] {1e38, -1e38}  y = )",
                            op, " }"))[0],
                Near(lp ? std::vector<double>{1 / root, -1 / root} : std::vector<double>{1, -1}))
        << op;
  }
  // Statistics are results as well (on cpu: Kernels.NormalizationsOfExtremeNumbers).
  const auto all = Results(R"(graph g() -> (y, mean, inverse) { s = const f32[2] {1, 1}
    x = const f32[1,2] {1e38, -1e38}  y, mean, inverse = LayerNormalization(x, s) })");
  EXPECT_THAT(all[0], Near({1, -1}));
  EXPECT_THAT(all[1], Near({0}));
  EXPECT_NEAR(all[2][0], 1e-38, 1e-44);
}

}  // namespace
}  // namespace infer
