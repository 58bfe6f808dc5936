/// Compute::kF16: a product is the reference of operands rounded to f16, with sums in f32; where
/// the device has cooperative matrices and where it has none.
#include "lib/ir/editor.h"
#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Of `x` and `z`, inputs, and `w`, a constant, a product is made; `b` and `r` come behind it.
constexpr const char* kHalfGraphs[] = {
    R"(graph g(x: f32[40,64], z: f32[64,48]) -> (y) { y = MatMul(x, z) })",
    R"(graph g(x: f32[2,3,130,70], z: f32[2,1,70,90]) -> (y) { y = MatMul(x, z) })",
    R"(graph g(x: f32[3,1,33,40], z: f32[2,40,17]) -> (y) { y = MatMul(x, z) })",
    R"(graph g(x: f32[2,35,100], r: f32[2,35,33]) -> (y) { w = const f32[100,33] ~1 b = const f32[33]
      ~2 p = MatMul(x, w) q = Add(p, b) s = Add(q, r) y = Gelu(s) })",
    R"(graph g(x: f32[50,70], z: f32[90,70]) -> (y) { b = const f32[90] ~3 y = Gemm(x, z, b) {transB=1,
      alpha=0.5, beta=2.0} })",
    R"(graph g(x: f32[70,50]) -> (y) { w = const f32[70,90] ~1 b = const f32[50,1] ~3 p = Gemm(x, w, b)
      {transA=1} y = Tanh(p) })",
    R"(graph g(x: f32[17,1000]) -> (y) { w = const f32[1000,17] ~1 b = const f32[17] ~2 p = MatMul(x, w)
      q = Add(p, b) y = Relu(q) })",
    R"(graph g(x: f32[2,16,9,11]) -> (y) { w = const f32[20,16,3,3] ~1 b = const f32[20] ~2 y =
      Conv(x, w, b) {pads=[1,1,1,1]} })",
    R"(graph g(x: f32[1,64,16,17]) -> (y) { w = const f32[70,64,1,1] ~1 y = Conv(x, w) })",
    R"(graph g(x: f32[2,40,9,11], r: f32[2,37,5,11]) -> (y) { w = const f32[37,40,3,3] ~1 b = const
      f32[37] ~2 c = Conv(x, w, b) {pads=[1,1,1,1], strides=[2,1]} s = Add(c, r) y = Sigmoid(s) })",
    R"(graph g(x: f32[1,33,16,17]) -> (y) { w = const f32[32,33,3,2] ~1 y = Conv(x, w)
      {dilations=[2,3], pads=[3,0,1,2]} })",
    R"(graph g(x: f32[3,32,50]) -> (y) { w = const f32[32,32,5] ~1 y = Conv(x, w) {strides=[2],
      pads=[1,2]} })",
    R"(graph g(x: f32[1,100,7,7]) -> (y) { w = const f32[48,100,3,3] ~1 b = const f32[48] ~2 c =
      Conv(x, w, b) {pads=[1,1,1,1]} y = Relu(c) })",
};

Tensor RoundedToHalf(const Tensor& t) { return t.Cast(DType::kF16).Cast(DType::kF32); }

/// As many invocations look at each pair of numbers as a product has results.
void CheckHalf(const Backend& backend, const std::string& text, std::string* kernel = nullptr) {
  const Graph g = ParsedGraph(text);
  const std::vector<Datum> inputs = InputsOf(g);
  Graph rounded = g.Clone();
  if (Value* w = rounded.FindValue("w"))
    GraphEditor(rounded).SetConstant(w, RoundedToHalf(*w->constant()));
  std::vector<Datum> halves = inputs;
  for (size_t i = 0; i < halves.size(); ++i)
    if (g.inputs()[i]->name() != "r") halves[i] = RoundedToHalf(inputs[i].tensor());
  const auto want = Evaluate(rounded, halves);
  ASSERT_TRUE(want.ok()) << want.status().message();
  const auto program = backend.Compile(g, {.compute = Compute::kF16});
  ASSERT_TRUE(program.ok()) << program.status().message() << text;
  ASSERT_EQ((*program)->steps().size(), 1u) << text;
  // Twice: weights are made once.
  for (int i = 0; i < 2; ++i) {
    const auto got = RunOnce(**program, inputs);
    ASSERT_TRUE(got.ok()) << got.status().message() << text;
    ExpectCloseTo((*got)[0].tensor(), (*want)[0].tensor(), text);
  }
  const StepInfo& step = (*program)->steps()[0];
  EXPECT_THAT(step.kernel, StartsWith("vulkan:half")) << text;
  if (kernel) *kernel = step.kernel;
  EXPECT_THAT(step.precision, AnyOf("f16", "f16, rounded")) << text;
}

