/// Lanes: who is served when, how a wait ends, and what loops do on them. No test looks at a clock:
/// each waits for what must come.
#include "tests/lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "lib/support/lane_pool.h"
#include "lib/support/lane_queue.h"
#include "lib/support/parallel.h"
#include "lib/support/spin.h"
#include "lib/support/stop.h"

namespace infer {
namespace {

/// As if others left so many processors.
class FreeProcessors {
 public:
  explicit FreeProcessors(int processors) { PretendFreeProcessors(processors); }
  ~FreeProcessors() { PretendFreeProcessors(-1); }
};

/// Threads that wait for a lane of a queue, and the order in which they got it. Each gives its lane
/// back at once, so that one lane passes through all of them.
class Waiters {
 public:
  explicit Waiters(LaneQueue& queue) : queue_(queue) {}
  ~Waiters() { Join(); }
  /// Returns when it waits.
  void Add(int name, Priority priority) {
    const int waiting = queue_.waiting();
    threads_.emplace_back([this, name, priority] {
      const int got = queue_.Take(1, priority);
      {
        const std::lock_guard lock(mutex_);
        order_.push_back(name);
      }
      queue_.GiveBack(got);
    });
    Until([&] { return queue_.waiting() == waiting + 1; });
  }
  void Join() {
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }
  const std::vector<int>& order() const { return order_; }

