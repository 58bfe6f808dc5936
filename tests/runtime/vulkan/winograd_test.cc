/// Conv by Winograd's algorithm: it runs, on whatever product the device has, and gives the numbers
/// of the reference; what it does not take is summed directly.
#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string ConvGraph(std::string_view x, std::string_view w, std::string_view attributes,
                      std::string_view after = "") {
  return Cat("graph g(x: f32[", x, "]) -> (y) { w = const f32[", w, "] ~1 ",
             after.empty() ? "y" : "c", " = Conv(x, w) {", attributes, "} ", after, " }");
}

/// Odd extents, paddings of all kinds, samples, channels that fill no tile, counts of tiles for
/// each width of the product, and long sums; with all that may follow.
std::vector<std::string> Geometries() {
  return {
      ConvGraph("1,1,3,3", "1,1,3,3", ""),
      ConvGraph("3,2,4,3", "5,2,3,3", ""),
      ConvGraph("1,3,1,1", "4,3,3,3", "pads=[1,1,1,1]"),
      ConvGraph("2,16,7,9", "16,16,3,3", "pads=[1,1,1,1]"),
      ConvGraph("2,17,8,8", "33,17,3,3", "pads=[2,0,1,3]"),
      ConvGraph("1,20,5,40", "31,20,3,3", "pads=[0,5,7,0]"),
      ConvGraph("1,40,12,13", "65,40,3,3", "auto_pad=\"SAME_UPPER\""),
      ConvGraph("1,40,11,12", "32,40,3,3", "auto_pad=\"SAME_LOWER\""),
      ConvGraph("4,24,9,6", "18,24,3,3", "auto_pad=\"VALID\""),
      ConvGraph("1,24,1,70", "18,24,3,3", "pads=[1,1,1,1]", "y = Tanh(c)"),
      ConvGraph("1,1030,5,6", "40,1030,3,3", "pads=[1,1,1,1]"),
      R"(graph g(x: f32[2,30,15,17], r: f32[2,50,15,17]) -> (y) { w = const f32[50,30,3,3] ~1
        b = const f32[50] ~2 c = Conv(x, w, b) {pads=[1,1,1,1]} s = Add(c, r) y = Relu(s) })",
      R"(graph g(x: f32[1,32,10,10], b: f32[32]) -> (y) { w = const f32[32,32,3,3] ~1 c = Conv(x, w, b)
        {pads=[1,1,1,1]} a = LeakyRelu(c) {alpha=0.2} y = Add(a, x) })",
  };
}

void CheckGeometries(const VulkanOptions& options, std::string_view kernel, size_t every = 1) {
  const auto backend = VulkanOver(options);
  size_t form = 0;
  for (const std::string& text : Geometries()) {
    if (form++ % every != 0 || IsLeftToRelease(form, 4)) continue;
    SCOPED_TRACE(text);
    EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(text)), Contains(StartsWith(kernel)));
  }
  EXPECT_EQ(VulkanMemoryOf(*backend).live, 0);
}

TEST(VulkanWinograd, GeometriesBySubgroups) {
  CheckGeometries({.subgroups_anywhere = true, .winograd_anywhere = true},
                  "vulkan:winograd_subgroup");
}

TEST(VulkanWinograd, GeometriesByTiles) {
  CheckGeometries({.disable = {"subgroup"}, .winograd_anywhere = true}, "vulkan:winograd");
}

/// As on a GPU: few workgroups, whose sums come in parts that the last transform adds.
TEST(VulkanWinograd, SplitSums) {
  const auto backend =
      VulkanOver({.disable = {"subgroup"}, .busy_groups = 600, .winograd_anywhere = true});
  for (const std::string& text :
       {ConvGraph("1,200,7,6", "40,200,3,3", "pads=[1,1,1,1]", "y = Sigmoid(c)"),
        ConvGraph("2,1100,4,4", "9,1100,3,3", "pads=[0,1,1,0]")}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(text)),
                ElementsAre(AllOf(StartsWith("vulkan:winograd"), HasSubstr("_split"))));
  }
}

TEST(VulkanWinograd, LargeTiles) {
  const auto backend =
      VulkanOver({.disable = {"subgroup"}, .busy_groups = 2, .winograd_anywhere = true});
  EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(ConvGraph("2,20,20,17", "130,20,3,3", ""))),
              ElementsAre("vulkan:winograd128w"));
}

/// More than is kept of transformed tiles at once: several batches, the last one smaller.
TEST(VulkanWinograd, BatchesOfTiles) {
  const std::string text = ConvGraph("1,2,131,133", "380,2,3,3", "pads=[1,0,0,1]");
  for (const bool subgroups : {true, false}) {
    VulkanOptions options{.subgroups_anywhere = subgroups, .winograd_anywhere = true};
    if (!subgroups) options.disable = {"subgroup"};
    const auto backend = VulkanOver(options);
    EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(text)),
                ElementsAre(StartsWith("vulkan:winograd")));
    // All 4,290 tiles at once would take 100 MiB, beside a result of 25.
    EXPECT_LT(VulkanMemoryOf(*backend).peak_bytes, int64_t{100} << 20);
  }
}

