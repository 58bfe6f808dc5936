/// Every operator for which the backend has kernels runs on one of them somewhere: a kernel that
/// refuses everything passes each comparison with the reference, which runs in its place.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "runtime/cpu/backend.h"
#include "runtime/cpu/kernels/common/kernels.h"

namespace infer {
namespace {

/// Where the operator's example is no case for a fast kernel (types, or extents too small).
const std::map<std::string_view, std::string_view> kOtherExamples = {
    {"MaxPool", "graph g(x: f32[1,8,8,9]) -> (y) { y = MaxPool(x) {kernel_shape=[2,2]} }"},
    {"ReduceSum", "graph g(x: f32[2,3,4]) -> (y) { a = const i64[1] {-1} y = ReduceSum(x, a) }"},
    {"Dropout", "graph g(x: f32[2,3]) -> (y) { a = Abs(x) y = Dropout(a) }"},
    // Smaller ones are made before the run.
    {"ConstantOfShape", "graph g() -> (y) { s = const i64[2] {700, 700} y = ConstantOfShape(s) }"},
    {"ScatterElements",
     "graph g(x: f32[2,3], u: f32[1,2], i: i64[1,2]) -> (y) { y = ScatterElements(x, i, u) }"},
    {"QLinearAdd",
     "graph g(a: u8[2,3], b: u8[2,3]) -> (y) { xs = const f32[] {0.02} xz = const u8[] {3} "
     "y = com.microsoft::QLinearAdd(a, xs, xz, b, xs, xz, xs, xz) }"},
    {"QLinearMul",
     "graph g(a: u8[2,3], b: u8[2,3]) -> (y) { xs = const f32[] {0.02} xz = const u8[] {3} "
     "y = com.microsoft::QLinearMul(a, xs, xz, b, xs, xz, xs, xz) }"},
    {"QLinearGlobalAveragePool",
     "graph g(x: u8[1,4,5,2]) -> (y) { xs = const f32[] {0.02} xz = const u8[] {3} "
     "y = com.microsoft::QLinearGlobalAveragePool(x, xs, xz, xs, xz) }"}};

/// Steps of `text` that hold the operator, by kernel.
std::set<std::string> KernelsOf(std::string_view text, const OpRegistry& ops,
                                std::string_view name) {
  auto g = ParseGraph(text, ops);
  EXPECT_TRUE(g.ok()) << g.status().message() << "\n" << text;
  if (!g.ok()) return {};
  auto program = MakeCpuBackend()->Compile(*g, {});
  EXPECT_TRUE(program.ok()) << program.status().message() << "\n" << text;
  std::set<std::string> kernels;
  if (!program.ok()) return kernels;
  for (const StepInfo& s : (*program)->steps())
    if (s.op.find(name) != std::string::npos) {
      std::string why = s.kernel;
      for (const std::string& r : s.refusals) why += s.kernel == "reference" ? "; " + r : "";
      kernels.insert(why);
    }
  return kernels;
}

TEST(KernelsRun, ForEveryOperatorThatHasSome) {
  const OpRegistry ops = AllOps();
  const auto backend = MakeCpuBackend();
  for (const KernelDef& k : CpuKernels()) {
    EXPECT_TRUE(k.op.empty() || ops.Find(k.domain, k.op))
        << "a kernel for the unknown operator " << k.domain << "::" << k.op;
  }
  size_t operators = 0;
  for (const OpDef* def : ops.all()) {
    if (!backend->HasKernelFor(*def)) continue;
    ++operators;
    const auto other = kOtherExamples.find(def->name);
    const std::string_view text = other == kOtherExamples.end() ? def->example : other->second;
    const auto kernels = KernelsOf(text, ops, def->name);
    bool fast = kernels.empty();  // taken apart, or folded
    std::string all;
    for (const std::string& name : kernels) {
      fast |= !name.starts_with("reference");
      all += name + "\n";
    }
    EXPECT_TRUE(fast) << def->domain << "::" << def->name
                      << " runs on the reference kernel: " << all << text;
  }
  EXPECT_GT(operators, 80u);
}

/// With weights whose letters are moved while compiling.
TEST(KernelsRun, EinsumAsAProductOfMatrices) {
  const OpRegistry ops = AllOps();
  const std::string_view text = R"(graph g(x: f32[2,3,4,8]) -> (y) { w = const f32[5,4,8] ~1
      y = Einsum(x, w) {equation="bqhd,ohd->bqo"} })";
  EXPECT_TRUE(KernelsOf(text, ops, "Einsum").empty());
  EXPECT_TRUE(KernelsOf(text, ops, "Transpose").empty());
  const auto kernels = KernelsOf(text, ops, "MatMul");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_FALSE(kernels.begin()->starts_with("reference")) << *kernels.begin();
}

}  // namespace
}  // namespace infer
