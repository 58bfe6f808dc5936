/// Bounds behind a product that are not there: infinity, as the reference kernels have it.
#include <gtest/gtest.h>

#include <cmath>

#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "runtime/cpu/backend.h"

namespace infer {
namespace {

TEST(Bounds, AMissingOneLetsInfinityThrough) {
  const OpRegistry ops = AllOps();
  const auto g = ParseGraph(R"(graph g(x: f32[1,1,2,2]) -> (y) {
    w = const f32[1,1,1,1] {2}  high = const f32[] {6}
    c = Conv(x, w)  y = Clip(c, _, high) })",
                            ops);
  ASSERT_TRUE(g.ok()) << g.status().message();
  const Tensor x = Tensor::Of<float>({1, 1, 2, 2}, {-INFINITY, INFINITY, 1, 5});
  const auto program = MakeCpuBackend()->Compile(*g, {.threads = 1});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto want = Evaluate(*g, std::vector<Datum>{x});
  const auto got = RunOnce(**program, std::vector<Datum>{x});
  ASSERT_TRUE(want.ok() && got.ok());
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ((*got)[0].tensor().At(i), (*want)[0].tensor().At(i)) << i;
}

}  // namespace
}  // namespace infer