TEST(VulkanHalf, ProductsAreOfRoundedOperands) {
  const auto backend = VulkanOver();
  for (size_t i = 0; i < std::size(kHalfGraphs); ++i)
    if (!IsLeftToRelease(i, 3)) CheckHalf(*backend, kHalfGraphs[i]);
  EXPECT_EQ(VulkanMemoryOf(*backend).live, 0);
}

TEST(VulkanHalf, SplitAlongTheCommonAxis) {
  const auto backend = VulkanOver({.busy_groups = 40});
  for (size_t i = 0; i < std::size(kHalfGraphs); ++i)
    if (!IsLeftToRelease(i, 6)) CheckHalf(*backend, kHalfGraphs[i]);
}

/// Tiles of 128 x 128, with cooperative matrices of 256 x 128, too.
TEST(VulkanHalf, LargeTiles) {
  const auto backend = VulkanOver({.busy_groups = 2});
  for (const char* text :
       {R"(graph g(x: f32[2,150,64], r: f32[2,150,200]) -> (y) { w = const f32[64,200] ~1 b = const
         f32[200] ~2 p = MatMul(x, w) q = Add(p, b) s = Add(q, r) y = Relu(s) })",
        R"(graph g(x: f32[2,32,9,11], r: f32[2,130,9,11]) -> (y) { w = const f32[130,32,3,3] ~1 b =
         const f32[130] ~2 c = Conv(x, w, b) {pads=[1,1,1,1]} s = Add(c, r) y = Relu(s) })",
        R"(graph g(x: f32[300,100], z: f32[100,140]) -> (y) { y = MatMul(x, z) })"}) {
    std::string kernel;
    CheckHalf(*backend, text, &kernel);
    EXPECT_THAT(kernel, AnyOf(HasSubstr("128"), HasSubstr("256m"))) << text;
  }
}

TEST(VulkanHalf, WithoutCooperativeMatrices) {
  const auto backend = VulkanOver({.disable = {"matrix"}});
  const auto how = backend->HowComputes(Compute::kF16);
  ASSERT_TRUE(how.ok());
  EXPECT_THAT(*how, HasSubstr("saves no time"));
  CheckHalf(*backend, kHalfGraphs[3]);
  CheckHalf(*backend, kHalfGraphs[9]);
}

TEST(VulkanHalf, SmallAndOtherStepsStayInF32) {
  const auto backend = VulkanOver();
  for (
      const char* text :
      {R"(graph g(x: f32[3,64], z: f32[64,48]) -> (y) { y = MatMul(x, z) })",
       R"(graph g(x: f32[2,3,16,16]) -> (y) { w = const f32[20,3,3,3] ~1 y = Conv(x, w) })",
       R"(graph g(x: f32[1,64,16,17]) -> (y) { w = const f32[64,1,3,3] ~1 y = Conv(x, w) {group=64} })"}) {
    const Graph g = ParsedGraph(text);
    const auto program = backend->Compile(g, {.compute = Compute::kF16});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const auto got = RunOnce(**program, InputsOf(g)), want = Evaluate(g, InputsOf(g));
    ASSERT_TRUE(got.ok() && want.ok());
    ExpectCloseTo((*got)[0].tensor(), (*want)[0].tensor(), text);
    EXPECT_EQ((*program)->steps()[0].precision, "f32") << text;
  }
}

TEST(VulkanHalf, OtherFormatsAreRefused) {
  const Graph g = ParsedGraph("graph g(x: f32[2]) -> (y) { y = Relu(x) }");
  const auto program = VulkanOver()->Compile(g, {.compute = Compute::kBF16});
  EXPECT_EQ(program.status().code(), Code::kUnsupported);
  EXPECT_THAT(program.status().message(), HasSubstr("vulkan does not compute in bf16"));
  const auto on_cpu = MakeCpuBackend()->Compile(g, {.compute = Compute::kF16});
  EXPECT_EQ(on_cpu.status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace infer
