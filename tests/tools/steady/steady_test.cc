/// Runs under changing shapes: what a switch costs, and that nothing grows.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>

#include "lib/ir/text.h"
#include "lib/support/measure.h"
#include "lib/support/random.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "tests/tools/test_models.h"

namespace infer {
namespace {

constexpr std::string_view kNet = R"(graph g(x: f32[N,8,T]) -> (y: f32[N,T,4]) {
  w = const f32[16,8,3] ~1
  b = const f32[16] ~2
  c = Conv(x, w, b) {pads=[1,1]}
  r = Relu(c)
  t = Transpose(r) {perm=[0,2,1]}
  m = const f32[16,4] ~3
  d = MatMul(t, m)
  y = Softmax(d)
})";

std::vector<Datum> Inputs(const std::vector<Dims>& dims) {
  Random random(1);
  std::vector<Datum> inputs;
  for (const Dims& d : dims) {
    Tensor t(DType::kF32, d);
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.mutable_data<float>()[static_cast<size_t>(i)] = static_cast<float>(random.Uniform());
    inputs.emplace_back(std::move(t));
  }
  return inputs;
}

int64_t ResidentBytes() {
  std::ifstream f("/proc/self/statm");
  int64_t all = 0, resident = 0;
  f >> all >> resident;
  return resident * ::sysconf(_SC_PAGE_SIZE);
}

/// More shapes than are kept, so that every run plans anew and drops another plan.
TEST(Steady, MemoryIsFlatUnderChangingShapes) {
  auto g = ParseGraph(kNet, Ops());
  ASSERT_TRUE(g.ok()) << g.status().message();
  auto program = MakeCpuBackend()->Compile(*g, {.threads = 1});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto run = *(*program)->NewContext();
  std::vector<Dims> dims;
  for (int64_t k = 0; k < 48; ++k) dims.push_back({1 + k % 3, 8, 4 + k});
  const std::vector<Datum> inputs = Inputs(dims);
  int64_t early = 0;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(run->BindInput(0, inputs[static_cast<size_t>(i) % inputs.size()]).ok());
    const Status s = run->Run();
    ASSERT_TRUE(s.ok()) << s.message();
    if (i == 999) early = ResidentBytes();
  }
  const int64_t late = ResidentBytes();
  std::cout << "resident after 1000 runs " << HumanBytes(early) << ", after 10000 "
            << HumanBytes(late) << "\n";
  EXPECT_LE(static_cast<double>(late), 1.01 * static_cast<double>(early));
}

/// A network of many launches and 24 sizes that it has seen: what stands around its steps after a
/// switch, in microseconds (the median; and beside it, without a switch).
TEST(Steady, SwitchingBetweenKnownShapes) {
  const auto model = MakeZooModel("mobilenetv3-small", {.batch = 0, .resolution = 32}, Ops());
  ASSERT_TRUE(model.ok()) << model.status().message();
  auto program = MakeCpuBackend()->Compile(model->graph, {.threads = 1});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto run = *(*program)->NewContext();
  std::vector<Dims> dims;
  for (int64_t n = 1; n <= 24; ++n) dims.push_back({n, 3, 32, 32});
  const std::vector<Datum> inputs = Inputs(dims);
  std::vector<double> first, switched, same;
  for (int round = 0; round < 12; ++round)
    for (const Datum& x : inputs)
      for (bool again : {false, true}) {
        ASSERT_TRUE(run->BindInput(0, x).ok());
        const auto start = std::chrono::steady_clock::now();
        ASSERT_TRUE(run->Run({.profile = true}).ok());
        double outside = MsSince(start);
        for (const StepTiming& t : run->profile()) outside -= t.duration_ms;
        (again ? same : round == 0 ? first : switched).push_back(1e3 * outside);
      }
  std::cout << "around the steps: " << Fixed(Quantile(switched, 0.5), 1) << " us after a switch, "
            << Fixed(Quantile(same, 0.5), 1) << " us without, " << Fixed(Quantile(first, 0.5), 1)
            << " us where the size is new\n";
  EXPECT_LE(Quantile(switched, 0.5), 50);
  EXPECT_GT(Quantile(first, 0.5), Quantile(switched, 0.5));
}

}  // namespace
}  // namespace infer
