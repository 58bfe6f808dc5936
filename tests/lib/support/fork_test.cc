/// Lanes in a child that was forked, whatever its parent's threads were doing.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <thread>

#include "tests/lanes.h"

/// Tests fork while threads run, and start threads in the child. ThreadSanitizer ends such a child
/// unless it is told not to.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }  // NOLINT

namespace infer {
namespace {

/// Runs `child` in a fork; the exit code, or -1 for a signal. A child that hangs ends by itself.
int Fork(const std::function<int()>& child) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(300);
    _exit(child());
  }
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int SumInALoop() {
  std::atomic<int64_t> sum{0};
  ParallelFor(1000, 1, [&](int64_t a, int64_t b) {
    for (int64_t i = a; i < b; ++i) sum += i;
  });
  return sum == 499500 ? 0 : 1;
}

TEST(Fork, TheChildHasLanesOfItsOwn) {
  const LaneBudgetOf budget(4);
  {
    const LaneLease lease(3);
    EXPECT_EQ(SumInALoop(), 0);  // the threads are there
    std::latch held(1);
    std::atomic<bool> over{false};
    std::thread other([&] {
      const LaneLease last(1);
      held.count_down();
      Until([&] { return over.load(); });
    });
    held.wait();
    EXPECT_EQ(Fork([] {
                if (CurrentLanes() != 3) return 2;  // the forking thread's lease goes on
                if (SumInALoop() != 0) return 1;
                bool free = false;
                std::thread([&] { free = LaneLease(1).lanes() == 1; }).join();
                return free ? 0 : 3;  // what the other thread held is free
              }),
              0);
    over = true;
    other.join();
    EXPECT_EQ(SumInALoop(), 0) << "the parent's threads are still its own";
  }
  EXPECT_EQ(Fork([] {
              const LaneLease lease(0);
              return lease.lanes() == 4 ? SumInALoop() : 2;
            }),
            0);
}

TEST(Fork, WhileOthersUseTheLanes) {
  const LaneBudgetOf budget(3);
  std::atomic<bool> over{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 3; ++i)
    busy.emplace_back([&] {
      while (!over) {
        const LaneLease lease(2);
        EXPECT_EQ(SumInALoop(), 0);
      }
    });
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(Fork([] {
                const LaneLease lease(0);
                return SumInALoop();
              }),
              0);
  over = true;
  for (std::thread& t : busy) t.join();
}

}  // namespace
}  // namespace infer
