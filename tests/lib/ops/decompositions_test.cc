/// What the standard defines as a function: the reference kernel gives what the decomposition
/// gives, and inference says the same of both.
#include "lib/ops/decompositions.h"

#include <gtest/gtest.h>

#include <set>

#include "lib/ir/body.h"
#include "tests/lib/ops/graph_values.h"

namespace infer {
namespace {

/// Runs the one node of `text` with a decomposition as it is and as its decomposition. f16 is
/// rounded after every node, so it may differ by some units.
void ExpectSame(std::string_view text) {
  SCOPED_TRACE(text);
  auto parsed = ParseGraph(text, TestOps());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const Graph& g = *parsed;
  const auto at = std::find_if(g.nodes().begin(), g.nodes().end(),
                               [](const auto& n) { return n->def().decompose != nullptr; });
  ASSERT_NE(at, g.nodes().end());
  const Node& node = **at;
  const auto body = DecompositionOf(CallOf(node), TestOps());
  ASSERT_TRUE(body.ok()) << body.status().message();

  Random random(7);
  std::vector<Datum> inputs;
  for (const Value* v : g.inputs())
    inputs.emplace_back(RandomTensor(random, v->dtype(), v->tensor_type().shape.static_dims()));
  std::map<std::string, Datum> values;
  EvalOptions options;
  options.tap = [&](const Value& v, const Datum& d) { values[v.name()] = d; };
  const auto whole = Evaluate(g, inputs, options);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  for (size_t i = 0; i < g.inputs().size(); ++i) values[g.inputs()[i]->name()] = inputs[i];
  std::vector<Datum> operands;
  for (const Value* v : node.inputs())
    if (v) operands.push_back(v->constant() ? Datum(*v->constant()) : values.at(v->name()));
  const auto parts = Evaluate(*body, operands);
  ASSERT_TRUE(parts.ok()) << parts.status().message();

  ASSERT_EQ(parts->size(), node.outputs().size());
  for (size_t i = 0; i < parts->size(); ++i) {
    if (!node.output(i)) continue;
    EXPECT_EQ(ToString(body->outputs()[i]->type()), ToString(node.output(i)->type()));
    const Tensor &want = values.at(node.output(i)->name()).tensor(), &got = (*parts)[i].tensor();
    ASSERT_EQ(ToString(got.type()), ToString(want.type()));
    const double unit = want.dtype() == DType::kF16 ? 4e-3 : 2e-6;
    for (int64_t k = 0; k < want.num_elements(); ++k)
      EXPECT_NEAR(got.At(k), want.At(k), unit * std::max(1.0, std::abs(want.At(k)))) << k;
  }
}

TEST(Decompositions, GiveWhatTheReferenceGives) {
  for (std::string_view body : {
           "Gelu(x)",
           R"(Gelu(x) {approximate="tanh"})",
           "Mish(x)",
           "HardSwish(x)",
           "Swish(x)",
           "Swish(x) {alpha=0.5}",
           "LayerNormalization(x, s, b)",
           "LayerNormalization(x, s) {axis=2, epsilon=0.01}",
           "RMSNormalization(x, s)",
           "RMSNormalization(x, s) {axis=2, epsilon=0.5}",
       })
    for (std::string_view t : {"f32", "f16", "f64"})
      ExpectSame(Cat("graph g(x: ", t, "[2,3,4], s: ", t, "[4], b: ", t, "[4]) -> (y) { y = ", body,
                     " }"));
  ExpectSame("graph g(x: f32[2,3]) -> (y) { y = Celu(x) {alpha=2.0} }");
  for (std::string_view op : {"GreaterOrEqual", "LessOrEqual"})
    for (std::string_view t : {"f32", "i64", "u8"})
      ExpectSame(Cat("graph g(x: ", t, "[2,3], z: ", t, "[3]) -> (y) { y = ", op, "(x, z) }"));
  ExpectSame("graph g(x: f32[2,3], t: i32[]) -> (y) { y = CastLike(x, t) }");
  ExpectSame("graph g(x: f32[2,3], t: f16[]) -> (y) { y = CastLike(x, t) }");
}

TEST(Decompositions, OfNormalizations) {
  ExpectSame(R"(graph g(x: f32[2,3,4], s: f32[3,4], b: f32[3,4]) -> (y, m, d) {
    y, m, d = LayerNormalization(x, s, b) {axis=1} })");
  ExpectSame(R"(graph g(x: f32[2,3,4], s: f32[4]) -> (y, d) {
    y, _, d = LayerNormalization(x, s) })");
  for (std::string_view t : {"f32", "f16"}) {
    ExpectSame(Cat("graph g(x: ", t, "[2,4,3,2], s: ", t, "[4], b: ", t,
                   "[4]) -> (y) { y = GroupNormalization(x, s, b) {num_groups=2} }"));
    ExpectSame(Cat("graph g(x: ", t, "[2,4], s: ", t, "[4], b: ", t,
                   "[4]) -> (y) { y = GroupNormalization(x, s, b) {num_groups=1, epsilon=0.1} }"));
  }
}

TEST(Decompositions, OfRotaryEmbedding) {
  for (std::string_view attrs : {"", "{interleaved=1}", "{rotary_embedding_dim=4}",
                                 "{interleaved=1, rotary_embedding_dim=4}"}) {
    const std::string_view half = attrs.find("dim") == attrs.npos ? "4" : "2";
    ExpectSame(Cat("graph g(x: f32[2,3,5,8], c: f32[2,5,", half, "], s: f32[2,5,", half,
                   "]) -> (y) { y = RotaryEmbedding(x, c, s) ", attrs, " }"));
    ExpectSame(Cat("graph g(x: f32[1,3,3,8], c: f32[6,", half, "], s: f32[6,", half,
                   R"(]) -> (y) { p = const i64[1,3] {0, 5, 2}
                   y = RotaryEmbedding(x, c, s, p) )",
                   attrs, " }"));
  }
  ExpectSame(R"(graph g(x: f32[2,5,24], c: f32[2,5,4], s: f32[2,5,4]) -> (y) {
    y = RotaryEmbedding(x, c, s) {num_heads=3} })");
}

TEST(Decompositions, AreOfTheSameOperatorsAsTheirExamples) {
  std::set<std::string_view> names;
  for (const OpDef* def : TestOps().all()) {
    if (!def->decompose) continue;
    names.insert(def->name);
    ExpectSame(def->example);
  }
  EXPECT_TRUE(names.contains("LayerNormalization") && names.contains("CastLike"));
  EXPECT_GE(names.size(), 12u);
}

TEST(Decompositions, SayWhatTheyDoNotKnow) {
  auto g = ParseGraph(
      "graph g(x: f32[*], s: f32[4]) -> (y) { y = LayerNormalization(x, s) {axis=1} }", TestOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto body = DecompositionOf(CallOf(*g->nodes().front()), TestOps());
  EXPECT_EQ(body.status().code(), Code::kUnsupported);
  EXPECT_THAT(body.status().message(), ::testing::HasSubstr("rank of 'X'"));
}

}  // namespace
}  // namespace infer
