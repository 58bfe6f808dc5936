// Which times of two programs in turns are compared.
#include "tools/common/pair_timing.h"

#include <gmock/gmock.h>

namespace infer {
namespace {

/// `clean` pairs of 1 and 2 ms, then `others` in which another process took 50 ms of b's time.
std::vector<RunPair> Pairs(int clean, int others) {
  std::vector<RunPair> pairs(static_cast<size_t>(clean), {{1, 1, false}, {2, 2, false}});
  pairs.insert(pairs.end(), static_cast<size_t>(others), {{1, 1, false}, {52, 2, true}});
  return pairs;
}

TEST(PairTiming, RunsThatOthersInterruptTellNothing) {
  for (const int lanes : {1, 4}) {
    const PairTimes times = ComparableTimes(Pairs(12, 30), lanes);
    EXPECT_EQ(times.a_ms.size(), 12u);
    EXPECT_THAT(times.b_ms, testing::Each(2.0));
  }
}

TEST(PairTiming, TheProcessorsTimeCountsWhereNearlyAllAreInterrupted) {
  const PairTimes one = ComparableTimes(Pairs(3, 30), 1);
  EXPECT_EQ(one.a_ms.size(), 33u);
  EXPECT_THAT(one.b_ms, testing::Each(2.0));
  // Of several lanes it tells nothing of how long a run takes.
  const PairTimes four = ComparableTimes(Pairs(3, 30), 4);
  EXPECT_EQ(std::count(four.b_ms.begin(), four.b_ms.end(), 52.0), 30);
}

}  // namespace
}  // namespace infer
