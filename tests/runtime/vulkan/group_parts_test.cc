/// Groups that were formed, and that no shader takes whole for the extents of the run, run in parts
/// on the device: of floats, and of codes with quantized weights. (Where the CPU has a kernel for
/// the whole group, that one takes it.)
#include <algorithm>

#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

/// Groups as the CPU does, and has no kernels: what the device refuses whole is not the CPU's
/// whole.
class GroupsOnly final : public PlanBackend {
 public:
  std::string_view name() const override { return "host"; }
  const KernelList& kernels() const override { return none_; }
  Result<Prepared> Reorder(DType dtype, const Dims& dims, const Layout& from,
                           const Layout& to) const override {
    return cpu_->Reorder(dtype, dims, from, to);
  }
  Status RewriteGraph(Graph& graph, const KernelList& kernels,
                      const CompileOptions& options) const override {
    return cpu_->RewriteGraph(graph, kernels, options);
  }
  Status GroupSteps(Plan& plan, const KernelList& kernels,
                    const CompileOptions& options) const override {
    return cpu_->GroupSteps(plan, kernels, options);
  }

 private:
  std::shared_ptr<const PlanBackend> cpu_ = CpuHost();
  KernelList none_;
};

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
  static_cast<void>(VulkanOver());  // ends the program where there is no device
  const auto backend =
      MakeVulkanBackend({.behind = std::make_shared<const GroupsOnly>(), .keep_all = true});
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

/// Some step ran in parts, and all parts on the device. A driver without the limit takes it whole.
void ExpectParts(const std::vector<std::string>& kernels) {
  const auto devices = *ListVulkanDevices();
  const bool limited = std::any_of(devices.begin(), devices.end(), [](const VulkanDeviceInfo& d) {
    return d.chosen && d.max_iterations > 0;
  });
  if (limited) {
    EXPECT_THAT(kernels, Contains(HasSubstr(" + ")));
  }
  for (const std::string& k : kernels) EXPECT_THAT(Split(k, '+'), Each(HasSubstr("vulkan:"))) << k;
}

/// Mesa's driver ends loops after 65,535 rounds: attention of so many keys is no dispatch there,
/// and each of its operators is one.
TEST(VulkanGroupParts, AttentionOfMoreKeysThanALoopHasRounds) {
  ExpectParts(RunWithExtents(
      "graph g(q: f32[B,3,S,8], k: f32[B,3,8,T], v: f32[B,3,T,8], m: f32[B,1,1,T]) -> (y) { "
      "s = MatMul(q, k) z = Add(s, m) p = Softmax(z) y = MatMul(p, v) }",
      {{{1, 3, 2, 8}, {1, 3, 8, 70}, {1, 3, 70, 8}, {1, 1, 1, 70}},
       {{1, 3, 2, 8}, {1, 3, 8, 20000}, {1, 3, 20000, 8}, {1, 1, 1, 20000}}}));
}

/// The same of products of codes: sums of so many terms take four rounds each, and one in f32.
TEST(VulkanGroupParts, ProductOfCodesWithMoreTermsThanALoopHasRounds) {
  ExpectParts(RunWithExtents(
      "graph g(q: u8[2,20000]) -> (y) { s = const f32[] {0.05} z = const u8[] {110} "
      "x = DequantizeLinear(q, s, z) w0 = const i8[20000,4] ~1 u = const f32[] {0.01} "
      "w = DequantizeLinear(w0, u) p = MatMul(x, w) t = const f32[] {9} "
      "y = QuantizeLinear(p, t, z) }",
      {{{2, 20000}}}));
}

TEST(VulkanGroupParts, ConvolutionOfCodesWithAResidualAndMoreTermsThanALoopHasRounds) {
  ExpectParts(RunWithExtents(
      "graph g(q: u8[1,20000,1,H], r: u8[1,4,1,H]) -> (y) { s = const f32[] {0.05} "
      "z = const u8[] {110} x = DequantizeLinear(q, s, z) w0 = const i8[4,20000,1,1] ~1 "
      "u = const f32[] {0.01} w = DequantizeLinear(w0, u) b = const f32[4] ~3 c = Conv(x, w, b) "
      "o = DequantizeLinear(r, s, z) a = Add(c, o) f = Relu(a) t = const f32[] {9} "
      "y = QuantizeLinear(f, t, z) }",
      {{{1, 20000, 1, 3}, {1, 4, 1, 3}}}));
}

}  // namespace
}  // namespace infer