/// The first step's kernel, and all refusals of it.
struct Chosen {
  std::string kernel, refusals;
};
Chosen ChosenOf(const VulkanOptions& options, const std::string& text,
                const CompileOptions& compile = {}) {
  const Graph g = ParsedGraph(text);
  const auto program = VulkanOver(options)->Compile(g, compile);
  EXPECT_TRUE(program.ok()) << program.status().message();
  if (!program.ok()) return {};
  const auto got = RunOnce(**program, InputsOf(g)), want = Evaluate(g, InputsOf(g));
  EXPECT_TRUE(got.ok() && want.ok()) << got.status().message();
  if (got.ok() && want.ok()) ExpectCloseTo((*got)[0].tensor(), (*want)[0].tensor(), text);
  const StepInfo& step = (*program)->steps()[0];
  return {step.kernel, Join(step.refusals, "; ")};
}

TEST(VulkanWinograd, WhatItDoesNotTakeIsSummedDirectly) {
  const std::string fits = ConvGraph("1,64,14,14", "64,64,3,3", "pads=[1,1,1,1]");
  const VulkanOptions anywhere{.winograd_anywhere = true};
  EXPECT_THAT(ChosenOf(anywhere, fits).kernel, StartsWith("vulkan:winograd"));
  const auto refused = [&](const VulkanOptions& options, const std::string& text,
                           std::string_view why, const CompileOptions& compile = {}) {
    SCOPED_TRACE(why);
    const Chosen chosen = ChosenOf(options, text, compile);
    EXPECT_THAT(chosen.kernel, AllOf(StartsWith("vulkan:"), Not(HasSubstr("winograd"))));
    EXPECT_THAT(chosen.refusals, HasSubstr(std::string(why)));
  };
  refused({.disable = {"winograd"}}, fits, "feature winograd is off");
  refused({.pretend = "discrete"}, fits, "not measured on such a device (--tune measures it)");
  refused(anywhere, fits, "it changes rounding (level 2)", {.level = 1});
  refused(anywhere, fits, "its weights are larger (low memory)", {.low_memory = true});
  refused({.max_buffer_bytes = 150000, .winograd_anywhere = true}, fits,
          "its weights take 256.0 KiB, a buffer of this device holds");
  refused(anywhere, ConvGraph("1,8,9,9", "8,8,3,3", "strides=[1,2]"), "the stride is not 1");
  refused(anywhere, ConvGraph("1,8,9,9", "8,8,3,3", "dilations=[2,1]"), "dilation");
  refused(anywhere, ConvGraph("1,16,9,9", "16,8,3,3", "group=2"), "more than one group");
  refused(anywhere, ConvGraph("1,8,9,9", "8,8,3,5", ""), "the window is not 3x3");
  refused(anywhere, ConvGraph("1,8,90", "8,8,3", ""), "the window is not 3x3");
  refused(anywhere, "graph g(x: f32[1,8,9,9], w: f32[8,8,3,3]) -> (y) { y = Conv(x, w) }",
          "the weights are not constant");
}

/// Where it was measured faster, and where the user asks for it.
TEST(VulkanWinograd, TheRule) {
  const auto kernel = [&](const VulkanOptions& options, const std::string& text) {
    return ChosenOf(options, text).kernel;
  };
  const std::string fits = ConvGraph("1,32,14,14", "32,32,3,3", "pads=[1,1,1,1]");
  EXPECT_THAT(kernel({.enable = {"winograd"}, .pretend = "discrete"}, fits),
              StartsWith("vulkan:winograd"));
  const auto devices = ListVulkanDevices();
  ASSERT_TRUE(devices.ok());
  for (const VulkanDeviceInfo& d : *devices)
    if (d.chosen && d.type != "cpu") GTEST_SKIP() << "measured on drivers for a processor alone";
  EXPECT_THAT(kernel({}, fits), StartsWith("vulkan:winograd"));
  EXPECT_THAT(ChosenOf({}, ConvGraph("1,31,14,14", "32,31,3,3", "pads=[1,1,1,1]")).refusals,
              HasSubstr("too few channels"));
  EXPECT_THAT(ChosenOf({}, ConvGraph("1,32,10,10", "32,32,3,3", "pads=[1,1,1,1]")).refusals,
              HasSubstr("too few channels"));
  EXPECT_THAT(ChosenOf({}, ConvGraph("1,64,4,4", "64,64,3,3", "pads=[1,1,1,1]")).refusals,
              HasSubstr("too few pixels"));
  EXPECT_THAT(kernel({}, ConvGraph("1,64,7,7", "64,64,3,3", "pads=[1,1,1,1]")),
              StartsWith("vulkan:winograd_subgroup"));
  EXPECT_THAT(
      ChosenOf({.disable = {"subgroup"}}, ConvGraph("1,64,7,7", "64,64,3,3", "pads=[1,1,1,1]"))
          .refusals,
      HasSubstr("too few pixels"));
}

}  // namespace
}  // namespace infer
