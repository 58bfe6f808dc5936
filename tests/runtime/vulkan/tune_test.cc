/// --tune: each kernel that may be chosen is right, what was measured is kept, and the file
/// decides.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class VulkanTune : public testing::Test {
 protected:
  VulkanTune() : path_(Cat(testing::TempDir(), "infer-vulkan-tune-", getpid(), "/tune.txt")) {}
  ~VulkanTune() override {
    std::filesystem::remove_all(std::filesystem::path(path_).parent_path());
  }

  std::shared_ptr<const Program> Compile(const Backend& backend, const Graph& g, bool tune,
                                         Compute compute = Compute::kF32) {
    CompileOptions options = {.compute = compute};
    options.tune = tune;
    options.tune_cache = path_;
    auto program = backend.Compile(g, options);
    EXPECT_TRUE(program.ok()) << program.status().message();
    return program.ok() ? *program : nullptr;
  }
  /// Of a file with one choice: its key, and the names of the candidates.
  std::pair<std::string, std::vector<std::string>> Measured() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    const std::vector<std::string> lines = Split(text.str(), '\n');
    EXPECT_THAT(lines, SizeIs(3)) << text.str();  // a comment, the choice, and what follows it
    const std::string key = Split(lines.at(1), '\t').at(0);
    for (const std::string& part : Split(key, '|'))
      if (part.starts_with("vulkan:")) return {key, Split(part, ',')};
    ADD_FAILURE() << key;
    return {};
  }
  /// Every candidate, named by the file, gives the numbers of the kernel that is taken unasked.
  void CheckCandidates(const Backend& backend, const std::string& text, size_t at_least,
                       Compute compute = Compute::kF32, double tolerance = 1e-5) {
    const Graph g = ParsedGraph(text);
    const auto want = RunOnce(**backend.Compile(g, {.compute = compute}), InputsOf(g));
    ASSERT_TRUE(want.ok()) << want.status().message();
    std::filesystem::remove(path_);
    ASSERT_TRUE(Compile(backend, g, true, compute));
    const auto [key, names] = Measured();
    EXPECT_GE(names.size(), at_least) << key;
    names_ = names;
    for (size_t i = 0; i < names.size(); ++i) {
      SCOPED_TRACE(Cat(text, " by ", names[i]));
      std::ofstream(path_) << key << "\t" << i << "\t" << names[i] << "\t0.1\n";
      const auto program = Compile(backend, g, false, compute);
      ASSERT_TRUE(program);
      const auto got = RunOnce(*program, InputsOf(g));
      ASSERT_TRUE(got.ok()) << got.status().message();
      const Tensor &a = (*got)[0].tensor(), &b = (*want)[0].tensor();
      if (b.dtype() != DType::kF32) {
        EXPECT_TRUE(BitEqual(a, b));
        continue;
      }
      double most = 0, largest = 0;
      for (size_t n = 0; n < b.data<float>().size(); ++n) {
        most = std::max(most, std::abs(double{a.data<float>()[n]} - b.data<float>()[n]));
        largest = std::max(largest, std::abs(double{b.data<float>()[n]}));
      }
      EXPECT_LE(most, tolerance * largest) << program->steps()[0].kernel;
      if (i == 0) continue;
      EXPECT_THAT(program->steps()[0].refusals, Contains(HasSubstr("was measured fastest")));
    }
  }

  const std::string path_;
  std::vector<std::string> names_;  ///< candidates of the last check
};

constexpr const char* kMatMul =
    R"(graph g(x: f32[150,70]) -> (y) { w = const f32[70,140] ~1 b = const
    f32[140] ~2 p = MatMul(x, w) q = Add(p, b) y = Relu(q) })";
constexpr const char* kConv =
    R"(graph g(x: f32[1,70,12,13]) -> (y) { w = const f32[80,70,3,3] ~1 y =
    Conv(x, w) {pads=[1,1,1,1]} })";

TEST_F(VulkanTune, EveryCandidateIsRight) {
  const auto backend = VulkanOver();
  CheckCandidates(*backend, kMatMul, 3);
  if (!IsLeftToRelease(1, 2)) CheckCandidates(*backend, kConv, 3);
  // As on a GPU, with larger tiles and more parts.
  const auto gpu = VulkanOver({.busy_groups = 8});
  if (!IsLeftToRelease(1, 2)) CheckCandidates(*gpu, kMatMul, 5);
  CheckCandidates(*gpu, kConv, 5);
}

/// Also where the rule sums directly.
TEST_F(VulkanTune, WinogradIsACandidate) {
  const char* graph =
      R"(graph g(x: f32[1,20,9,13]) -> (y) { w = const f32[24,20,3,3] ~1 c = Conv(x, w)
      {pads=[1,1,1,1]} y = Relu(c) })";
  CheckCandidates(*VulkanOver(), graph, 3);
  EXPECT_THAT(names_, Contains("vulkan:winograd:any"));
  if (IsLeftToRelease(1, 2)) return;
  CheckCandidates(*VulkanOver({.busy_groups = 8}), graph, 5);
  EXPECT_THAT(names_, Contains("vulkan:winograd:128"));
  CheckCandidates(*VulkanOver({.disable = {"winograd"}}), graph, 3);
  EXPECT_THAT(names_, Not(Contains(HasSubstr("winograd:"))));
}

/// Some multiply in f16, others in f32.
TEST_F(VulkanTune, HalfAndWholePrecision) {
  CheckCandidates(*VulkanOver({.busy_groups = 8}), kMatMul, 8, Compute::kF16, 2e-3);
}

TEST_F(VulkanTune, CodesHaveTheSameBits) {
  const auto is_product = [](const char* text) {
    return std::string_view(text).find("= Conv(") != std::string_view::npos;
  };
  const auto* const graph =
      std::find_if(std::begin(kCodeGraphs), std::end(kCodeGraphs), is_product);
  ASSERT_NE(graph, std::end(kCodeGraphs));
  CheckCandidates(*VulkanOver({.busy_groups = 8}), *graph, 4);
}

TEST_F(VulkanTune, TheFileDecides) {
  const auto backend = VulkanOver();
  const Graph g = ParsedGraph(kConv);
  const auto kernel = [&](bool tune) { return Compile(*backend, g, tune)->steps()[0].kernel; };
  const std::string usual = kernel(false);
  EXPECT_FALSE(std::filesystem::exists(path_));
  (void)kernel(true);
  const auto [key, names] = Measured();
  const auto with = [&](const std::string& line) {
    std::ofstream(path_) << line;
    return kernel(false);
  };
  const auto at =
      static_cast<size_t>(std::find(names.begin(), names.end(), "vulkan:conv:32") - names.begin());
  ASSERT_LT(at, names.size()) << key;
  EXPECT_EQ(with(Cat(key, "\t", at, "\t", names.at(at), "\t0.1\n")), "vulkan:conv32");
  EXPECT_EQ(with(Cat(key, "\t", at, "\t", names.at(at - 1), "\t0.1\n")), usual) << "another list";
  EXPECT_EQ(with(Cat("0123", key, "\t", at, "\t", names.at(at), "\t0.1\n")), usual)
      << "another build";
  EXPECT_EQ(with(Cat(key, "\t", at, "\n")), usual) << "damaged";
}

}  // namespace
}  // namespace infer
