/// Callbacks, futures and coroutines on real threads.
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "tests/runtime/engine/engine_fixture.h"

namespace infer::engine {
namespace {

TEST(Engine, CallbacksMayThrowSubmitAndBlock) {
  const auto engine = Made(2);
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel), {.instances = 2}).ok());
  engine->Submit(For(1), [](Outcome) { throw std::runtime_error("mine"); });
  std::promise<float> chained;
  engine->Submit(For(1), [&](Outcome o) {
    engine->Submit(For(FirstOf(o)), [&](Outcome p) { chained.set_value(FirstOf(p)); });
  });
  EXPECT_EQ(chained.get_future().get(), 4);
  std::promise<void> blocks, go;
  engine->Submit(For(1), [&](Outcome) {
    blocks.set_value();
    go.get_future().wait();
  });
  blocks.get_future().wait();
  EXPECT_EQ(FirstOf(engine->Infer(For(3))), 6) << "the other thread goes on";
  go.set_value();
  engine->Drain();
  EXPECT_EQ(StatsOf(*engine).thrown, 1);
}

TEST(Engine, ACallbackThatBlocksHidesNoEndOfItsBatch) {
  Gate gate;
  const auto engine = Made(2);
  ASSERT_TRUE(
      engine->Load("m", SourceOf(kRowsModel, gate.hook()), {.batch = {.max_rows = 2}}).ok());
  const auto first = engine->Submit(For(0));
  gate.Await(1);
  std::promise<void> blocks, go;
  auto may_go = go.get_future();
  engine->Submit(For(1), [&](Outcome) {
    blocks.set_value();
    may_go.wait();
  });
  const auto second = engine->Submit(For(2));
  gate.Open();
  blocks.get_future().wait();
  first.wait();  // of another batch, whose thread may tell it later
  EXPECT_EQ(StatsOf(*engine).times.total.ended(State::kSucceeded), 3);
  go.set_value();
  engine->Drain();
}

TEST(Engine, ADroppedFutureDropsTheOutcomeOnly) {
  std::atomic<int> runs{0};
  const auto engine = Made();
  ASSERT_TRUE(engine
                  ->Load("m", SourceOf(kRowsModel,
                                       [&](const auto&, const RunOptions&) {
                                         ++runs;
                                         return Status();
                                       }))
                  .ok());
  (void)engine->Submit(For(1));
  engine->Drain();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(StatsOf(*engine).ends[EndIndex(State::kSucceeded)], 1);
}

TEST(Engine, ACallbackMayDestroyTheEngine) {
  for (const bool by_cancel : {false, true})
    for (int threads : {1, 2}) {
      Gate gate;
      std::atomic<int> told{0};
      std::latch done(3);
      auto engine = Made(threads);
      ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel, gate.hook())).ok());
      std::stop_source stop;
      Request first = For(1);
      first.stop = stop.get_token();
      engine->Submit(std::move(first), [&](Outcome) {
        engine.reset();
        EXPECT_EQ(told.exchange(10), 2) << "the others were told before it was gone";
        done.count_down();
      });
      gate.Await(1);
      for (int i = 0; i < 2; ++i)
        engine->Submit(For(2), [&](Outcome o) {
          // The next run may have begun before the callback of the first was called.
          EXPECT_TRUE(o.end == State::kCancelled || o.end == State::kSucceeded) << Name(o.end);
          ++told;
          done.count_down();
        });
      if (by_cancel)
        stop.request_stop();
      else
        gate.Open();
      done.wait();
    }
}

/// A coroutine that nobody waits for.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

TEST(Engine, ACoroutineResumesOnTheThreadThatRan) {
  std::atomic<std::thread::id> ran;
  const auto engine = Made();
  ASSERT_TRUE(engine
                  ->Load("m", SourceOf(kRowsModel,
                                       [&](const auto&, const RunOptions&) {
                                         ran = std::this_thread::get_id();
                                         return Status();
                                       }))
                  .ok());
  std::promise<void> done;
  const auto chain = [&]() -> Detached {
    const std::thread::id submitter = std::this_thread::get_id();
    Request nowhere{.model = "none"};
    const Outcome rejected = co_await engine->Await(std::move(nowhere));
    EXPECT_EQ(rejected.end, State::kRejected);
    EXPECT_EQ(std::this_thread::get_id(), submitter);
    float value = 1;
    for (int i = 0; i < 3; ++i) {
      const Outcome o = co_await engine->Await(For(value));
      value = FirstOf(o);
      EXPECT_EQ(std::this_thread::get_id(), ran.load());
    }
    EXPECT_EQ(value, 8);
    done.set_value();
  };
  chain();
  done.get_future().wait();
}

}  // namespace
}  // namespace infer::engine
