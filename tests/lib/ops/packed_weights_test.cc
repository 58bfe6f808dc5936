/// What operators with weights in a form of their own say of these: an input channel acts on an
/// output channel exactly where a weight between them is not 0.
#include "lib/ops/quantized/packed_weights.h"

#include "tests/lib/ops/node_sample.h"

namespace infer {
namespace {

std::vector<PackedWeights> WeightsIn(const Graph& g) {
  std::vector<PackedWeights> all;
  for (const auto& n : g.nodes()) {
    auto found = PackedWeightsOf(CallOf(*n));
    EXPECT_TRUE(found.ok()) << found.status().message();
    if (found.ok()) all.insert(all.end(), found->begin(), found->end());
  }
  return all;
}

int64_t IndexAlong(const Dims& dims, int axis, int64_t flat) {
  const auto at = static_cast<size_t>(axis < 0 ? axis + static_cast<int>(dims.size()) : axis);
  for (size_t d = dims.size(); d-- > at + 1;) flat /= dims[d];
  return flat % dims[at];
}

class PackedWeightsIn : public ::testing::TestWithParam<const char*> {};

/// x is all 9 but for one channel, which is 9 or 1.
TEST_P(PackedWeightsIn, ActWhereTheyAreNotZero) {
  const auto g = ParseGraph(GetParam(), TestOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto weights = WeightsIn(*g);
  ASSERT_EQ(weights.size(), 1u);
  const WeightLayout& layout = weights[0].layout;
  const Dims& dims = weights[0].numbers.dims();
  const TensorType type = g->inputs()[0]->tensor_type();
  const auto run = [&](int64_t channel) {
    Tensor x(type.dtype, type.shape.static_dims());
    for (int64_t i = 0; i < x.num_elements(); ++i)
      x.Set(i, IndexAlong(x.dims(), layout.data_axis, i) == channel ? 1 : 9);
    auto out = Evaluate(*g, std::vector<Datum>{x});
    EXPECT_TRUE(out.ok()) << out.status().message();
    return (*out)[0].tensor();
  };
  const Tensor before = run(-1);
  const int out_axis = layout.is_window ? 1 : -1;
  const int64_t outputs = layout.OutputChannels(dims);
  int64_t zero = 0;
  for (int64_t in = 0; in < layout.InputChannels(dims); ++in) {
    std::vector<bool> joined(static_cast<size_t>(outputs)), acts(static_cast<size_t>(outputs));
    layout.ForEach(dims, [&](size_t i, int64_t c, int64_t m) {
      if (c == in && weights[0].numbers.At(static_cast<int64_t>(i)) != 0)
        joined[static_cast<size_t>(m)] = true;
    });
    const Tensor after = run(in);
    for (int64_t i = 0; i < after.num_elements(); ++i)
      if (after.At(i) != before.At(i))
        acts[static_cast<size_t>(IndexAlong(after.dims(), out_axis, i))] = true;
    EXPECT_EQ(acts, joined) << "input channel " << in;
    zero += std::count(joined.begin(), joined.end(), false);
  }
  EXPECT_GT(zero, 0);
}

INSTANTIATE_TEST_SUITE_P(Operators, PackedWeightsIn,
                         ::testing::Values(
                             R"(graph g(x: u8[2,3]) -> (y) {
  w = const u8[3,2] {5, 7, 6, 8, 5, 9}
  xz = const u8[] {3}
  wz = const u8[2] {5, 8}
  y = MatMulInteger(x, w, xz, wz) })",
                             R"(graph g(x: u8[2,3]) -> (y) {
  w = const i8[3,2] {5, 7, 0, 8, 5, 0}
  y = MatMulInteger(x, w) })",
                             R"(graph g(x: u8[1,4,3]) -> (y) {
  w = const i8[2,2,2] {4, 4, 5, 4, 7, 3, 7, 7}
  xz = const u8[] {0}
  wz = const i8[2] {4, 7}
  y = ConvInteger(x, w, xz, wz) {group=2} })",
                             R"(graph g(x: u8[1,2,3,3]) -> (y) {
  xs = const f32[] {1}
  xz = const u8[] {0}
  w = const i8[3,2,1,1] {4, 5, 7, 0, 0, 2}
  ws = const f32[3] {0.5, 0.5, 0.5}
  wz = const i8[3] {4, 0, 0}
  y = QLinearConv(x, xs, xz, w, ws, wz, xs, xz) })",
                             R"(graph g(x: u8[2,3]) -> (y) {
  s = const f32[] {1}
  z = const u8[] {0}
  w = const u8[3,2] {5, 9, 6, 8, 5, 9}
  wz = const u8[2] {5, 8}
  y = QLinearMatMul(x, s, z, w, s, wz, s, z) })",
                             R"(graph g(x: u8[2,3]) -> (y) {
  s = const f32[] {1}
  z = const u8[] {0}
  w = const u8[2,3] {5, 6, 5, 9, 8, 9}
  wz = const u8[2] {5, 8}
  y = com.microsoft::QGemm(x, s, z, w, s, wz) {transB=1} })",
                             R"(graph g(x: f32[1,16]) -> (y) {
  w = const u8[2,1,8] {136, 152, 8, 128, 136, 136, 136, 255, 136, 135, 136, 137, 0, 136, 136, 120}
  s = const f32[2] {1, 2}
  y = com.microsoft::MatMulNBits(x, w, s) {N=2, K=16, block_size=16} })",
                             R"(graph g(x: f32[1,16]) -> (y) {
  w = const u8[2,1,8] {136, 152, 8, 128, 136, 136, 136, 255, 51, 49, 51, 137, 0, 51, 51, 3}
  s = const f32[2] {1, 2}
  z = const u8[2] {8, 3}
  y = com.microsoft::MatMulNBits(x, w, s, z) {N=2, K=16, block_size=16} })",
                             R"(graph g(x: f32[1,2,3]) -> (y) {
  w = const f32[2,2,2] {0, 0, 1, 2, 0, 3, 0, 0}
  y = com.microsoft::FusedConv(x, w) })",
                             R"(graph g(x: f32[2,3]) -> (y) {
  w = const f32[2,3] {0, 1, 2, 3, 0, 4}
  y = com.microsoft::FusedGemm(x, w) {transB=1} })",
                             R"(graph g(x: f32[2,3]) -> (y) {
  w = const f32[2,3] {0, 1, 2, 3, 0, 4}
  y = com.microsoft::FusedMatMul(x, w) {transB=1} })"));

