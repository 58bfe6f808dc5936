/// Extents beyond 32 bits, as a model may declare them: planning ends, and no library that counts
/// in 32 bits is asked.
#include <gtest/gtest.h>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"

namespace infer {
namespace {

/// Compiles the graph; the kernel of each step.
std::vector<std::string> KernelsOf(const std::string& text) {
  static const OpRegistry ops = AllOps();
  const auto g = ParseGraph(text, ops);
  if (!g.ok()) {  // a refusal is an answer, but one of the model's extents
    EXPECT_EQ(g.status().code(), Code::kInvalidModel) << text << ": " << g.status().message();
    return {};
  }
  std::vector<std::string> kernels;
  const auto program = MakeCpuBackend()->Compile(*g, {.threads = 1});
  if (!program.ok()) return kernels;
  for (const StepInfo& s : (*program)->steps()) kernels.push_back(s.kernel);
  return kernels;
}

std::string Conv(const std::string& x, const std::string& w, const std::string& attributes = "",
                 const std::string& op = "Conv") {
  return Cat("graph g(x: f32[", x, "], w: f32[", w, "]) -> (y) { y = ", op, "(x, w)", attributes,
             " }");
}

TEST(LargeExtents, NoLibraryThatCountsIn32BitsIsAsked) {
  for (const int64_t n : {(int64_t{1} << 30) + 1, (int64_t{1} << 31) - 1, int64_t{1} << 31,
                          int64_t{1} << 32, (int64_t{1} << 32) + 16, int64_t{1} << 40}) {
    for (const std::string& text : {
             Cat("graph g(x: f32[2,", n, "], w: f32[", n, ",3]) -> (y) { y = MatMul(x, w) }"),
             Cat("graph g(x: f32[", n, ",2], w: f32[2,3]) -> (y) { y = MatMul(x, w) }"),
             Cat("graph g(x: f32[2,3], w: f32[3,", n, "]) -> (y) { y = MatMul(x, w) }"),
             Cat("graph g(x: f32[", n, ",2,2], w: f32[", n, ",2,3]) -> (y) { y = MatMul(x, w) }"),
             Cat("graph g(x: f32[2,", n, "], w: f32[", n, ",3]) -> (y) { y = Gemm(x, w) }"),
             Cat("graph g(x: f32[", n, ",2], w: f32[3,2]) -> (y) { y = Gemm(x, w) {transB=1} }"),
             Conv(Cat("1,4,", n), "8,4,3"),
             Conv(Cat("1,4,", n), "8,4,1"),
             Conv(Cat("1,4,1,", n), "8,4,1,1"),
             Conv(Cat("1,4,", n, ",8"), "8,4,3,3"),
             Conv(Cat(n, ",4,8,8"), "8,4,3,3"),
             Conv(Cat("1,", n, ",8,8"), Cat("8,", n, ",3,3")),
             Conv("1,4,8,8", Cat(n, ",4,3,3")),
             Conv("1,4,65536,65536", "8,4,1,1"),  // 2^32 pixels of extents that fit
             Conv("1,4,8,8", "8,4,3,3", Cat(" {pads=[0, ", n, ", 0, 0]}")),
             Conv("1,4,8,8", "8,4,3,3", Cat(" {strides=[", n, ", 1]}")),
             Conv(Cat("1,4,", n, ",8"), "4,8,3,3", "", "ConvTranspose"),
             Conv(Cat("1,", n, ",8,8"), Cat(n, ",8,3,3"), "", "ConvTranspose"),
             Cat("graph g(x: f32[1,4,", n, ",8]) -> (y) { y = MaxPool(x) {kernel_shape=[3, 3]} }"),
             Cat("graph g(x: f32[1,4,8,8]) -> (y) { y = AveragePool(x) {kernel_shape=[3, 3], ",
                 "pads=[", 0, ", 0, 1, 1], strides=[", n, ", 1]} }"),
             Cat("graph g(x: f32[", n, ",4]) -> (y) { y = Relu(x) }"),
             Cat("graph g(x: f32[", n, ",4], z: f32[", n, ",4]) -> (y) { y = Add(x, z) }"),
             Cat("graph g(x: f32[", n, ",4], z: f32[2,4]) -> (y) { y = Concat(x, z) {axis=0} }"),
             Cat("graph g(x: f32[1,", n,
                 "]) -> (y) { s = const f32[] {0.1} z = const u8[] {3} "
                 "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"),
         })
      for (const std::string& kernel : KernelsOf(text))
        EXPECT_FALSE(kernel.starts_with("onednn")) << kernel << ": " << text;
  }
}

}  // namespace
}  // namespace infer
