/// Quantized groups on the device: one shader for each, with the bits of the CPU's integer kernels,
/// also without bytes in buffers, with and without subgroups.
#include <algorithm>
#include <cstdlib>
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
                                           {Names{"int8"}, true},
                                           {Names{"subgroup", "dot"}, false},
                                           {Names{"subgroup", "dot", "int8"}, false}}) {
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

/// A group's kernel, whose bits must be the CPU's.
std::string KernelWithTheBitsOfTheCpu(const Backend& vulkan, const std::string& text) {
  static const auto cpu = MakeCpuBackend();
  const Graph g = ParsedGraph(text);
  const auto inputs = InputsOf(g);
  const auto program = vulkan.Compile(g, {.level = 1});
  EXPECT_TRUE(program.ok()) << program.status().message();
  if (!program.ok()) return "";
  EXPECT_EQ((*program)->steps().size(), 1u) << "no group";
  const auto got = RunOnce(**program, inputs);
  EXPECT_TRUE(got.ok()) << got.status().message();
  const auto want = RunOnce(**cpu->Compile(g, {.level = 1}), inputs);
  EXPECT_TRUE(want.ok()) << want.status().message();
  if (!got.ok() || !want.ok()) return "";
  EXPECT_TRUE(BitEqual((*got)[0].tensor(), (*want)[0].tensor())) << text;
  return (*program)->steps()[0].kernel;
}

struct DotCase {
  std::string_view x, w, attributes;
  bool dots = true;
};

/// Codes of both signs with a zero point at the end of their range; `form`: what follows the sum.
std::string DotGraph(const DotCase& c, size_t form, std::string_view y) {
  const bool is_signed = form % 2 != 0, adds = form % 3 == 2 && !y.empty();
  const std::string_view type = is_signed ? "i8" : "u8";
  std::string text =
      Cat("graph g(q: ", type, "[", c.x, "]", adds ? Cat(", p: ", type, "[", y, "]") : "",
          ") -> (y) { s = const f32[] {0.05} z = const ", type, "[] {", is_signed ? -128 : 250,
          "} x = DequantizeLinear(q, s, z) w0 = const i8[", c.w,
          "] ~1 ws = const f32[] {0.01} w = DequantizeLinear(w0, ws) ");
  // Numbers; codes; codes, a residual, codes.
  const std::string result = form % 3 == 0 ? "y" : "c";
  text += Cat(result, " = ", c.attributes, " ");
  if (form % 3 == 0) return text + "}";
  text += Cat("t = const f32[] {0.4} ", adds ? "d" : "y", " = QuantizeLinear(c, t, z) ");
  if (adds)
    text +=
        "e = DequantizeLinear(d, t, z) o = DequantizeLinear(p, t, z) a = Add(e, o) "
        "y = QuantizeLinear(a, t, z) ";
  return text + "}";
}

/// Each way in which codes are read and results are written, in each tile, whole and in parts, with
/// and without bytes in buffers, is exact.
TEST(VulkanDots, SumsAreThoseOfTheCpu) {
  // With the extents of the result.
  const std::pair<DotCase, std::string_view> cases[] = {
      {{"2,20,9,8", "40,20,3,3", "Conv(x, w) {pads=[1,1,1,1]}"}, "2,40,9,8"},
      {{"2,33,7,7", "9,33,3,2", "Conv(x, w) {pads=[0,2,1,1], strides=[2,1], dilations=[2,3]}"},
       "2,9,2,7"},
      {{"1,3,11,12", "70,3,5,5", "Conv(x, w) {pads=[2,2,2,2]}"}, "1,70,11,12"},
      {{"1,40,50", "36,40,7", "Conv(x, w) {pads=[3,3]}"}, "1,36,50"},
      {{"1,130,7,7", "70,130,1,1", "Conv(x, w)"}, "1,70,7,7"},
      {{"2,66,6,10", "66,33,1,1", "Conv(x, w) {group=2}"}, "2,66,6,10"},
      {{"1,600,6,6", "70,600,1,1", "Conv(x, w)"}, "1,70,6,6"},
      {{"3,600,1,1", "72,600,1,1", "Conv(x, w)"}, "3,72,1,1"},
      {{"50,320", "320,72", "MatMul(x, w)"}, "50,72"},
      {{"2,35,324", "324,75", "MatMul(x, w)"}, "2,35,75"},
      {{"1,303", "303,40", "MatMul(x, w)"}, "1,40"},
      // Of words over one channel three quarters would be empty.
      {{"1,1,9,8", "40,1,3,3", "Conv(x, w) {pads=[1,1,1,1]}", false}, "1,40,9,8"}};
  const bool by_night = std::getenv("INFER_BY_NIGHT") != nullptr;
  size_t device = 0;
  for (const int64_t busy : {1, 2, 300})
    for (const bool bytes : {true, false}) {
      VulkanOptions options{.enable = {"dot"}, .busy_groups = busy};
      if (!bytes) options.disable = {"int8"};
      const auto vulkan = VulkanOver(options);
      ++device;
      size_t turn = device;
      for (const auto& [c, y] : cases) {
        ++turn;
        if (!by_night && !bytes && turn % 2 == 0) continue;
        for (size_t form = 0; form < 6; ++form) {
          // Each has another one on the next device; by night all of them.
          if (!by_night && (form != turn % 6 || IsLeftToRelease(turn, 5))) continue;
          SCOPED_TRACE(Cat(c.x, " by ", c.w, " busy ", busy, " bytes ", bytes));
          const std::string kernel = KernelWithTheBitsOfTheCpu(*vulkan, DotGraph(c, form, y));
          EXPECT_EQ(kernel.starts_with("vulkan:qdot"), c.dots) << kernel;
          EXPECT_TRUE(busy < 300 || c.x != "1,600,6,6" || kernel.ends_with("_split")) << kernel;
        }
      }
      EXPECT_EQ(VulkanMemoryOf(*vulkan).live, 0);
    }
}

/// As many terms as a driver that ends long loops takes.
TEST(VulkanDots, LongSums) {
  const auto vulkan = VulkanOver({.enable = {"dot"}});
  for (const auto& [c, y] : {std::pair(DotCase{"40,65001", "65001,40", "MatMul(x, w)"}, "40,40"),
                             {{"8,65000", "65000,8", "MatMul(x, w)"}, "8,8"},
                             {{"1,3,101,101", "40,3,96,96", "Conv(x, w)"}, "1,40,6,6"},
                             {{"1,3,99,100", "8,3,96,96", "Conv(x, w)"}, "1,8,4,5"},
                             {{"1,4000,8,8", "40,4000,3,3", "Conv(x, w)"}, "1,40,6,6"}})
    EXPECT_THAT(KernelWithTheBitsOfTheCpu(*vulkan, DotGraph(c, 0, y)),
                ::testing::StartsWith("vulkan:qdot"))
        << c.x;
}

/// Where the device has an instruction, or they are asked for.
TEST(VulkanDots, AreChosenWhereTheyAreAnInstruction) {
  const std::string text = DotGraph({"50,320", "320,72", "MatMul(x, w)"}, 0, "50,72");
  const auto devices = ListVulkanDevices();
  ASSERT_TRUE(devices.ok());
  const auto is_ours = [](const VulkanDeviceInfo& d) { return d.chosen; };
  const auto ours = std::find_if(devices->begin(), devices->end(), is_ours);
  ASSERT_NE(ours, devices->end());
  const auto has = [](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), "dot") != names.end();
  };
  const bool fast = has(ours->features) && !has(ours->emulated);
  EXPECT_THAT(KernelWithTheBitsOfTheCpu(*VulkanOver(), text),
              ::testing::StartsWith(fast ? "vulkan:qdot" : "vulkan:qconv"));
  const auto off = VulkanOver({.disable = {"dot"}, .enable = {"dot"}});
  EXPECT_THAT(KernelWithTheBitsOfTheCpu(*off, text), ::testing::StartsWith("vulkan:qconv"));
  // 128 invocations, two queues, memory that the host cannot map.
  const auto pretended =
      VulkanOver({.enable = {"dot"}, .pretend = "discrete", .transfer_bytes = 1});
  EXPECT_THAT(KernelWithTheBitsOfTheCpu(*pretended, text), ::testing::StartsWith("vulkan:qdot"));
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