 private:
  LaneQueue& queue_;
  std::mutex mutex_;
  std::vector<int> order_;
  std::vector<std::thread> threads_;
};

TEST(LaneQueue, ServesTheMostUrgentAndAmongEqualsTheFirst) {
  LaneQueue queue(1);
  ASSERT_EQ(queue.Take(0, Priority::kNormal), 1);
  Waiters waiters(queue);
  waiters.Add(0, Priority::kLow);
  waiters.Add(1, Priority::kNormal);
  waiters.Add(2, Priority::kNormal);
  waiters.Add(3, Priority::kHigh);
  waiters.Add(4, Priority::kHigh);
  EXPECT_TRUE(queue.MoreUrgentWaits(Priority::kNormal));
  EXPECT_FALSE(queue.MoreUrgentWaits(Priority::kHigh));
  queue.GiveBack(1);
  waiters.Join();
  EXPECT_EQ(waiters.order(), (std::vector<int>{3, 4, 1, 2, 0}));
  EXPECT_EQ(queue.used(), 0);
}

TEST(LaneQueue, NobodyStarves) {
  LaneQueue queue(1);
  ASSERT_EQ(queue.Take(1, Priority::kHigh), 1);
  Waiters waiters(queue);
  waiters.Add(-1, Priority::kLow);
  for (int i = 0; i < 3 * LaneQueue::kPatience; ++i) waiters.Add(i, Priority::kHigh);
  queue.GiveBack(1);
  waiters.Join();
  // Two levels up, each after so many who came later; then it is the first of its level.
  EXPECT_EQ(waiters.order()[2 * LaneQueue::kPatience], -1);
}

TEST(LaneQueue, GivesNoMoreThanThereAre) {
  LaneQueue queue(3);
  EXPECT_EQ(queue.Take(2, Priority::kNormal), 2);
  EXPECT_EQ(queue.Take(2, Priority::kNormal), 1);
  EXPECT_EQ(queue.TakeFree(1), 0);
  queue.GiveBack(2);
  EXPECT_EQ(queue.TakeFree(1), 1);
  Waiters waiters(queue);
  EXPECT_EQ(queue.TakeFree(1), 1);
  waiters.Add(0, Priority::kLow);
  queue.SetTotal(4);  // one more: for who waits
  waiters.Join();
  EXPECT_EQ(queue.used(), 3);
}

TEST(LaneQueue, AWaitEndsWithAStop) {
  LaneQueue queue(1);
  ASSERT_EQ(queue.Take(1, Priority::kNormal), 1);
  std::stop_source source;
  std::thread waits([&] {
    const StopScope scope(source.get_token());
    EXPECT_EQ(queue.Take(1, Priority::kNormal), 0);
  });
  Until([&] { return queue.waiting() == 1; });
  source.request_stop();
  waits.join();
  {
    const StopScope late({}, std::chrono::steady_clock::now());
    EXPECT_EQ(queue.Take(1, Priority::kHigh), 0);
    EXPECT_EQ(CheckStop().code(), Code::kCancelled);
  }
  EXPECT_EQ(queue.waiting(), 0);
  EXPECT_FALSE(queue.MoreUrgentWaits(Priority::kLow)) << "who waits no longer is not urgent";
  queue.GiveBack(1);
  EXPECT_EQ(queue.Take(0, Priority::kLow), 1) << "nobody took a lane with it";
}

TEST(LaneLease, AStoppedOneHoldsNothing) {
  const LaneBudgetOf one(1);
  std::latch held(1);
  std::atomic<bool> over{false};
  std::thread other([&] {
    const LaneLease lease(1);
    held.count_down();
    Until([&] { return over.load(); });
  });
  held.wait();
  {
    std::stop_source source;
    source.request_stop();
    const StopScope scope(source.get_token());
    LaneLease lease(1);
    EXPECT_EQ(CurrentLanes(), 1);
    lease.Adjust();
    EXPECT_EQ(CheckStop().code(), Code::kCancelled);
  }
  over = true;
  other.join();
  const LaneLease lease(0);
  EXPECT_EQ(lease.lanes(), 1);
}

TEST(LaneLease, ShrinksForTheMoreUrgentAndGrowsAgain) {
  const LaneBudgetOf four(4);
  LaneLease low(3, Priority::kLow);
  EXPECT_EQ(low.lanes(), 3);
  ParallelFor(3, 1, [](int64_t, int64_t) {});
  std::atomic<bool> over{false}, equal_got{false};
  std::atomic<int> got{0};
  std::thread first([&] {
    const LaneLease lease(1, Priority::kLow);  // the last free one
    equal_got = true;
    Until([&] { return over.load(); });
  });
  Until([&] { return equal_got.load(); });
  low.Adjust();
  EXPECT_EQ(low.lanes(), 3) << "nobody waits";
  std::thread urgent([&] {
    const LaneLease lease(2, Priority::kNormal);
    got = lease.lanes();
    Until([&] { return over.load(); });
  });
  Until([&] {
    low.Adjust();
    return low.lanes() == 1;
  });
  Until([&] { return got == 2; });
  std::atomic<int> ranges{0};
  ParallelFor(3, 1, [&](int64_t a, int64_t b) { ranges += static_cast<int>(b - a); });
  EXPECT_EQ(ranges, 3);
  over = true;
  first.join();
  urgent.join();
  low.Adjust();
  EXPECT_EQ(low.lanes(), 3) << "what it wanted, not all that are free";
}

TEST(LaneLease, HandsItsLastLaneToTheMoreUrgentAndGetsItBack) {
  const LaneBudgetOf one(1);
  LaneLease low(1, Priority::kLow);
  std::atomic<int> urgent_runs{0};
  std::thread urgent([&] {
    const LaneLease lease(1, Priority::kHigh);
    ++urgent_runs;
  });
  Until([&] {
    low.Adjust();  // waits while the other runs
    return urgent_runs == 1;
  });
  urgent.join();
  low.Adjust();
  EXPECT_EQ(low.lanes(), 1);
}

TEST(LaneLease, InALoopSharesWhatIsHeld) {
  const LaneBudgetOf two(2);
  EXPECT_FALSE(HoldsLanes());
  const LaneLease lease(2);
  EXPECT_TRUE(HoldsLanes());
  EXPECT_FALSE(IsInLoop());
  std::atomic<int> wrong{0};
  ParallelFor(8, 1, [&](int64_t, int64_t) {
    const LaneLease inner(2);  // would wait for ever: all are held
    wrong += !HoldsLanes() + !IsInLoop() + (inner.lanes() != 1);
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(IsInLoop());
}

TEST(ParallelFor, InACrowdDoesTheSame) {
  for (int free : {0, 2, 100}) {
    const FreeProcessors pretend(free);
    for (int lanes : {1, 2, 3, 7}) {
      SCOPED_TRACE(testing::Message() << lanes << " lanes, " << free << " free processors");
      const LaneBudgetOf budget(lanes);
      const LaneLease lease(0);
      for (int64_t n : {1, 5, 1000}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
        ParallelFor(n, 3, [&](int64_t a, int64_t b) {
          for (int64_t i = a; i < b; ++i) ++hits[static_cast<size_t>(i)];
        });
        for (auto& h : hits) EXPECT_EQ(h, 1);
      }
      std::atomic<int64_t> seen{0};
      const auto throws = [&](int64_t begin, int64_t end) {
        seen += end - begin;
        if (end == 1000) throw std::bad_alloc();
      };
      EXPECT_THROW(ParallelFor(1000, 10, throws), std::bad_alloc);
      EXPECT_EQ(seen, 1000) << "the other ranges are still run";
      EXPECT_EQ(CurrentLanes(), lanes);
    }
  }
}

TEST(LaneLease, UsesTheProcessorsThatOthersLeave) {
  const LaneBudgetOf budget(4);
  const LaneLease lease(0);
  for (const auto& [free, most] : {std::pair{0, 4u}, {1, 4u}, {2, 2u}, {3, 3u}, {100, 4u}}) {
    const FreeProcessors pretend(free);
    std::mutex mutex;
    std::set<std::thread::id> used;
    for (int i = 0; i < 50; ++i)
      ParallelFor(64, 1, [&](int64_t, int64_t) {
        const std::lock_guard lock(mutex);
        used.insert(std::this_thread::get_id());
      });
    EXPECT_LE(used.size(), most);
    EXPECT_EQ(CurrentLanes(), 4) << "the lease is as it was";
  }
}

TEST(ParallelFor, LooksForStopsWhereItIsAskedTo) {
  for (int lanes : {1, 2, 7}) {
    SCOPED_TRACE(lanes);
    const LaneBudgetOf budget(lanes);
    const LaneLease lease(0);
    std::stop_source source;
    const StopScope scope(source.get_token());
    std::atomic<int64_t> done{0};
    const auto body = [&](int64_t begin, int64_t end) {
      EXPECT_TRUE(lanes == 1 || IsInLoop());
      done += end - begin;
      source.request_stop();
      EXPECT_TRUE(StopRequested()) << "the scopes of the caller, on every lane";
    };
    ParallelFor(1 << 20, 1, body);
    EXPECT_EQ(done, 1 << 20) << "a fast kernel is not interrupted";
    done = 0;
    source = std::stop_source();
    const StopScope again(source.get_token());
    {
      const StoppableLoops look;
      const StopScope fresh(source.get_token());
      EXPECT_THROW(ParallelFor(1 << 20, 1, body), Stopped);
    }
    EXPECT_LT(done, 1 << 20);
    EXPECT_EQ(CurrentLanes(), lanes);
  }
}

TEST(Team, PartsMayWaitForEachOther) {
  Team& team = Team::OfThisThread();
  team.GrowTo(4);
  ASSERT_EQ(team.size(), 4);
  for (int awake : {4, 2, 1})
    for (int round = 0; round < (awake == 4 ? 200 : 3); ++round) {
      std::latch all(4);
      std::atomic<int> sum{0};
      const auto part = [&](int i) {
        all.arrive_and_wait();
        sum += i;
      };
      team.Run(4, part, awake);
      EXPECT_EQ(sum, 6);
    }
  team.ShrinkTo(1);
  std::vector<int> order;
  const auto note = [&](int i) { order.push_back(i); };
  team.Run(3, note, 3);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2})) << "without lanes the caller does everything";
}

TEST(Team, ThreadsStand) {
  const LaneBudgetOf budget(4);
  const auto loops = [] {
    const LaneLease lease(0);
    for (int i = 0; i < 20; ++i) ParallelFor(4, 1, [](int64_t, int64_t) {});
  };
  loops();
  const size_t before = Tasks().size();
  for (int run = 0; run < 20; ++run) std::thread(loops).join();
  EXPECT_EQ(Tasks().size(), before) << "all callers share them";
}

TEST(Team, WorkAsideComesBackToTheSameThreads) {
  const auto aside = [] {
    std::atomic<bool> done{false};
    RunAside([&] {
      EXPECT_FALSE(HoldsLanes());
      done = true;
    });
    Until([&] { return done.load(); });
  };
  for (int i = 0; i < 8; ++i) aside();
  const size_t before = Tasks().size();
  EXPECT_LE(before, 64u);
  std::atomic<int> inside{0};
  std::atomic<bool> over{false};
  constexpr int kMany = 5;  // at once: none waits for another
  for (int i = 0; i < kMany; ++i)
    RunAside([&] {
      ++inside;
      Until([&] { return over.load(); });
      --inside;
    });
  Until([&] { return inside == kMany; });
  over = true;
  Until([&] { return inside == 0; });
  const size_t most = Tasks().size();
  for (int i = 0; i < 50; ++i) aside();
  EXPECT_LE(Tasks().size(), most + 1);
}

/// Everything at once, for ThreadSanitizer above all: leases of all priorities that shrink, grow
/// and are stopped, loops in and out of crowds, exceptions, work aside.
TEST(Lanes, Stress) {
  const LaneBudgetOf budget(3);
  constexpr int kThreads = 6, kRounds = 60;
  std::atomic<int> running{0}, worst{0}, wrong{0};
  const auto one = [&](int seed) {
    std::stop_source source;
    const StopScope scope(source.get_token());
    if (seed % 7 == 0) source.request_stop();
    LaneLease lease(1 + seed % 3, static_cast<Priority>(seed % 3));
    for (int launch = 0; launch < 4; ++launch) {
      lease.Adjust();
      if (!CheckStop().ok()) return;
      std::atomic<int64_t> sum{0};
      try {
        ParallelFor(64, 1, [&](int64_t a, int64_t b) {
          const int now = ++running;
          for (int w = worst; now > w && !worst.compare_exchange_weak(w, now);) {
          }
          for (int64_t i = a; i < b; ++i) sum += i;
          --running;
          if (seed % 5 == 0 && b == 64) throw std::bad_alloc();
        });
      } catch (const std::bad_alloc&) {
      }
      wrong += sum != 2016;
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) one(t * kRounds + i);
    });
  std::atomic<int> asides{0};
  for (int i = 0; i < 20; ++i) {
    PretendFreeProcessors(i % 4);
    RunAside([&, i] {
      one(i);
      ++asides;
    });
    std::this_thread::yield();
  }
  for (std::thread& t : threads) t.join();
  Until([&] { return asides == 20; });
  PretendFreeProcessors(-1);
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(worst, 3);
}

}  // namespace
}  // namespace infer
