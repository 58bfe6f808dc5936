#include "tools/bench/environment.h"

#include <set>
#include <thread>

#include "tools/bench/bench_json.h"

namespace infer::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::SizeIs;

TEST(Environment, KnowsTheMachine) {
  ::setenv("INFER_BENCH_TEST", "here", 1);
  const Environment e = CaptureEnvironment();
  EXPECT_THAT(e.date, MatchesRegex("20[0-9][0-9]-[01][0-9]-[0-3][0-9]T.*Z"));
  ASSERT_FALSE(e.affinity.empty());
  std::set<int> in_cores;
  for (const auto& core : e.cores) in_cores.insert(core.begin(), core.end());
  EXPECT_EQ(in_cores, std::set<int>(e.affinity.begin(), e.affinity.end()));
  EXPECT_EQ(e.variables.at("INFER_BENCH_TEST"), "here");
  EXPECT_THAT(e.git_revision, MatchesRegex("|[0-9a-f]{12,40}(-dirty)?"));
  EXPECT_FALSE(ToJson(e)["libraries"]["infer"].empty());
}

TEST(Environment, WarnsOfWhatDisturbs) {
  Environment e;
  e.affinity = {0, 1};
  e.host.build_type = "release";
  e.load_1min = 0.9;
  e.governors = {"performance"};
  EXPECT_THAT(Warnings(e), SizeIs(0));
  e.host.build_type = "debug";
  e.load_1min = 3.25;
  e.governors = {"powersave"};
  EXPECT_THAT(Warnings(e), ElementsAre(HasSubstr("debug build"), HasSubstr("load 3.25"),
                                       HasSubstr("'powersave'")));
}

TEST(MachineWatch, SeesItsOwnTimeAndThatOfOthers) {
  const MachineWatch watch;
  double ms = 0;
  while (ms < 50) ms += SpinMs(1);
  const Watched w = watch.Finish();
  EXPECT_GE(w.seconds, 0.05);
  EXPECT_GT(w.own_cores, 0.1);
  EXPECT_LT(w.own_cores, 1.2);
  EXPECT_GT(w.spin_before_ms, 0);
  EXPECT_GT(w.spin_after_ms, 0);
}

TEST(MachineWatch, WarnsOfASlowerProcessorAndOtherLoad) {
  Watched w;
  w.spin_before_ms = 1;
  w.spin_after_ms = 1.02;
  w.mhz_before = w.mhz_after = 3000;
  w.other_cores = 0.1;
  EXPECT_THAT(Warnings(w), SizeIs(0));
  w.spin_after_ms = 1.5;
  w.mhz_after = 2000;
  w.other_cores = 1.25;
  EXPECT_THAT(Warnings(w), ElementsAre(HasSubstr("50 % slower"), HasSubstr("3000 to 2000 MHz"),
                                       HasSubstr("took 1.2 processors")));
}

TEST(CoreProbe, EveryPairOnce) {
  const Environment e = CaptureEnvironment();
  const auto pairs = ProbeCores(e.affinity);
  ASSERT_TRUE(pairs.ok()) << pairs.status().message();
  const size_t n = std::min<size_t>(e.affinity.size(), 8);
  EXPECT_EQ(pairs->size(), n * (n - 1) / 2);
  for (const CorePair& p : *pairs) EXPECT_GT(p.slowdown, 0.5);
  EXPECT_FALSE(ProbeCores(std::vector<int>{0, 100'000}).ok());
}

}  // namespace
}  // namespace infer::bench
