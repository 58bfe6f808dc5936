/// Weights and tables that no buffer of the device holds go part by part, and look-ups by indices
/// that the run brings. A device is made to hold 16 KiB at once.
#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kHeld = 16 << 10;

std::unique_ptr<Backend> HoldingLittle(VulkanOptions options = {}) {
  options.max_buffer_bytes = kHeld;
  return VulkanOver(std::move(options));
}

/// Indices in range of an extent, of all signs, for each input that is no f32.
std::vector<Datum> WithIndices(const Graph& g, int64_t extent) {
  std::vector<Datum> inputs = InputsOf(g);
  Random random(5);
  for (Datum& d : inputs) {
    if (IsFloat(d.tensor().dtype())) continue;
    Tensor t(d.tensor().dtype(), d.tensor().dims());
    for (int64_t i = 0; i < t.num_elements(); ++i) t.SetInt(i, random.Below(2 * extent) - extent);
    d = std::move(t);
  }
  return inputs;
}

/// The kernels that ran.
std::vector<std::string> CompareLookUps(const Backend& backend, const std::string& text,
                                        int64_t extent) {
  const Graph g = ParsedGraph(text);
  const auto inputs = WithIndices(g, extent);
  const auto want = Evaluate(g, inputs);
  const auto program = backend.Compile(g, {});
  EXPECT_TRUE(want.ok() && program.ok()) << want.status().message() << program.status().message();
  if (!want.ok() || !program.ok()) return {};
  const auto got = RunOnce(**program, inputs);
  EXPECT_TRUE(got.ok()) << got.status().message();
  std::vector<std::string> kernels;
  for (const StepInfo& s : (*program)->steps()) kernels.push_back(s.kernel);
  if (got.ok()) ExpectCloseTo((*got)[0].tensor(), (*want)[0].tensor(), text);
  return kernels;
}

TEST(VulkanParts, WeightsOfProducts) {
  const auto backend = HoldingLittle();
  size_t form = 0;
  // By their rows, terms of each sum: few rows of A, some, many; with all that may follow.
  for (const auto& [m, k, n, shader] : {std::tuple(3, 100, 300, "vulkan:gemv_parts"),
                                        {9, 300, 100, "vulkan:matmul32_parts"},
                                        {40, 100, 96, "vulkan:matmul64_parts"}}) {
    if (IsLeftToRelease(form++, 3)) continue;
    const std::string text = Cat("graph g(x: f32[", m, ",", k, "], r: f32[", m, ",", n,
                                 "]) -> (y) { w = const f32[", k, ",", n, "] ~1 b = const f32[", n,
                                 "] ~2 p = MatMul(x, w) q = Add(p, b) s = Add(q, r) y = Gelu(s) }");
    EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(text)), ElementsAre(shader)) << text;
  }
  // By columns of the result, where B is transposed; and A, too.
  for (const auto& [a, attrs, m, shader] :
       {std::tuple("2,100", "transB=1, alpha=0.5, beta=2.0", 2, "vulkan:gemv_parts"),
        {"9,100", "transB=1, alpha=0.5, beta=2.0", 9, "vulkan:matmul32_parts"},
        {"100,9", "transA=1, transB=1", 9, "vulkan:matmul32_parts"},
        {"100,9", "transA=1", 9, "vulkan:matmul32_parts"}}) {
    if (IsLeftToRelease(form++, 3)) continue;
    const bool turned = std::string_view(attrs).find("transB") != std::string_view::npos;
    const std::string text =
        Cat("graph g(x: f32[", a, "]) -> (y) { w = const f32[", turned ? "300,100" : "100,300",
            "] ~1 b = const f32[", m, ",300] ~2 c = Gemm(x, w, b) {", attrs, "} y = Tanh(c) }");
    EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(text)), ElementsAre(shader)) << text;
  }
  EXPECT_EQ(VulkanMemoryOf(*backend).live, 0);
}

TEST(VulkanParts, WeightsOfConvolutions) {
  size_t form = 0;
  for (const bool subgroup : {false, true}) {
    VulkanOptions options{.subgroups_anywhere = subgroup};
    if (!subgroup) options.disable = {"subgroup"};
    const auto backend = HoldingLittle(options);
    for (std::string_view body :
         {"w = const f32[200,8,3,3] ~1 b = const f32[200] ~2 c = Conv(x, w, b) {pads=[1,1,1,1]} "
          "s = Add(c, r) y = Relu(s)",
          "w = const f32[200,8,1,1] ~1 v = const f32[200,200,1,1] ~3 c = Conv(x, w) "
          "y = Conv(c, v)"}) {
      if (IsLeftToRelease(form++, 3)) continue;
      const auto kernels = RunAndCompare(
          *backend, ParsedGraph(Cat("graph g(x: f32[1,8,4,4], r: f32[1,200,4,4]) -> (y, z) { z = "
                                    "Neg(r) ",
                                    body, " }")));
      EXPECT_THAT(kernels, Each(StartsWith("vulkan:")));
      EXPECT_THAT(kernels, Contains(MatchesRegex("vulkan:conv.*_parts")));
    }
  }
}

