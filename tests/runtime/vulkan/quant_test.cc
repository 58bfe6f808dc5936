/// Quantized groups on the device: one shader for each, with the bits of the CPU's integer kernels,
/// also without bytes in buffers, with and without subgroups.
#include <cstring>

#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

TEST(VulkanCodes, EveryGroupHasAShaderAndTheBitsOfTheCpu) {
  const auto cpu = MakeCpuBackend();
  using Names = std::vector<std::string>;
  size_t form = 0;
  for (const auto& [disabled, anywhere] : {std::pair(Names{"subgroup"}, false),
                                           {Names{"subgroup", "int8"}, false},
                                           {Names{}, true},
                                           {Names{"int8"}, true}}) {
    const auto vulkan = VulkanOver({.disable = disabled, .subgroups_anywhere = anywhere});
    for (const char* text : kCodeGraphs) {
      if (IsLeftToRelease(form++, 3)) continue;
      SCOPED_TRACE(Cat(text, " without ", Join(disabled, ",")));
      const Graph g = ParsedGraph(text);
      const auto inputs = InputsOf(g);
      const auto program = vulkan->Compile(g, {.level = 1});
      ASSERT_TRUE(program.ok()) << program.status().message();
      ASSERT_EQ((*program)->steps().size(), 1u) << "no group";
      EXPECT_TRUE((*program)->steps()[0].kernel.starts_with("vulkan:q"))
          << (*program)->steps()[0].kernel;
      const auto got = RunOnce(**program, inputs);
      ASSERT_TRUE(got.ok()) << got.status().message();
      const auto want = RunOnce(**cpu->Compile(g, {.level = 1}), inputs);
      ASSERT_TRUE(want.ok()) << want.status().message();
      const Tensor &a = (*got)[0].tensor(), &b = (*want)[0].tensor();
      ASSERT_EQ(ToString(a.type()), ToString(b.type()));
      EXPECT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<size_t>(b.byte_size())), 0);
    }
    EXPECT_EQ(VulkanMemoryOf(*vulkan).live, 0);
  }
}

/// Groups that no shader takes whole run node by node there.
TEST(VulkanCodes, WhatIsNoGroupRunsNodeByNode) {
  const auto vulkan = VulkanOver();
  const Graph g = ParsedGraph(R"(graph g(q: u8[4,12]) -> (y) { s = const f32[] {0.05} z = const
      u8[] {131} x = DequantizeLinear(q, s, z) m = Softmax(x) t = const f32[] {0.004} y =
      QuantizeLinear(m, t) })");
  const auto program = *vulkan->Compile(g, {});
  for (const StepInfo& s : program->steps())
    EXPECT_TRUE(s.kernel.starts_with("vulkan:")) << s.op << " " << s.kernel;
}

}  // namespace
}  // namespace infer
