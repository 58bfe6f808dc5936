/// oneDNN's parallel regions on our lanes, beside whatever else uses OpenMP in the process.
#include "runtime/cpu/onednn/openmp.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "tests/lanes.h"

extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_num_threads();
int omp_get_thread_num();
int omp_in_parallel();
void omp_set_num_threads(int threads);
}

namespace infer {
namespace {

/// Convolutions that oneDNN computes.
class OneDnn : public testing::Test {
 protected:
  static constexpr int kLanes = 3;
  OneDnn() {
    const OpRegistry ops = AllOps();
    const auto graph = ParseGraph(R"(graph g(x: f32[1,32,40,40]) -> (y) {
      v = const f32[32,32,5,5] ~1
      w = const f32[48,32,5,5] ~2
      a = Conv(x, v) {pads=[2,2,2,2]}
      y = Conv(a, w) {strides=[2,2]}
    })",
                                  ops);
    program_ = *MakeCpuBackend()->Compile(*graph, {.level = 1, .threads = kLanes});
  }

  Tensor Run() const {
    Tensor x(DType::kF32, {1, 32, 40, 40});
    for (int64_t i = 0; i < x.num_elements(); ++i)
      x.mutable_data<float>()[i] = static_cast<float>((i * 7919) % 1000) / 1000.f - 0.5f;
    const auto out = RunOnce(*program_, std::vector<Datum>{x});
    EXPECT_TRUE(out.ok()) << out.status().message();
    return (*out)[0].tensor();
  }
  /// 0, or the exit code of a child.
  static int Differ(const Tensor& a, const Tensor& b) {
    return a.byte_size() == b.byte_size() &&
                   std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.byte_size())) == 0
               ? 0
               : 1;
  }

  const LaneBudgetOf budget_{kLanes};
  std::shared_ptr<const Program> program_;
};

/// How often each thread number of a region came, and whether all saw the same size.
struct Region {
  std::atomic<int> came[4] = {};
  std::atomic<int> wrong{0};
  static void Body(void* data) {
    auto& region = *static_cast<Region*>(data);
    const int i = omp_get_thread_num();
    if (i < 0 || i >= 4 || omp_get_num_threads() != 4 || !omp_in_parallel())
      ++region.wrong;
    else
      ++region.came[i];
  }
  void Expect() const {
    EXPECT_EQ(wrong, 0);
    for (const auto& c : came) EXPECT_EQ(c, 1);
  }
};

TEST_F(OneDnn, UsesTheLanesOfAllCallers) {
  EXPECT_TRUE(onednn::RunsOnLanes());
  bool any = false;
  for (const StepInfo& s : program_->steps()) any |= s.kernel.starts_with("onednn:");
  ASSERT_TRUE(any) << "the test is about oneDNN";
  const Tensor want = Run();
  const size_t before = Tasks().size();
  for (int caller = 0; caller < 6; ++caller)
    std::thread([&] { EXPECT_EQ(Differ(Run(), want), 0); }).join();
  EXPECT_EQ(Tasks().size(), before) << "no caller has a team of its own";
  SetLaneBudget(1);
  EXPECT_EQ(Differ(Run(), want), 0) << "a plan for three lanes on one";
}

TEST_F(OneDnn, ManyCallersAtOnceKeepToTheLanes) {
  const Tensor want = Run();
  std::atomic<int> wrong{0};
  std::vector<std::jthread> callers;
  for (int i = 0; i < 5; ++i)
    callers.emplace_back([&] {
      for (int run = 0; run < 5; ++run) wrong += Differ(Run(), want);
    });
  callers.clear();
  EXPECT_EQ(wrong, 0);
}

TEST_F(OneDnn, RunsInTheChildOfAFork) {
  const Tensor want = Run();
  const pid_t child = fork();
  if (child == 0) {
    alarm(300);
    _exit(Differ(Run(), want));
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Differ(Run(), want), 0);
}

TEST_F(OneDnn, LeavesRegionsOfOthersToTheirRuntime) {
  const Tensor want = Run();
  for (int round = 0; round < 3; ++round) {
    Region region;
    GOMP_parallel(Region::Body, &region, 4, 0);
    region.Expect();
    EXPECT_EQ(omp_in_parallel(), 0);
    EXPECT_EQ(Differ(Run(), want), 0);
  }
}

TEST_F(OneDnn, StandsASecondOpenMPRuntime) {
  const Tensor want = Run();
  Dl_info libgomp;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&omp_set_num_threads), &libgomp), 0);
  const auto copy = std::filesystem::path(testing::TempDir()) /
                    Cat("second-libgomp-", static_cast<int64_t>(getpid()), ".so");
  std::filesystem::copy_file(libgomp.dli_fname, copy,
                             std::filesystem::copy_options::overwrite_existing);
  void* second = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::filesystem::remove(copy);
  ASSERT_TRUE(second) << dlerror();
  const auto parallel = reinterpret_cast<decltype(&GOMP_parallel)>(dlsym(second, "GOMP_parallel"));
  ASSERT_TRUE(parallel);
  EXPECT_NE(parallel, &GOMP_parallel);
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> came{0};
    parallel([](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &came, 4, 0);
    EXPECT_EQ(came, 4);
    EXPECT_EQ(Differ(Run(), want), 0);
  }
}

}  // namespace
}  // namespace infer
