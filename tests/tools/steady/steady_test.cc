/// Runs under changing shapes: nothing grows.
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <iostream>

#include "lib/support/readable.h"
#include "tests/tools/programs.h"

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
  const std::vector<Datum> inputs = RandomInputs(dims);
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

}  // namespace
}  // namespace infer
