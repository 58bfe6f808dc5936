/// Who waits in a future runs the request itself, where nobody has begun it.
#include <gmock/gmock.h>

#include <thread>

#include "lib/support/parallel.h"
#include "tests/runtime/engine/engine_fixture.h"

namespace infer::engine {
namespace {

using std::chrono::seconds;

/// An engine of one thread, which a callback holds up until the scope ends; model "m" notes the
/// threads that run it.
struct HeldUp {
  explicit HeldUp(ModelOptions options = {}) : engine(Made(1)) {
    const RunHook hook = [this](const std::vector<Datum>&, const RunOptions&) {
      const std::lock_guard lock(mutex);
      ran.push_back(std::this_thread::get_id());
      return Status();
    };
    EXPECT_TRUE(engine->Load("m", SourceOf(kRowsModel, hook), std::move(options)).ok());
    std::promise<void> blocks;
    engine->Submit(For(1), [&](Outcome) {
      blocks.set_value();
      go.get_future().wait();
    });
    blocks.get_future().wait();
    ran.clear();
  }
  ~HeldUp() { LetGo(); }
  void LetGo() {
    if (!std::exchange(held, false)) return;
    go.set_value();
    engine->Drain();
  }

  std::mutex mutex;
  std::vector<std::thread::id> ran;
  std::promise<void> go;
  bool held = true;
  std::unique_ptr<Engine> engine;
};

TEST(Future, WhoWaitsRunsTheRequestThatNoThreadHasBegun) {
  HeldUp held;
  Future answer = held.engine->Submit(For(3));
  EXPECT_EQ(answer.wait_for(seconds(0)), std::future_status::timeout)
      << "a timed wait runs nothing";
  EXPECT_TRUE(held.ran.empty());
  const Outcome o = answer.get();
  EXPECT_FALSE(answer.valid());
  EXPECT_EQ(o.end, State::kSucceeded);
  EXPECT_EQ(FirstOf(o), 6);
  held.LetGo();  // the thread of the pool finds that there is nothing left to run
  EXPECT_THAT(held.ran, testing::ElementsAre(std::this_thread::get_id()));
  const ModelStats stats = StatsOf(*held.engine);
  EXPECT_EQ(stats.runs, 2);
  EXPECT_EQ(stats.ends[EndIndex(State::kSucceeded)], 2);
}

TEST(Future, ThroughARouteToo) {
  HeldUp held;
  const ModelOptions warm = {.warm_inputs = For(1).inputs};
  ASSERT_TRUE(held.engine->Load("n", SourceOf(kRowsModel), warm).ok());
  const Status set =
      held.engine->SetRoute("r", {SplitRoute{.salt = "s"}, {{.model = "m"}, {.model = "n"}}});
  ASSERT_TRUE(set.ok()) << set.message();
  Request request = For(3);
  request.model = "r";
  const Outcome o = held.engine->Submit(std::move(request)).get();
  EXPECT_EQ(o.ticket.route, "r");
  EXPECT_EQ(FirstOf(o), 6);
}

TEST(Future, WhatIsQueuedBehindOthersWaitsForThem) {
  HeldUp held;
  Future first = held.engine->Submit(For(1)), second = held.engine->Submit(For(2));
  std::thread waits([&] { EXPECT_EQ(FirstOf(second.get()), 4); });
  EXPECT_EQ(FirstOf(first.get()), 2);  // behind it the second is the pool's
  held.LetGo();
  waits.join();
}

TEST(Future, ACancelledRequestIsNotRun) {
  HeldUp held;
  std::stop_source stop;
  Request request = For(3);
  request.stop = stop.get_token();
  Future answer = held.engine->Submit(std::move(request));
  stop.request_stop();
  EXPECT_EQ(answer.get().end, State::kCancelled);
  EXPECT_TRUE(held.ran.empty());
}

TEST(Future, WhoHoldsLanesRunsNothing) {
  HeldUp held;
  Future answer = held.engine->Submit(For(3));
  std::thread lets_go;
  {
    const LaneLease lanes(1);
    lets_go = std::thread([&] { held.LetGo(); });
    answer.wait();
  }
  lets_go.join();
  EXPECT_EQ(FirstOf(answer.get()), 6);
  ASSERT_EQ(held.ran.size(), 1U);
  EXPECT_NE(held.ran[0], std::this_thread::get_id());
}

TEST(Future, BecomesAStandardOneAndOutlivesTheEngine) {
  std::future<Outcome> standard;
  Future dropped, kept;
  {
    HeldUp held;
    standard = held.engine->Submit(For(3));
    dropped = held.engine->Submit(For(3));
    kept = held.engine->Submit({.model = "unknown"});
    held.LetGo();
  }
  EXPECT_EQ(FirstOf(standard.get()), 6);
  EXPECT_EQ(kept.get().end, State::kRejected);
}

TEST(Future, WaitersAndThePoolRunEachRequestOnce) {
  constexpr int kThreads = 3, kRequests = 200;
  std::atomic<int> runs{0};
  const auto engine = Made(2);
  const RunHook hook = [&](const std::vector<Datum>&, const RunOptions&) {
    ++runs;
    return Status();
  };
  ASSERT_TRUE(
      engine->Load("m", SourceOf(kRowsModel, hook), {.instances = 2, .batch = {.max_rows = 2}})
          .ok());
  std::vector<std::thread> clients;
  for (int t = 0; t < kThreads; ++t)
    clients.emplace_back([&, t] {
      for (int i = 0; i < kRequests; ++i) {
        Future answer = engine->Submit(For(static_cast<float>(t)));
        if (i % 3 == 0) std::this_thread::yield();
        const Outcome o = answer.get();
        EXPECT_EQ(o.end, State::kSucceeded);
        EXPECT_EQ(FirstOf(o), 2 * static_cast<float>(t));
      }
    });
  for (std::thread& t : clients) t.join();
  const ModelStats stats = StatsOf(*engine);
  EXPECT_EQ(stats.ends[EndIndex(State::kSucceeded)], kThreads * kRequests);
  EXPECT_EQ(stats.runs, runs);
}

}  // namespace
}  // namespace infer::engine
