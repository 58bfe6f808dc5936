/// What each step of compiling makes of a small graph, as `inspect --plan` prints it.
#include "runtime/api/plan_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "runtime/cpu/backend.h"
#include "runtime/cpu/compile/compile.h"

namespace infer {
namespace {

/// The text after every step, by the step's name.
std::map<std::string, std::string> Plans(std::string_view text, int level = 1) {
  static const OpRegistry ops = AllOps();
  const Graph g = *ParseGraph(text, ops);
  std::map<std::string, std::string> plans;
  const auto program = MakeCpuBackend()->Compile(
      g, {.level = level, .threads = 1, .observe = [&](const PlanView& v) {
            plans[v.name] = ToText(v);
          }});
  EXPECT_TRUE(program.ok()) << program.status().message();
  return plans;
}

/// Only lines that contain none of `words`: what a machine or a new kernel may change.
std::string Without(const std::string& text, std::vector<std::string> words) {
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (std::none_of(words.begin(), words.end(),
                     [&](const std::string& w) { return line.find(w) != std::string::npos; }))
      kept += line + "\n";
    at = end + 1;
  }
  return kept;
}

constexpr std::string_view kProduct = R"(graph g(x: f32[4,8]) -> (y: f32[4,8]) {
  w = const f32[8,8] ~1
  p = MatMul(x, w)
  y = Relu(p)
})";

TEST(PlanView, EveryStepOfCompilingIsShownInOrder) {
  std::vector<std::string> shown, expected;
  static const OpRegistry ops = AllOps();
  ASSERT_TRUE(MakeCpuBackend()
                  ->Compile(*ParseGraph(kProduct, ops),
                            {.observe = [&](const PlanView& v) { shown.push_back(v.name); }})
                  .ok());
  for (const CompileStep& s : CompileSteps()) expected.emplace_back(s.name);
  for (const char* s : {"layouts", "launches", "memory"}) expected.emplace_back(s);
  EXPECT_EQ(shown, expected);
}

TEST(PlanView, PartitionHasAStepPerNode) {
  EXPECT_EQ(Plans(kProduct)["partition"],
            "  0: MatMul  \n"
            "      x: f32[4,8], w: f32[8,8] const -> p: f32[4,8]\n"
            "  1: Relu  \n"
            "      p: f32[4,8] -> y: f32[4,8]\n");
}

TEST(PlanView, HalvesAreWidened) {
  EXPECT_EQ(Plans("graph g(x: f16[2,8]) -> (y: f16[2,8]) { y = Softmax(x) }")["widen"],
            "  0: Cast  \n"
            "      x: f16[2,8] -> v0: f32[2,8]\n"
            "  1: Softmax  \n"
            "      v0: f32[2,8] -> y_f32: f32[2,8]\n"
            "  2: Cast  \n"
            "      y_f32: f32[2,8] -> y: f16[2,8]\n");
}

TEST(PlanView, OperatorsWithoutAKernelBecomeTheirParts) {
  constexpr std::string_view kText =
      "graph g(x: f32[4]) -> (y: f32[4]) { y = Celu(x) {alpha=2.0} }";
  EXPECT_EQ(Without(Plans(kText)["expand"], {"const"}).substr(0, 9), "  0: Relu");
  EXPECT_EQ(Plans(kText, 0).count("expand"), 0u);
  EXPECT_NE(Plans(kText, 0)["partition"].find("Celu"), std::string::npos);
}

TEST(PlanView, EpiloguesFollowTheirProduct) {
  auto plans = Plans(kProduct);
  const char* const grouped =
      "  0: MatMul+Relu  \n"
      "      x: f32[4,8], w: f32[8,8] const -> y: f32[4,8]\n";
  EXPECT_EQ(plans["epilogues"], grouped);
  EXPECT_EQ(plans["bodies"], grouped);
  EXPECT_EQ(Plans(kProduct, 0).count("epilogues"), 0u);
}

