/// One builder for a value that several threads want.
#include "runtime/plan_ir/one_builder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/lanes.h"

namespace infer {
namespace {

/// Squares, made by one thread each. A build tells that it has begun and waits until it may end.
class Squares {
 public:
  std::atomic<int> begun{0}, may_end{0};

  Result<std::shared_ptr<const int>> Get(int key) {
    return builder_.Get(
        key, [&] { return Find(key); },
        [&](const std::function<void()>& has_lanes) -> Result<std::shared_ptr<const int>> {
          has_lanes();
          ++begun;
          while (may_end == 0) std::this_thread::yield();
          if (may_end < 0) {
            may_end = 1;
            return Internal("no square");
          }
          const std::lock_guard lock(mutex_);
          return made_[key] = std::make_shared<const int>(key * key);
        });
  }
  void AwaitBuild(int count = 1) {
    while (begun < count) std::this_thread::yield();
  }

 private:
  std::shared_ptr<const int> Find(int key) {
    const std::lock_guard lock(mutex_);
    const auto it = made_.find(key);
    return it == made_.end() ? nullptr : it->second;
  }

  std::mutex mutex_;
  std::map<int, std::shared_ptr<const int>> made_;
  OneBuilder<int, int> builder_;
};

TEST(OneBuilder, BuildsOnceForAll) {
  Squares squares;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&] {
      const auto got = squares.Get(3);
      ASSERT_TRUE(got.ok());
      EXPECT_EQ(**got, 9);
    });
  squares.AwaitBuild();
  squares.may_end = 1;
  threads.clear();
  EXPECT_EQ(squares.begun, 1);
  EXPECT_EQ(**squares.Get(4), 16) << "another key is another build";
  EXPECT_EQ(squares.begun, 2);
}

TEST(OneBuilder, AFailureIsTheBuildersAlone) {
  Squares squares;
  std::jthread first([&] { EXPECT_EQ(squares.Get(2).status().code(), Code::kInternal); });
  squares.AwaitBuild();
  std::jthread second([&] { EXPECT_TRUE(squares.Get(2).ok()); });
  squares.may_end = -1;
  first.join();
  second.join();
  EXPECT_EQ(squares.begun, 2);
}

TEST(OneBuilder, AnExceptionEndsTheBuild) {
  OneBuilder<int, int> builder;
  const auto none = [] { return std::shared_ptr<const int>(); };
  EXPECT_THROW(static_cast<void>(builder.Get(1, none,
                                             [](const auto&) -> Result<std::shared_ptr<const int>> {
                                               throw std::bad_alloc();
                                             })),
               std::bad_alloc);
  const auto got = builder.Get(1, none, [](const auto&) -> Result<std::shared_ptr<const int>> {
    return std::make_shared<const int>(1);
  });
  EXPECT_TRUE(got.ok()) << "nobody waits for a builder that is gone";
}

TEST(OneBuilder, AWaitEndsWithAStop) {
  Squares squares;
  std::jthread first([&] { EXPECT_TRUE(squares.Get(5).ok()); });
  squares.AwaitBuild();
  std::stop_source source;
  std::latch waits(1);
  std::jthread second([&] {
    const StopScope scope(source.get_token());
    waits.count_down();
    EXPECT_EQ(squares.Get(5).status().code(), Code::kCancelled);
  });
  waits.wait();
  source.request_stop();
  second.join();
  {
    const StopScope late({}, std::chrono::steady_clock::now());
    EXPECT_EQ(squares.Get(5).status().code(), Code::kCancelled);
  }
  EXPECT_EQ(squares.begun, 1);
  squares.may_end = 1;
}

/// The builder waits for a lane that the other thread holds: who waited for it would wait for ever.
TEST(OneBuilder, WhoHoldsLanesDoesNotWaitForWhoWantsThem) {
  const LaneBudgetOf one(1);
  OneBuilder<int, int> builder;
  std::shared_ptr<const int> made;
  std::mutex mutex;
  const auto find = [&] {
    const std::lock_guard lock(mutex);
    return made;
  };
  std::atomic<bool> building{false};
  std::atomic<int> builds{0};
  const auto build =
      [&](const std::function<void()>& has_lanes) -> Result<std::shared_ptr<const int>> {
    building = true;
    const LaneLease lease(1);
    has_lanes();
    ++builds;
    const std::lock_guard lock(mutex);
    return made = std::make_shared<const int>(7);
  };
  std::jthread other;
  {
    const LaneLease held(1);
    other = std::jthread([&] { EXPECT_TRUE(builder.Get(1, find, build).ok()); });
    while (!building) std::this_thread::yield();
    const auto got = builder.Get(1, find, build);
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(**got, 7);
    EXPECT_EQ(builds, 1) << "the other one still waits for its lane";
  }
  other.join();
  EXPECT_EQ(builds, 2);
}

/// A builder that has its lanes will end: others wait for it, with lanes or without.
TEST(OneBuilder, WhoHoldsLanesWaitsForWhoHasThem) {
  const LaneBudgetOf two(2);
  Squares squares;
  std::jthread first([&] {
    const LaneLease lease(1);
    EXPECT_TRUE(squares.Get(6).ok());
  });
  squares.AwaitBuild();
  std::latch held(1);
  std::jthread second([&] {
    const LaneLease lease(1);
    held.count_down();
    EXPECT_TRUE(squares.Get(6).ok());
  });
  held.wait();
  squares.may_end = 1;
  first.join();
  second.join();
  EXPECT_EQ(squares.begun, 1);
}

}  // namespace
}  // namespace infer
