#include "lib/support/strings.h"
#include "quant/convert/dynamic.h"
#include "quant/convert/narrow.h"
#include "quant/scheme/quantize.h"
#include "quant/search/mixed_model.h"
#include "quant/weight_only/weight_only.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

using testing::HasSubstr;

/// A product with a bias, which preparation makes a Gemm, and one without.
Graph TwoProducts(std::string_view first = "0.5") {
  std::string w = std::string(first), v = "0.1";
  for (int i = 1; i < 1024; ++i) {
    w += Cat(", ", 0.001 * (i % 37));
    v += Cat(", ", 0.002 * (i % 23));
  }
  std::string b = "1";
  for (int i = 1; i < 32; ++i) b += ", 1";
  return MustParse(Cat("graph g(x: f32[4,32]) -> (y: f32[4,32]) {\n  w = const f32[32,32] {", w,
                       "}\n  b = const f32[32] {", b, "}\n  v = const f32[32,32] {", v,
                       "}\n  m = MatMul(x, w) {name=\"first\"}\n  a = Add(m, b) {name=\"bias\"}\n"
                       "  t = Tanh(a)\n  y = MatMul(t, v) {name=\"second\"}\n}\n"));
}

std::vector<std::string> IntegerLayers(const QuantScheme& scheme) {
  const Graph original = TwoProducts();
  auto prepared = PrepareStatic(original);
  EXPECT_TRUE(prepared.ok());
  if (!prepared.ok()) return {};
  const auto plan = PlanQuantization(*prepared, original, scheme);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  std::vector<std::string> ops;
  if (plan.ok())
    for (const PlannedNode& p : plan->nodes)
      if (p.integer) ops.emplace_back(p.node->op());
  return ops;
}

/// An operator of the model as it came is what the user knows.
TEST(IncludeOperator, OfTheOriginal) {
  QuantScheme s;
  s.include = {{NodePattern::Kind::kOp, "MatMul"}};
  EXPECT_THAT(IntegerLayers(s), testing::ElementsAre("Gemm", "MatMul"));
  s.include = {{NodePattern::Kind::kOp, "Gemm"}};
  EXPECT_THAT(IntegerLayers(s), testing::ElementsAre("Gemm"));
  s.include.clear();
  s.exclude = {{NodePattern::Kind::kOp, "MatMul"}};
  EXPECT_THAT(IntegerLayers(s), testing::IsEmpty());
  s.exclude = {{NodePattern::Kind::kOp, "Add"}};  // a bias is not what the layer is
  EXPECT_THAT(IntegerLayers(s), testing::ElementsAre("Gemm", "MatMul"));
}

/// Operators of layers that are no longer f32.
std::vector<std::string> ChangedLayers(const Result<QuantizeReport>& report) {
  EXPECT_TRUE(report.ok()) << report.status().message();
  std::vector<std::string> ops;
  if (report.ok())
    for (const QuantizedLayer& l : report->layers)
      if (l.precision != "f32" && (l.op == "Gemm" || l.op == "MatMul")) ops.push_back(l.op);
  return ops;
}

TEST(IncludeOperator, OfTheOriginalInEveryMode) {
  const std::vector<NodePattern> matmul{{NodePattern::Kind::kOp, "MatMul"}},
      gemm{{NodePattern::Kind::kOp, "Gemm"}};
  const auto backend = MakeReferenceBackend();
  using testing::ElementsAre;
  for (const bool excluded : {false, true}) {
    const auto dynamic = [&](const std::vector<NodePattern>& patterns) {
      Graph g = TwoProducts();
      DynamicOptions o;
      (excluded ? o.exclude : o.include) = patterns;
      return QuantizeDynamic(g, o);
    };
    const auto half = [&](const std::vector<NodePattern>& patterns) {
      Graph g = TwoProducts();
      NarrowOptions o;
      (excluded ? o.exclude : o.include) = patterns;
      return NarrowFloats(g, NormalSamples(g, 2, 1), *backend, o);
    };
    if (excluded) {
      EXPECT_THAT(ChangedLayers(dynamic(gemm)), ElementsAre("MatMul"));
      EXPECT_THAT(ChangedLayers(half(gemm)), ElementsAre("MatMul"));
      EXPECT_THAT(dynamic(matmul).status().message(),
                  HasSubstr("Gemm 'bias': excluded by operator 'MatMul'"));
    } else {
      EXPECT_THAT(ChangedLayers(dynamic(matmul)), ElementsAre("Gemm", "MatMul"));
      EXPECT_THAT(ChangedLayers(half(matmul)), ElementsAre("Gemm", "MatMul"));
      EXPECT_THAT(dynamic({{NodePattern::Kind::kOp, "Add"}}).status().message(),
                  HasSubstr("no include entry matches it"));
    }
  }
  QuantizeOptions options;
  options.scheme.include = matmul;
  const Graph g = TwoProducts();
  const auto mixed = MixedModel::Make(g, NormalSamples(g, 4, 1), *backend, options, {});
  ASSERT_TRUE(mixed.ok()) << mixed.status().message();
  for (const SearchLayer& l : mixed->layers()) EXPECT_TRUE(l.Allows(Precision::kInt8)) << l.name;
}

TEST(WeightsOfHalves, AreNamedInEveryMode) {
  const Graph g = MustParse(
      "graph g(x: f16[4,32]) -> (y) { w = const f16[32,32] ~1  y = MatMul(x, w) {name=\"m\"} }");
  const auto backend = MakeReferenceBackend();
  const Samples samples = NormalSamples(g, 2, 1);
  Graph a = g.Clone(), b = g.Clone(), c = g.Clone(), d = g.Clone();
  const Status all[] = {QuantizeStatic(a, samples, *backend).status(),
                        QuantizeWeightOnly(b, {}).status(), QuantizeDynamic(c, {}).status(),
                        NarrowFloats(d, samples, *backend).status()};
  for (const Status& s : all) {
    EXPECT_EQ(s.code(), Code::kInvalidArgument) << s.message();
    EXPECT_THAT(s.message(), HasSubstr("the weights are f16 already (MatMul 'm'"));
  }
}

TEST(WeightsOfNan, AreAnInvalidModelInEveryMode) {
  const Graph g = TwoProducts("nan");
  const auto backend = MakeReferenceBackend();
  const Samples samples = NormalSamples(g, 4, 1);
  Graph a = g.Clone(), b = g.Clone(), c = g.Clone();
  const Status all[] = {QuantizeStatic(a, samples, *backend).status(),
                        QuantizeWeightOnly(b, {}).status(), QuantizeDynamic(c, {}).status(),
                        MixedModel::Make(g, samples, *backend, {}, {}).status()};
  for (const Status& s : all) {
    EXPECT_EQ(s.code(), Code::kInvalidModel) << s.message();
    EXPECT_THAT(s.message(), HasSubstr("NaN"));
  }
}

}  // namespace
}  // namespace infer