TEST(PackedWeightsOf, AnLstmHasTwoWithAZeroPointPerRowOrDirection) {
  const auto g = ParseGraph(R"(graph g(x: f32[5,2,3]) -> (y) {
  w = const i8[1,3,4] {1, 2, 3, 4, 0, 2, 0, 0, 5, 6, 7, 8}
  r = const i8[1,1,4] {3, 0, 3, 1}
  s = const f32[1,4] {0.1, 0.1, 0.1, 0.1}
  wz = const i8[1,4] {1, 2, 3, 4}
  t = const f32[1] {0.1}
  rz = const i8[1] {3}
  y, h, c = com.microsoft::DynamicQuantizeLSTM(x, w, r, _, _, _, _, _, s, wz, t, rz) {hidden_size=1}
})",
                            TestOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto weights = WeightsIn(*g);
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights[0].operand, 1u);
  EXPECT_EQ(ToString(weights[0].numbers, 64), "f32[1,3,4] {0, 0, 0, 0, -1, 0, -3, -4, 4, 4, 4, 4}");
  EXPECT_EQ(ToString(weights[1].numbers, 64), "f32[1,1,4] {0, -3, 0, -2}");
}

/// An operator that multiplies by codes and is not known here would be counted as one without
/// weights.
TEST(PackedWeightsOf, KnowsEveryOperatorThatMultipliesByCodes) {
  for (const OpDef* def : TestOps().all()) {
    if (def->retired() || !def->traits.Has(Trait::kQuantization)) continue;
    if (!def->traits.HasAny(Trait::kContraction | Trait::kRecurrent)) continue;
    const auto g = ParseGraph(def->example, TestOps());
    ASSERT_TRUE(g.ok()) << def->name;
    EXPECT_FALSE(WeightsIn(*g).empty()) << def->name;
  }
}

TEST(PackedWeightsOf, LeavesOutWhatIsNotConstant) {
  const auto g = ParseGraph(R"(graph g(x: u8[2,3], z: u8[]) -> (y) {
  w = const u8[3,2] {5, 7, 6, 8, 5, 9}
  y = MatMulInteger(x, w, z, z) })",
                            TestOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_TRUE(WeightsIn(*g).empty());
}

}  // namespace
}  // namespace infer
