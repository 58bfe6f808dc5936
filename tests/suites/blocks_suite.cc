/// Parts of transformer blocks that are operators: RotaryEmbedding, RMSNormalization.
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// `text` gives its reference's values; no step of it runs on a reference kernel on the cpu.
void CheckOwn(const std::string& text, double tolerance = 1e-6) {
  const auto steps = CheckGraph(text, 1, tolerance);
  if (BackendUnderTest().name() != "cpu") return;
  for (const StepInfo& s : steps) EXPECT_FALSE(RunsOnReference(s.kernel)) << s.op << " of " << text;
}

TEST(Blocks, RotaryEmbedding) {
  for (std::string_view interleaved : {"", "interleaved=1, "})
    for (int64_t size : {2, 8, 12, 64, 80})
      for (int64_t rotated : {size, size / 4 * 2}) {
        if (rotated == 0) continue;
        const std::string caches = Cat("f32[2,5,", rotated / 2, "]");
        const std::string attrs =
            Cat(interleaved, "rotary_embedding_dim=", rotated == size ? 0 : rotated);
        CheckOwn(Cat("graph g(x: f32[2,3,5,", size, "], c: ", caches, ", s: ", caches,
                     ") -> (y) { y = RotaryEmbedding(x, c, s) {", attrs, "} }"));
        CheckOwn(Cat("graph g(x: f32[2,5,", 3 * size, "], c: ", caches, ", s: ", caches,
                     ") -> (y) { y = RotaryEmbedding(x, c, s) {num_heads=3, ", attrs, "} }"));
        const std::string rows = Cat("f32[9,", rotated / 2, "]");
        CheckOwn(Cat("graph g(x: f32[2,5,", 3 * size, "], c: ", rows, ", s: ", rows,
                     ") -> (y) { p = const i64[2,5] {0,1,2,3,4,8,7,6,5,0} "
                     "y = RotaryEmbedding(x, c, s, p) {num_heads=3, ",
                     attrs, "} }"));
        for (std::string_view positions : {"i64[1] {4}", "i64[2,5] {0,1,2,3,4,8,7,6,5,0}"})
          for (std::string_view x : {"2,3,5,", "2,5,3*"}) {
            std::string extents = Cat(x, size);
            if (extents.find('*') != extents.npos) extents = Cat("2,5,", 3 * size);
            CheckOwn(Cat("graph g(x: f32[", extents, "], c: ", rows, ", s: ", rows,
                         ") -> (y) { p = const ", positions,
                         " y = com.microsoft::RotaryEmbedding(x, p, c, s) {", interleaved,
                         "num_heads=3, rotary_embedding_dim=", rotated, "} }"));
          }
      }
}

TEST(Blocks, RotaryEmbeddingBeyondItsCache) {
  const auto g = ParseGraph(
      "graph g(x: f32[1,2,2,4], p: i64[1,2]) -> (y) { c = const f32[3,2] ~1 s = const f32[3,2] ~2 "
      "y = RotaryEmbedding(x, c, s, p) }",
      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto program = BackendUnderTest().Compile(*g, {});
  ASSERT_TRUE(program.ok());
  Random random(1);
  const Tensor x = RandomInput(DType::kF32, {1, 2, 2, 4}, random);
  for (int64_t position : {int64_t{3}, int64_t{-1}, INT64_MAX})
    EXPECT_FALSE(
        RunOnce(**program, std::vector<Datum>{x, Tensor::Int64s({0, position}).Reshaped({1, 2})})
            .ok());
}

TEST(Blocks, RmsNormalization) {
  for (std::string_view dims : {"[1,1]", "[7]", "[3,16]", "[2,5,33]", "[2,40,768]", "[1,4096]"}) {
    const std::string last(dims.substr(dims.find_last_of("[,") + 1));
    for (std::string_view attrs : {"", "{epsilon=0.1}"})
      CheckOwn(Cat("graph g(x: f32", dims, ", s: f32[", last,
                   ") -> (y) { y = RMSNormalization(x, s) ", attrs, " }"));
  }
  CheckOwn("graph g(x: f32[2,3,4], s: f32[3,4]) -> (y) { y = RMSNormalization(x, s) {axis=1} }");
  CheckGraph("graph g(x: f32[2,3,4], s: f32[1]) -> (y) { y = RMSNormalization(x, s) }");
  CheckGraph("graph g(x: f16[2,3,4], s: f16[4]) -> (y) { y = RMSNormalization(x, s) }", 1, 2e-3);
}

TEST(Blocks, SameBitsForAnyNumberOfThreads) {
  CheckSameBits("graph g(x: f32[3,50,768], s: f32[768]) -> (y) { y = RMSNormalization(x, s) }");
  CheckSameBits(
      "graph g(x: f32[3,50,768], c: f32[3,50,32], s: f32[3,50,32]) -> (y) { y = RotaryEmbedding(x, "
      "c, s) {num_heads=12} }");
}

}  // namespace
}  // namespace infer
