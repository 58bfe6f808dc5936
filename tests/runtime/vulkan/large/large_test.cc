/// A model of 1.5 GB with weights that no buffer of the device binds as a whole (128 MiB on Mesa's
/// lavapipe): a table, products both ways round, a convolution. The cpu backend is the judge.
#include "lib/ir/editor.h"
#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::Each;
using ::testing::StartsWith;

/// All inputs but the first as constants between -1 and 1; texts of graphs hold none so large.
void MakeWeights(Graph& g) {
  GraphEditor editor(g);
  while (g.inputs().size() > 1) {
    Value* const input = g.inputs().back();
    Tensor t(DType::kF32, input->shape().static_dims());
    uint32_t bits = static_cast<uint32_t>(g.inputs().size());
    for (float& x : t.mutable_data<float>()) {
      bits = bits * 1664525u + 1013904223u;
      x = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f;
    }
    Value* const weight = editor.AddConstant(std::move(t));
    ASSERT_TRUE(editor.ReplaceAllUses(input, weight).ok());
    editor.EraseInput(g.inputs().size() - 1);
  }
}

TEST(VulkanLarge, WeightsAbove128MiBRunOnShaders) {
  constexpr const char* kText = R"(graph g(i: i64[1,4], t: f32[100000,768], v: f32[768,100000],
      w: f32[60000,1000], u: f32[60000,1000], k: f32[4000,1000,3,3], r: f32[100000,1000]) -> (y) {
      c = const f32[] {0.01} s = const i64[4] {1,1000,2,2} z = const i64[2] {4,1000}
      h = Gather(t, i) a = MatMul(h, v) b = Mul(a, c) d = Tanh(b) e = MatMul(d, r) f = Mul(e, c)
      f2 = Reshape(f, z) m = Gemm(f2, w) {transB=1} n = Mul(m, c) o = Tanh(n) p = MatMul(o, u)
      q = Mul(p, c) x = Reshape(q, s) y = Conv(x, k) {pads=[1,1,1,1]} })";
  Graph g = ParsedGraph(kText);
  MakeWeights(g);
  const std::vector<Datum> inputs = {Tensor::Of<int64_t>({1, 4}, {0, 99999, -50000, 54321})};
  int64_t arena = 0, weights = 0;
  // Threads of the driver, unlike in the other tests.
  unsetenv("LP_NUM_THREADS");
  const auto backend = OrExit(MakeVulkanBackend({.behind = CpuHost()}));
  std::vector<Datum> got;
  {
    const auto program = *backend->Compile(g, {.observe = [&](const PlanView& view) {
                                             if (view.name != "memory") return;
                                             for (const PlanView::Buffer& b : view.buffers) {
                                               if (b.kind == "constant" && b.on_device)
                                                 weights += b.bytes;
                                               if (b.kind == "arena" && b.on_device)
                                                 arena = std::max(arena, b.offset + b.bytes);
                                             }
                                           }});
    for (const StepInfo& s : program->steps())
      EXPECT_THAT(s.kernel, ::testing::AnyOf(StartsWith("vulkan:"), "view")) << s.op;
    const auto run = RunOnce(*program, inputs);
    ASSERT_TRUE(run.ok()) << run.status().message();
    got = *run;
    EXPECT_GT(weights, int64_t{1} << 30);
    constexpr int64_t kStaging = 64 << 20;
    EXPECT_LE(VulkanMemoryOf(*backend).peak_bytes, weights + arena + arena / 10 + kStaging);
  }
  EXPECT_EQ(VulkanMemoryOf(*backend).allocated_bytes, 0);
  const auto cpu = MakeCpuBackend();
  const auto judge = *cpu->Compile(g, {});
  const auto want = RunOnce(*judge, inputs);
  ASSERT_TRUE(want.ok()) << want.status().message();
  ExpectCloseTo(got[0].tensor(), (*want)[0].tensor(), "1.5 GB");
}

}  // namespace
}  // namespace infer