constexpr std::string_view kQuantized = R"(graph g(x: u8[4,8]) -> (y: u8[4,8], z) {
  s = const f32[] {0.5}
  zero = const u8[] {3}
  a = DequantizeLinear(x, s, zero)
  w8 = const i8[8,8] ~1
  ws = const f32[] {0.25}
  w = DequantizeLinear(w8, ws)
  p = MatMul(a, w)
  y = QuantizeLinear(p, s, zero)
  v8 = const i8[8] ~2
  v = DequantizeLinear(v8, ws)
  z = Add(a, v)
})";

TEST(PlanView, QuantizedProductsAreOneStep) {
  auto plans = Plans(kQuantized);
  EXPECT_NE(plans["quant-groups"].find(
                ": DequantizeLinear+DequantizeLinear+MatMul+QuantizeLinear  \n"
                "      x: u8[4,8], s: f32[] const, zero: u8[] const, w8: i8[8,8] const, "
                "ws: f32[] const -> y: u8[4,8]\n"),
            std::string::npos)
      << plans["quant-groups"];
  // Nothing took the other weights into a group: they are dequantised while compiling.
  EXPECT_NE(plans["quant-groups"].find("v8: i8[8] const, ws: f32[] const -> v: f32[8]\n"),
            std::string::npos);
  EXPECT_EQ(plans["fold-constants"].find("v8"), std::string::npos) << plans["fold-constants"];
  EXPECT_NE(plans["fold-constants"].find("v: f32[8] const"), std::string::npos);
}

TEST(PlanView, KernelsLayoutsLaunchesAndMemory) {
  // MaxPool and Softmax of doubles run on the reference kernel.
  auto plans = Plans(R"(graph g(x: f64[2,8]) -> (y: f64[2,8]) {
    a = Softmax(x)
    b = Softmax(a)
    y = Softmax(b)
  })");
  EXPECT_EQ(Without(plans["kernels"], {"refused"}),
            "  0: Softmax  \n      x: f64[2,8] -> a: f64[2,8]\n      kernel reference f32\n"
            "  1: Softmax  \n      a: f64[2,8] -> b: f64[2,8]\n      kernel reference f32\n"
            "  2: Softmax  \n      b: f64[2,8] -> y: f64[2,8]\n      kernel reference f32\n");
  EXPECT_NE(plans["kernels"].find("refused by"), std::string::npos);
  EXPECT_EQ(Without(plans["layouts"], {"refused"}),
            "  0: Softmax  \n      x: f64[2,8] #0 -> a: f64[2,8] #1\n      kernel reference f32\n"
            "  1: Softmax  \n      a: f64[2,8] #1 -> b: f64[2,8] #2\n      kernel reference f32\n"
            "  2: Softmax  \n      b: f64[2,8] #2 -> y: f64[2,8] #3\n      kernel reference f32\n");
  EXPECT_EQ(plans["launches"],
            "  launch 0: step 0 reference #0 #1\n"
            "  launch 1: step 1 reference #1 #2\n"
            "  launch 2: step 2 reference #2 #3\n");
  EXPECT_EQ(plans["memory"],
            "  #0 input 128 bytes, launches 0..0, x\n"
            "  #1 arena 128 bytes at 0, launches 0..1, a\n"
            "  #2 arena 128 bytes at 128, launches 1..2, b\n"
            "  #3 output 128 bytes, launches 2..2, y\n"
            "  arena 256 bytes, lower bound 256\n");
}

TEST(PlanView, PackedWeightsAndBlockedLayoutsAreNamed) {
  auto plans = Plans(R"(graph g(x: f32[1,16,8,8]) -> (y: f32[1,16,8,8]) {
    w = const f32[16,16,1,1] ~1
    a = Conv(x, w)
    y = Conv(a, w)
  })");
  EXPECT_NE(plans["layouts"].find("w: f32[16,16,1,1] const packed"), std::string::npos)
      << plans["layouts"];
  EXPECT_NE(plans["launches"].find(" kernel "), std::string::npos);
}

}  // namespace
}  // namespace infer
