/// CausalConvWithState, LinearAttention, DeformConv, RegexFullMatch, the NaN of f4e2m1, models of
/// ai.onnx.ml, distances and hashes of ONNX Runtime.
#include <gtest/gtest.h>

#include <limits>

#include "lib/ir/editor.h"
#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/support/strings.h"
#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

TEST(CausalConvWithState, ReadsThePastAndHandsItOn) {
  const OpResult r = RunOp(
      "CausalConvWithState", {},
      {F({1, 1, 3}, {1, 2, 3}), F({1, 1, 3}, {100, 10, 1}), F({0.5f}), F({1, 1, 2}, {8, 9})}, 2);
  ASSERT_TRUE(r.status.ok()) << r.status.message();
  ExpectClose(r.y(), F({1, 1, 3}, {891.5f, 912.5f, 123.5f}));
  ExpectClose(r.outputs[1], F({1, 1, 2}, {2, 3}));
}

TEST(CausalConvWithState, TwoCallsAreOne) {
  const Tensor w = F({1, 1, 3}, {0.5f, -1, 2}), x = F({1, 1, 4}, {1, -2, 3, 5});
  const OpResult whole = RunOp("CausalConvWithState", {}, {x, w}, 2);
  const OpResult first = RunOp("CausalConvWithState", {}, {F({1, 1, 1}, {1}), w}, 2);
  ASSERT_TRUE(first.status.ok());
  const OpResult rest = RunOp("CausalConvWithState", {},
                              {F({1, 1, 3}, {-2, 3, 5}), w, Tensor(), first.outputs[1]}, 2);
  ASSERT_TRUE(rest.status.ok()) << rest.status.message();
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(rest.y().At(i), whole.y().At(i + 1));
  ExpectClose(rest.outputs[1], whole.outputs[1]);
}

TEST(LinearAttention, DeltaRuleReplacesWhatTheKeyMeant) {
  // With beta 1 and keys of length 1, reading a key gives the value last written to it.
  const AttrMap attrs = {{"q_num_heads", int64_t{1}},
                         {"kv_num_heads", int64_t{1}},
                         {"scale", 1.0f},
                         {"update_rule", std::string("delta")}};
  const Tensor keys = F({1, 3, 2}, {1, 0, 0, 1, 1, 0});
  const OpResult r =
      RunOp("LinearAttention", attrs,
            {keys, keys, F({1, 3, 1}, {5, 6, 7}), Tensor(), Tensor(), F({1, 3, 1}, {1, 1, 1})}, 2);
  ASSERT_TRUE(r.status.ok()) << r.status.message();
  ExpectClose(r.y(), F({1, 3, 1}, {5, 6, 7}));
  ExpectClose(r.outputs[1], F({1, 1, 2, 1}, {7, 6}));
}

TEST(LinearAttention, RefusesDecayWithoutARuleForIt) {
  const AttrMap attrs = {{"q_num_heads", int64_t{1}},
                         {"kv_num_heads", int64_t{1}},
                         {"update_rule", std::string("linear")}};
  const Tensor x = F({1, 1, 2}, {1, 2});
  EXPECT_FALSE(
      RunOp("LinearAttention", attrs, {x, x, x, Tensor(), F({1, 1, 1}, {0})}, 2).status.ok());
}

