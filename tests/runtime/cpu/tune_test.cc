/// What was measured is kept, and taken from the file; what does not fit is passed over.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "runtime/cpu/tune/cpu_tuner.h"

namespace infer {
namespace {

class Tune : public testing::Test {
 protected:
  Tune() : path_(Cat(testing::TempDir(), "infer-tune-", getpid(), "/tune.txt")) {}
  ~Tune() override { std::filesystem::remove_all(std::filesystem::path(path_).parent_path()); }

  /// The kernel of the only step.
  std::string Kernel(bool tune, const std::string& path) {
    const Graph g = *ParseGraph(R"(graph g(x: f32[64,96]) -> (y: f32[64,80]) {
      w = const f32[96,80] ~1
      y = MatMul(x, w)
    })",
                                ops_);
    CompileOptions options = {.threads = 1};
    options.tune = tune;
    options.tune_cache = path;
    const auto program = MakeCpuBackend()->Compile(g, options);
    EXPECT_TRUE(program.ok()) << program.status().message();
    return program.ok() ? (*program)->steps().at(0).kernel : "";
  }

  std::string Read() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  const OpRegistry ops_ = AllOps();
  const std::string path_;
};

TEST_F(Tune, TheFileDecides) {
  const std::string usual = Kernel(false, "");
  if (usual.find("own:gemm") != 0) GTEST_SKIP() << "one kernel only: " << usual;
  (void)Kernel(true, path_);
  const std::string text = Read();
  ASSERT_NE(text.find("MatMul"), std::string::npos) << text;
  const size_t tab = text.find('\t', text.find("MatMul"));
  const std::string key = text.substr(text.find('\n') + 1, tab - text.find('\n') - 1);
  const std::vector<std::string> names = Split(Split(key, '|').at(6), ',');
  const auto index = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  ASSERT_EQ(names.back(), "onednn");
  const auto last = names.size() - 1;
  const auto with = [&](const std::string& rest) {
    std::ofstream(path_) << key << rest;
    return Kernel(false, path_);
  };
  EXPECT_EQ(with(Cat("\t", index("panels"), "\tpanels\t0.1\n")), usual);
  EXPECT_EQ(with(Cat("\t", last, "\tonednn\t0.1\n")).find("onednn:"), 0u);
  const std::string other_build = Cat("0123456789abcdef", key.substr(key.find('|')));
  std::ofstream(path_) << other_build << "\t" << last << "\tonednn\t0.1\n";
  EXPECT_EQ(Kernel(false, path_), usual) << "measured by another build";
  const std::string damaged[] = {"",
                                 "\t1\n",
                                 "\t99\tonednn\t0.1\n",
                                 Cat("\t", last, "\tpanels\t0.1\n"),
                                 "\t-1\tonednn\t0.1\n",
                                 Cat("\t", last, "\tonednn\tx\n"),
                                 Cat("x\t", last, "\tonednn\t0.1\n")};
  for (const std::string& rest : damaged) EXPECT_EQ(with(rest), usual) << rest;
}

TEST_F(Tune, LinesOfOthersStay) {
  // Another process reads the file before this one writes it, and writes after it.
  const std::string theirs = "build|machine|MatMul\t0\tpanels\t0.1";
  const Graph g = *ParseGraph(R"(graph g(x: f32[64,96]) -> (y: f32[64,80]) {
    w = const f32[96,80] ~1
    y = MatMul(x, w)
  })",
                              ops_);
  const StepKernels candidates = [] {
    StepKernels k;
    k.names = {"a", "b"};
    return k;
  }();
  CompileOptions options = {.threads = 1};
  options.tune = true;
  options.tune_cache = path_;
  const auto tuner = CpuTuner::For(options, 1);
  ASSERT_TRUE(tuner.ok());
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  std::ofstream(path_) << theirs << "\n";
  const Plan plan = PartitionByNode(g.Clone());
  const std::optional<Prepared> prepared[] = {Prepared(), Prepared()};
  ASSERT_TRUE((*tuner)->Fastest(plan.steps.at(0), {}, {}, candidates, prepared));
  ASSERT_TRUE((*tuner)->Save().ok());
  EXPECT_NE(Read().find(theirs), std::string::npos) << Read();
  EXPECT_NE(Read().find("|a,b|"), std::string::npos) << Read();
  // And many at once.
  std::vector<pid_t> children;
  for (int child = 0; child < 8; ++child) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    StepKernels mine;
    mine.names = {Cat("child", child), "b"};
    const auto own = CpuTuner::For(options, 1);
    const bool ok = own.ok() && (*own)->Fastest(plan.steps.at(0), {}, {}, mine, prepared) &&
                    (*own)->Save().ok();
    _exit(ok ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (int child = 0; child < 8; ++child)
    EXPECT_NE(Read().find(Cat("|child", child, ",b|")), std::string::npos) << child;
  EXPECT_NE(Read().find(theirs), std::string::npos);
}

TEST_F(Tune, NoFileIsNeededAndNoneIsWrittenUnasked) {
  EXPECT_NE(Kernel(true, ""), "");
  EXPECT_NE(Kernel(false, path_), "");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Tune, AFileThatIsNoneIsAnError) {
  std::filesystem::create_directories(path_);
  CompileOptions options;
  options.tune_cache = path_;
  const Graph g = *ParseGraph("graph g(x: f32[4]) -> (y) { y = Relu(x) }", ops_);
  EXPECT_EQ(MakeCpuBackend()->Compile(g, options).status().code(), Code::kIo);
}

}  // namespace
}  // namespace infer
