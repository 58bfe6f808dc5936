#include "runtime/engine/patience.h"

#include <gtest/gtest.h>

namespace infer::engine {
namespace {

using std::chrono::nanoseconds;

/// A microsecond later at each reading, however long the thread was not running.
struct TickingClock {
  using time_point = std::chrono::time_point<TickingClock, nanoseconds>;
  static inline int64_t ticks = 0;
  static time_point now() { return time_point(nanoseconds(1000 * ++ticks)); }
};
using TestedPatience = BasicPatience<TickingClock>;

/// How often a look asked before it gave up, or found it at the `found`th question.
int Questions(TestedPatience& patience, int found = 1 << 30) {
  int asked = 0;
  patience.Look([&] { return ++asked >= found; });
  return asked;
}

void WaitLong(TestedPatience& patience, int times) {
  for (int i = 0; i < times; ++i) patience.Waited(std::chrono::milliseconds(1));
}

TEST(Patience, LooksWhileWaitsAreShort) {
  if (AvailableCores() < 2) GTEST_SKIP() << "one core";
  TestedPatience patience;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Questions(patience, 3), 3);
    patience.Waited(nanoseconds(1000));
  }
  EXPECT_EQ(Questions(patience, 1), 1);
}

TEST(Patience, BehindLongWaitsOneInSixteenLooks) {
  if (AvailableCores() < 2) GTEST_SKIP() << "one core";
  TestedPatience patience;
  WaitLong(patience, 20);
  int looked = 0;
  for (int i = 0; i < 160; ++i) {
    // The first question is free; the second is asked by those who look.
    looked += Questions(patience) > 1;
    WaitLong(patience, 1);
  }
  EXPECT_EQ(looked, 10);
}

/// Where a look was right, waits are short as soon as everybody looks.
TEST(Patience, ComesBackFromLongWaits) {
  if (AvailableCores() < 2) GTEST_SKIP() << "one core";
  TestedPatience patience;
  WaitLong(patience, 20);
  int slept = 0;
  for (int i = 0; i < 40; ++i) {
    const bool looks = Questions(patience, 2) == 2;
    slept += !looks;
    // Who sleeps is woken late.
    patience.Waited(nanoseconds(looks ? 2000 : 100'000));
  }
  EXPECT_LE(slept, 16);
  EXPECT_EQ(Questions(patience, 2), 2);
}

}  // namespace
}  // namespace infer::engine