TEST(DeformConv, WithoutOffsetsIsAConvolution) {
  const Tensor x = F({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Tensor w = F({1, 1, 2, 2}, {1, -2, 3, 0.5f});
  const Tensor offset = Tensor::Zeros(DType::kF32, {1, 8, 2, 2});
  ExpectClose(Call("DeformConv", {x, w, offset}), Call("Conv", {x, w}));
}

TEST(DeformConv, ReadsBetweenPointsAndZeroOutside) {
  const Tensor x = F({1, 1, 1, 3}, {1, 2, 4}), w = F({1, 1, 1, 1}, {10});
  // Half a step to the right: the last point has only half of its neighbours inside.
  const Tensor offset = F({1, 2, 1, 3}, {0, 0, 0, 0.5f, 0.5f, 0.5f});
  ExpectClose(Call("DeformConv", {x, w, offset}), F({1, 1, 1, 3}, {15, 30, 20}));
}

TEST(RegexFullMatch, WantsTheWholeString) {
  const Tensor x = Tensor::OfStrings({3}, {"aab", "b", "aabc"});
  const Tensor y = Call("RegexFullMatch", {x}, {{"pattern", std::string("a+b")}});
  EXPECT_EQ(y.ToInts(), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_FALSE(RunOp("RegexFullMatch", {{"pattern", std::string("(")}}, {x}).status.ok());
}

TEST(Cast, TheNaNOfFloat4IsMinusZero) {
  const Tensor y = Call("Cast", {F({std::numeric_limits<float>::quiet_NaN(), 7})},
                        {{"to", static_cast<int64_t>(DType::kF4E2M1)}});
  EXPECT_EQ(y.At(0), 0);
  EXPECT_TRUE(std::signbit(y.At(0)));
  EXPECT_EQ(y.At(1), 6);
}

// ---- ai.onnx.ml ------------------------------------------------------------------------------

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

TEST(LabelEncoder, MapsAndHasADefault) {
  const AttrMap attrs = {{"keys_strings", Strings{"a", "b", "a"}},
                         {"values_int64s", Ints{1, 2, 3}}};
  // A key that stands twice has its last value.
  EXPECT_EQ(
      Call("ai.onnx.ml::LabelEncoder", {Tensor::OfStrings({3}, {"b", "a", "c"})}, attrs).ToInts(),
      (Ints{2, 3, -1}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const AttrMap floats = {{"keys_floats", Floats{nan, 0}}, {"values_floats", Floats{1, 2}}};
  ExpectClose(Call("ai.onnx.ml::LabelEncoder", {F({nan, -0.0f, 3})}, floats), F({1, 2, 0}));
}

TEST(TreeEnsembleClassifier, OneScoreOfTwoClasses) {
  AttrMap attrs = {{"classlabels_int64s", Ints{4, 7}},
                   {"nodes_treeids", Ints{0, 0, 0}},
                   {"nodes_nodeids", Ints{0, 1, 2}},
                   {"nodes_featureids", Ints{0, 0, 0}},
                   {"nodes_values", Floats{0.5f, 0, 0}},
                   {"nodes_modes", Strings{"BRANCH_LEQ", "LEAF", "LEAF"}},
                   {"nodes_truenodeids", Ints{1, 0, 0}},
                   {"nodes_falsenodeids", Ints{2, 0, 0}},
                   {"class_treeids", Ints{0, 0}},
                   {"class_nodeids", Ints{1, 2}},
                   {"class_ids", Ints{0, 0}},
                   {"class_weights", Floats{0.25f, 0.75f}}};
  const auto run = [&] {
    return RunOp("TreeEnsembleClassifier", attrs, {F({2, 1}, {0, 1})}, 2, "ai.onnx.ml");
  };
  const OpResult r = run();
  ASSERT_TRUE(r.status.ok()) << r.status.message();
  EXPECT_EQ(r.y().ToInts(), (Ints{4, 7}));
  ExpectClose(r.outputs[1], F({2, 2}, {0.75f, 0.25f, 0.25f, 0.75f}));
  attrs["nodes_truenodeids"] = Ints{0, 0, 0};  // a cycle
  EXPECT_FALSE(run().status.ok());
}

/// The shape of a tree: where feature 0 is at most 0 the row ends at node 1, else at node 2.
const AttrMap kStump = {{"nodes_treeids", Ints{0, 0, 0}},
                        {"nodes_nodeids", Ints{0, 1, 2}},
                        {"nodes_featureids", Ints{0, 0, 0}},
                        {"nodes_values", Floats{0, 0, 0}},
                        {"nodes_modes", Strings{"BRANCH_LEQ", "LEAF", "LEAF"}},
                        {"nodes_truenodeids", Ints{1, 0, 0}},
                        {"nodes_falsenodeids", Ints{2, 0, 0}},
                        {"target_treeids", Ints{0, 0, 0, 0}},
                        {"target_nodeids", Ints{2, 1, 1, 2}},
                        {"target_ids", Ints{0, 0, 0, 0}},
                        {"target_weights", Floats{10, 1, 2, 20}}};

/// As ONNX Runtime reads it, and skl2onnx means it: paths and leaves of a decision tree.
TEST(TreeEnsembleRegressor, OfOneTargetTheFirstVoteOfALeafCounts) {
  const Tensor x = F({2, 1}, {-1, 1});
  AttrMap attrs = kStump;
  attrs["n_targets"] = int64_t{1};
  ExpectClose(Call("ai.onnx.ml::TreeEnsembleRegressor", {x}, attrs), F({2, 1}, {1, 10}));
  attrs["n_targets"] = int64_t{2};
  ExpectClose(Call("ai.onnx.ml::TreeEnsembleRegressor", {x}, attrs), F({2, 2}, {3, 0, 30, 0}));
}

/// Nodes in any order, numbered with gaps, of two trees.
TEST(TreeEnsembleRegressor, NodesStandInAnyOrder) {
  const AttrMap attrs = {
      {"n_targets", int64_t{1}},
      {"nodes_treeids", Ints{7, 3, 3, 7, 3, 7}},
      {"nodes_nodeids", Ints{20, 5, 9, 0, 1, 11}},
      {"nodes_featureids", Ints{0, 0, 1, 0, 0, 0}},
      {"nodes_values", Floats{0, 0, 0.5f, 2, 0, 0}},
      {"nodes_modes", Strings{"LEAF", "LEAF", "BRANCH_GT", "BRANCH_LT", "LEAF", "LEAF"}},
      {"nodes_truenodeids", Ints{0, 0, 5, 11, 0, 0}},
      {"nodes_falsenodeids", Ints{0, 0, 1, 20, 0, 0}},
      {"target_treeids", Ints{3, 7, 3, 7}},
      {"target_nodeids", Ints{1, 20, 5, 11}},
      {"target_ids", Ints{0, 0, 0, 0}},
      {"target_weights", Floats{1, 10, 2, 20}}};
  ExpectClose(Call("ai.onnx.ml::TreeEnsembleRegressor", {F({3, 2}, {1, 1, 1, 0, 5, 0})}, attrs),
              F({3, 1}, {22, 21, 11}));
}

/// Attributes are read once for a node, and again where they change.
TEST(TreeEnsembleRegressor, IsReadOncePerNode) {
  Graph g(TestOps());
  GraphEditor e(g);
  Value* const x = e.AddInput("x", TensorType{DType::kF32, Shape(Dims{2, 1})});
  AttrMap attrs = kStump;
  attrs["n_targets"] = int64_t{1};
  const auto y = e.Add("TreeEnsembleRegressor", {x}, attrs, "ai.onnx.ml");
  ASSERT_TRUE(y.ok()) << y.status().message();
  e.MarkOutput(*y);
  Node& node = *(*y)->producer();
  const auto read = node.prepared().load();
  ASSERT_TRUE(read);
  const Graph copy = g.Clone();
  EXPECT_EQ(copy.nodes().front()->prepared().load(), read);
  const Datum input = F({2, 1}, {-1, 1});
  const auto run = [&] { return (*Evaluate(g, std::span(&input, 1)))[0].tensor(); };
  ExpectClose(run(), F({2, 1}, {1, 10}));
  EXPECT_EQ(node.prepared().load(), read);
  e.SetAttr(node, "target_weights", Floats{5, 6, 7, 8});
  ExpectClose(run(), F({2, 1}, {6, 5}));
  EXPECT_NE(node.prepared().load(), read);
}

/// Known values of the algorithm (its author's test program gives them, too).
TEST(MurmurHash3, KnownValues) {
  Tensor text(DType::kString, {3});
  text.mutable_strings()[1] = "a";
  text.mutable_strings()[2] = "hello, world";
  EXPECT_EQ(Call("com.microsoft::MurmurHash3", {text}).ToInts(), (Ints{0, 0x3c2569b2, 0x149bbb7f}));
  EXPECT_EQ(Call("com.microsoft::MurmurHash3", {text}, {{"seed", int64_t{1}}}).ToInts()[0],
            0x514e28b7);
}

TEST(CDist, Metrics) {
  const Tensor a = F({1, 2}, {0, 0}), b = F({2, 2}, {3, 4, 1, 0});
  ExpectClose(Call("com.microsoft::CDist", {a, b}), F({1, 2}, {25, 1}));
  ExpectClose(Call("com.microsoft::CDist", {a, b}, {{"metric", std::string("euclidean")}}),
              F({1, 2}, {5, 1}));
}

/// A loop over the other extents of an operand without elements would take days.
TEST(EmptyOperands, OfHugeExtentsAreNotWalked) {
  for (std::string_view call : {"EyeLike(x)", "TopK(x, k) {axis=1}", "ai.onnx.ml::Normalizer(x)",
                                "LpNormalization(x)", "Softmax(x)"}) {
    const std::string outs = call.starts_with("TopK") ? "y, i" : "y";
    const auto g = ParseGraph(Cat("graph g(x: f32[1099511627776,0]) -> (y) { k = const i64[1] {0} ",
                                  outs, " = ", call, " }"),
                              TestOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const Datum x = Tensor(DType::kF32, {int64_t{1} << 40, 0});
    EXPECT_EQ(Evaluate(*g, std::span(&x, 1)).status().code(), Code::kUnsupported) << call;
  }
  // Not while the graph is built either.
  EXPECT_TRUE(
      ParseGraph("graph g() -> (y) { x = const f32[1099511627776,0] {} y = EyeLike(x) }", TestOps())
          .ok());
}

TEST(FeatureVectorizer, DimensionsBeyondAnyTensorAreRefused) {
  const AttrMap attrs = {{"inputdimensions", Ints{3, std::numeric_limits<int64_t>::max()}}};
  const OpResult r = RunOp("FeatureVectorizer", attrs, {F({1, 3}), F({1, 3})}, 1, "ai.onnx.ml");
  EXPECT_EQ(r.status.code(), Code::kInvalidModel) << r.status.message();
}

TEST(SVMRegressor, SumsKernels) {
  const AttrMap attrs = {
      {"kernel_type", std::string("POLY")}, {"kernel_params", Floats{0.5f, 1, 2}},
      {"n_supports", int64_t{2}},           {"support_vectors", Floats{2, 0, 0, 4}},
      {"coefficients", Floats{1, -0.5f}},   {"rho", Floats{10}}};
  // (0.5 * 2 + 1)^2 - 0.5 (0.5 * 8 + 1)^2 + 10
  ExpectClose(Call("ai.onnx.ml::SVMRegressor", {F({1, 2}, {1, 2})}, attrs), F({1, 1}, {1.5f}));
}

TEST(SVMClassifier, PairsOfClassesVote) {
  // One support vector per class, linear: a pair's decision is a difference of products.
  AttrMap attrs = {{"kernel_type", std::string("LINEAR")},
                   {"vectors_per_class", Ints{1, 1, 1}},
                   {"support_vectors", Floats{1, 0, 0, 1, -1, -1}},
                   {"coefficients", Floats{1, -1, -1, 1, 1, -1}},
                   {"rho", Floats{0, 0, 0}},
                   {"classlabels_strings", Strings{"right", "up", "down"}}};
  const auto run = [&] {
    return RunOp("SVMClassifier", attrs, {F({2, 2}, {2, 1, -1, -3})}, 2, "ai.onnx.ml");
  };
  const OpResult r = run();
  ASSERT_TRUE(r.status.ok()) << r.status.message();
  EXPECT_EQ(r.y().strings()[0], "right");
  EXPECT_EQ(r.y().strings()[1], "down");
  // (0, 1): 2 - 1; (0, 2): 2 + 3; (1, 2): 1 + 3.
  ExpectClose(r.outputs[1], F({2, 3}, {1, 5, 4, 2, -5, -7}));
  attrs["prob_a"] = Floats{-1, -1, -1};
  EXPECT_FALSE(run().status.ok()) << "prob_b is missing";
  attrs["prob_b"] = Floats{0, 0, 0};
  const OpResult p = run();
  ASSERT_TRUE(p.status.ok()) << p.status.message();
  for (int64_t row = 0; row < 2; ++row)
    EXPECT_NEAR(
        p.outputs[1].At(3 * row) + p.outputs[1].At(3 * row + 1) + p.outputs[1].At(3 * row + 2), 1,
        1e-6);
  EXPECT_GT(p.outputs[1].At(0), p.outputs[1].At(1));
  attrs["vectors_per_class"] = Ints{1, 1, int64_t{1} << 62};
  EXPECT_FALSE(run().status.ok());
}

TEST(Scaler, TakesTheOffsetFirst) {
  ExpectClose(Call("ai.onnx.ml::Scaler", {F({2, 2}, {1, 2, 3, 4})},
                   {{"offset", Floats{1, 2}}, {"scale", Floats{2, 0.5f}}}),
              F({2, 2}, {0, 0, 4, 1}));
}

TEST(Normalizer, DividesEachRow) {
  const Tensor x = F({2, 2}, {3, -4, 0, 0});
  ExpectClose(Call("ai.onnx.ml::Normalizer", {x}, {{"norm", std::string("L2")}}),
              F({2, 2}, {0.6f, -0.8f, 0, 0}));
  ExpectClose(Call("ai.onnx.ml::Normalizer", {x}, {{"norm", std::string("L1")}}),
              F({2, 2}, {3 / 7.f, -4 / 7.f, 0, 0}));
}

TEST(Imputer, ReplacesNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ExpectClose(Call("ai.onnx.ml::Imputer", {F({2, 2}, {nan, 1, 2, nan})},
                   {{"imputed_value_floats", Floats{7, 8}}, {"replaced_value_float", nan}}),
              F({2, 2}, {7, 1, 2, 8}));
}

TEST(OneHotEncoder, AnUnlistedCategoryIsAllZero) {
  ExpectClose(Call("ai.onnx.ml::OneHotEncoder", {Tensor::OfStrings({2}, {"b", "x"})},
                   {{"cats_strings", Strings{"a", "b"}}, {"zeros", int64_t{1}}}),
              F({2, 2}, {0, 1, 0, 0}));
}

TEST(CategoryMapper, GoesBothWays) {
  const AttrMap attrs = {{"cats_int64s", Ints{0, 1}}, {"cats_strings", Strings{"cat", "dog"}}};
  EXPECT_EQ(
      Call("ai.onnx.ml::CategoryMapper", {Tensor::OfStrings({2}, {"dog", "cow"})}, attrs).ToInts(),
      (Ints{1, -1}));
  const Tensor names = Call("ai.onnx.ml::CategoryMapper", {Tensor::Int64s({0, 5})}, attrs);
  EXPECT_EQ(names.strings()[0], "cat");
  EXPECT_EQ(names.strings()[1], "_Unused");
}

}  // namespace
}  // namespace infer