TEST(VulkanParts, WeightsOfFewBits) {
  const auto backend = HoldingLittle();
  size_t form = 0;
  for (const auto& [bits, zeros] : {std::pair(4, ""), {4, "u8"}, {4, "f32"}, {2, "u8"}, {8, "u8"}})
    for (const auto& [m, k, n, shader] : {std::tuple(2, 300, 800, "vulkan:bits_gemv"),
                                          {7, 512, 440, "vulkan:bits32"},
                                          {40, 100, 100, "vulkan:bits64"}}) {
      if (m == 40 && bits != 4) continue;
      if (IsLeftToRelease(form++, 3)) continue;
      const std::string_view kind = zeros;
      const int64_t blocks = (k + 31) / 32;
      std::string text = Cat("graph g(x: f32[", m, ",", k, "], r: f32[", m, ",", n,
                             "]) -> (y) { w = const u8[", n, ",", blocks, ",", 4 * bits,
                             "] ~1 s = const f32[", n * blocks, "] ~2 b = const f32[", n, "] ~4 ");
      if (kind == "u8") text += Cat("z = const u8[", n * ((blocks * bits + 7) / 8), "] ~3 ");
      if (kind == "f32") text += Cat("z = const f32[", n * blocks, "] ~3 ");
      text += Cat("p = com.microsoft::MatMulNBits(x, w, s", kind.empty() ? ", _" : ", z",
                  ", _, b) {K=", k, ", N=", n, ", bits=", bits,
                  ", block_size=32} q = Add(p, r) y = LeakyRelu(q) }");
      const bool parts = n * blocks * 4 * bits > kHeld || n * blocks * 4 > kHeld;
      EXPECT_THAT(RunAndCompare(*backend, ParsedGraph(text)),
                  ElementsAre(Cat(shader, parts ? "_parts" : "")))
          << text;
    }
}

TEST(VulkanParts, Tables) {
  const auto backend = HoldingLittle();
  for (std::string_view index : {"i64", "i32"}) {
    EXPECT_THAT(CompareLookUps(*backend,
                               Cat("graph g(i: ", index,
                                   "[3,7]) -> (y) { t = const f32[500,20] ~1 y = Gather(t, i) }"),
                               500),
                ElementsAre("vulkan:gather_parts"));
    EXPECT_THAT(
        CompareLookUps(*backend,
                       Cat("graph g(i: ", index,
                           "[2,3]) -> (y) { d = const u8[500,44] ~1 s = const f32[500,3] ~2 "
                           "z = const u8[500,2] ~3 y = com.microsoft::GatherBlockQuantized(d, i, "
                           "s, z) {bits=4, block_size=32, gather_axis=0, quantize_axis=1} }"),
                       500),
        ElementsAre("vulkan:gather_blocks_parts"));
  }
  // Along other axes, whole, and of elements of other widths.
  for (std::string_view text :
       {"graph g(x: f32[3,9,5], i: i64[4]) -> (y) { y = Gather(x, i) {axis=1} }",
        "graph g(x: f32[3,9], i: i32[2,2]) -> (y) { y = Gather(x, i) {axis=-1} }",
        "graph g(x: f32[9,5,3], i: i64[]) -> (y) { y = Gather(x, i) }",
        "graph g(x: f16[9,5,2], i: i64[6]) -> (y) { y = Gather(x, i) }"}) {
    const auto kernels = CompareLookUps(*backend, std::string(text), 9);
    EXPECT_THAT(kernels, Contains("vulkan:gather")) << text;
  }
}

/// As in the reference; and the next run of the context works.
TEST(VulkanParts, IndicesOutOfRange) {
  const auto backend = HoldingLittle();
  const Graph g =
      ParsedGraph("graph g(i: i64[2]) -> (y) { t = const f32[500,20] ~1 y = Gather(t, i) }");
  const auto program = *backend->Compile(g, {});
  const auto context = *program->NewContext();
  for (const int64_t bad : {500, -501}) {
    ASSERT_TRUE(context->BindInput(0, Tensor::Of<int64_t>({2}, {3, bad})).ok());
    const Status s = context->Run();
    EXPECT_EQ(s.code(), Code::kInvalidModel);
    EXPECT_THAT(s.message(), HasSubstr("is out of range for an extent of 500"));
    const std::vector<Datum> good = {Tensor::Of<int64_t>({2}, {-500, 499})};
    ASSERT_TRUE(context->BindInput(0, good[0]).ok());
    ASSERT_TRUE(context->Run().ok());
    ExpectCloseTo(context->output(0).tensor(), (*Evaluate(g, good))[0].tensor(), "");
  }
}

/// Indices that the device made go to the host first.
TEST(VulkanParts, IndicesOfTheDevice) {
  const auto backend = VulkanOver();
  const std::string text =
      "graph g(i: i64[3,4]) -> (y) { t = const f32[50,8] ~1 j = Transpose(i) y = Gather(t, j) }";
  EXPECT_THAT(CompareLookUps(*backend, text, 50), ElementsAre("vulkan:move", "vulkan:gather"));
}

TEST(VulkanParts, WhatIsTooLargeForAPartRunsOnTheHost) {
  const auto backend = HoldingLittle();
  // 16 rows of 4 KiB; batches of B; activations.
  for (std::string_view text :
       {"graph g(x: f32[1,33]) -> (y) { w = const f32[33,1025] ~1 y = MatMul(x, w) }",
        "graph g(x: f32[3,1,100]) -> (y) { w = const f32[3,100,100] ~1 y = MatMul(x, w) }",
        "graph g(x: f32[9000]) -> (y) { y = Neg(x) }"}) {
    const Graph g = ParsedGraph(text);
    EXPECT_THAT(RunAndCompare(*backend, g), Each(Not(StartsWith("vulkan:")))) << text;
    const auto program = *backend->Compile(g, {});
    EXPECT_THAT(program->steps()[0].refusals,
                Contains(HasSubstr("a buffer of this device holds 16")))
        << text;
  }
}

}  // namespace
}  // namespace infer
