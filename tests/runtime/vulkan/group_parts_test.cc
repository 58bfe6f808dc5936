/// Groups that no shader takes whole, because of extents that come with the run, run in parts on
/// the device: of floats, and of codes with quantized weights.
#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

/// Tensors for inputs of these extents, of codes or of normal floats.
std::vector<Datum> OfExtents(const Graph& g, const std::vector<Dims>& extents) {
  Random random(9);
  std::vector<Datum> inputs;
  for (size_t i = 0; i < extents.size(); ++i) {
    Tensor t(g.inputs()[i]->dtype(), extents[i]);
    for (int64_t e = 0; e < t.num_elements(); ++e)
      if (IsFloat(t.dtype()))
        t.Set(e, random.Normal());
      else
        t.SetInt(e, random.Below(200));
    inputs.emplace_back(std::move(t));
  }
  return inputs;
}

/// Runs once with each list of extents, in one context, and compares with the reference: floats as
/// elsewhere, codes bit for bit. The kernels are those of the last.
std::vector<std::string> RunWithExtents(const std::string& text,
                                        const std::vector<std::vector<Dims>>& turns) {
  const auto backend = VulkanOver();
  const Graph g = ParsedGraph(text);
  const auto program = backend->Compile(g, {});
  EXPECT_TRUE(program.ok()) << program.status().message();
  if (!program.ok()) return {};
  const auto context = *(*program)->NewContext();
  for (const auto& extents : turns) {
    const auto inputs = OfExtents(g, extents);
    for (size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(context->BindInput(i, inputs[i]).ok());
    const Status ran = context->Run();
    EXPECT_TRUE(ran.ok()) << ran.message();
    const auto want = Evaluate(g, inputs);
    EXPECT_TRUE(want.ok()) << want.status().message();
    if (!ran.ok() || !want.ok()) return {};
    for (size_t o = 0; o < want->size(); ++o) {
      const Tensor &got = context->output(o).tensor(), &right = (*want)[o].tensor();
      if (IsFloat(right.dtype()))
        ExpectCloseTo(got, right, Cat(text, " output ", o));
      else
        EXPECT_TRUE(BitEqual(got, right)) << text << " output " << o;
    }
  }
  const auto kernels = context->step_kernels();
  return {kernels.begin(), kernels.end()};
}

/// Some step ran in parts, and all parts on the device.
void ExpectParts(const std::vector<std::string>& kernels) {
  EXPECT_THAT(kernels, Contains(HasSubstr(" + ")));
  for (const std::string& k : kernels)
    EXPECT_THAT(Split(k, '+'), Each(HasSubstr("vulkan:"))) << k;
}

TEST(VulkanGroupParts, AChainThatBroadcastsOverMoreAxesThanItsShader) {
  ExpectParts(RunWithExtents(
      "graph g(x: f32[A,B,C,D,E], z: f32[F,G,H,I,J]) -> (y) { b = Add(x, z) c = Tanh(b) "
      "y = Sigmoid(c) }",
      {{{2, 3, 2, 3, 2}, {2, 3, 2, 3, 2}}, {{2, 1, 3, 1, 2}, {1, 2, 1, 3, 1}}}));
}

/// A QDQ convolution whose residual broadcasts in the run, and one whose does not.
TEST(VulkanGroupParts, ConvolutionOfCodesWithAResidualThatBroadcasts) {
  const std::string text =
      "graph g(q: u8[1,8,H,9], r: u8[1,8,R,9]) -> (y) { s = const f32[] {0.05} z = const u8[] {110} "
      "x = DequantizeLinear(q, s, z) w0 = const i8[12,8,3,3] ~1 u = const f32[] {0.01} "
      "w = DequantizeLinear(w0, u) b = const f32[12] ~3 v0 = const i8[8,12,1,1] ~4 "
      "v = DequantizeLinear(v0, u) c = Conv(x, w, b) {pads=[1,1,1,1]} t = const f32[] {0.09} "
      "k = QuantizeLinear(c, t, z) d = DequantizeLinear(k, t, z) e = Conv(d, v) "
      "o = DequantizeLinear(r, s, z) a = Add(e, o) f = Relu(a) y = QuantizeLinear(f, t, z) }";
  ExpectParts(
      RunWithExtents(text, {{{1, 8, 7, 9}, {1, 8, 7, 9}}, {{1, 8, 7, 9}, {1, 8, 1, 9}}}));
}

/// The same behind a product.
TEST(VulkanGroupParts, ProductOfCodesWithAResidualThatBroadcasts) {
  const std::string text =
      "graph g(q: u8[N,40], r: u8[M,30]) -> (y) { s = const f32[] {0.05} z = const u8[] {110} "
      "x = DequantizeLinear(q, s, z) w0 = const i8[40,30] ~1 u = const f32[] {0.01} "
      "w = DequantizeLinear(w0, u) p = MatMul(x, w) o = DequantizeLinear(r, s, z) a = Add(p, o) "
      "t = const f32[] {0.3} y = QuantizeLinear(a, t, z) }";
  ExpectParts(RunWithExtents(text, {{{6, 40}, {6, 30}}, {{6, 40}, {1, 30}}}));
}

}  // namespace
}  // namespace infer
