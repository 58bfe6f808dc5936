/// Models that are loaded when they are asked for, within a budget of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/engine/memory_rules.h"
#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/from_environment.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(MemoryRules, TheLongestUnusedGoAndNoneInVain) {
  const MemoryHolder a{"a", 10, 1, true}, b{"b", 30, 2, true}, c{"c", 20, 3, true},
      pinned{"d", 40, 0, false};
  const std::vector<MemoryHolder> all = {c, a, pinned, b};
  EXPECT_THAT(*MakeRoom(100, "e", 0, all), IsEmpty());
  EXPECT_THAT(*MakeRoom(100, "e", 10, all), ElementsAre(1));
  EXPECT_THAT(*MakeRoom(100, "e", 30, all), ElementsAre(3)) << "a alone does not do, and b does";
  EXPECT_THAT(*MakeRoom(100, "e", 40, all), ElementsAre(1, 3));
  EXPECT_THAT(*MakeRoom(100, "e", 60, all), ElementsAre(1, 3, 0));
  const auto refused = MakeRoom(100, "e", 61, all);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("model 'e' needs 61 bytes; of the budget of 100 bytes 40 are held"));
  EXPECT_FALSE(MakeRoom(0, "e", 1, {}).ok());
  EXPECT_TRUE(MakeRoom(0, "e", 0, {}).ok());
}

/// Models of given sizes in virtual time.
struct Zoo {
  static constexpr int64_t kLoad = 1000, kRun = 10;
  explicit Zoo(int64_t budget, int width = 1)
      : sim(std::make_shared<Simulation>(1, width)),
        engine(*Engine::Make({.memory_bytes = budget, .clock = sim, .executor = sim})) {}

  ModelSource Source(int64_t bytes) const {
    static const ModelSource real = SourceOf(kRowsModel);
    ModelSource source = real;
    source.program = std::make_shared<HookedProgram>(
        real.program,
        [s = sim](const auto&, const RunOptions&) {
          s->Elapse(kRun);
          return Status();
        },
        Weighs(bytes));
    return source;
  }
  ModelLoader Loader(int64_t bytes) {
    return [this, bytes]() -> Result<ModelSource> {
      sim->Elapse(kLoad);
      ++loads;
      return Source(bytes);
    };
  }
  Status Register(const std::string& name, int64_t bytes, int64_t expected = 0) {
    return engine->Register(name, Loader(bytes), {}, expected);
  }
  void Ask(int64_t at, const std::string& model, int64_t timeout_ns = kNever,
           std::stop_token stop = {}) {
    const size_t i = outcomes.size();
    outcomes.emplace_back();
    ended.push_back(-1);
    sim->At(at, [=, this] {
      engine->Submit(
          {.model = model, .inputs = {Filled(1)}, .timeout_ns = timeout_ns, .stop = stop},
          [this, i](Outcome o) {
            ended[i] = sim->NowNs();
            outcomes[i] = std::move(o);
          });
    });
  }
  ModelStats Stats(const std::string& model) const {
    for (const ModelStats& s : engine->Stats())
      if (s.model == model) return s;
    return {};
  }

  std::shared_ptr<Simulation> sim;
  int loads = 0;
  std::vector<Outcome> outcomes;
  std::vector<int64_t> ended;
  std::unique_ptr<Engine> engine;
};

TEST(Memory, ARegisteredModelIsLoadedForItsFirstRequests) {
  Zoo zoo(kNever);
  ASSERT_TRUE(zoo.Register("a", 10).ok());
  EXPECT_EQ(zoo.loads, 0);
  for (int64_t at : {1, 2, 5000}) zoo.Ask(at, "a");
  zoo.sim->RunAll();
  EXPECT_EQ(zoo.loads, 1);
  for (const Outcome& o : zoo.outcomes) EXPECT_EQ(o.end, State::kSucceeded) << o.status.message();
  EXPECT_EQ(zoo.ended[0], 1 + Zoo::kLoad + Zoo::kRun);
  EXPECT_EQ(zoo.ended[2], 5000 + Zoo::kRun);
  EXPECT_EQ(zoo.outcomes[0].phases.queue_ns, Zoo::kLoad);
  EXPECT_EQ(zoo.Stats("a").loads, 1);
  EXPECT_EQ(zoo.Stats("a").bytes, 10);
  EXPECT_EQ(zoo.engine->Memory().used, 10);
}

TEST(Memory, TheLongestUnusedGoesAndComesBack) {
  Zoo zoo(25);
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(zoo.Register(name, 10).ok());
  const char* asked[] = {"a", "b", "a", "c", "a", "b"};
  for (int64_t i = 0; i < 6; ++i) zoo.Ask(1 + 10'000 * i, asked[i]);
  zoo.sim->RunAll();
  for (const Outcome& o : zoo.outcomes) EXPECT_EQ(o.end, State::kSucceeded) << o.status.message();
  EXPECT_EQ(zoo.Stats("a").unloads, 0) << "it was always used last but one";
  EXPECT_EQ(zoo.Stats("b").unloads, 1);
  EXPECT_EQ(zoo.Stats("b").loads, 2);
  EXPECT_EQ(zoo.Stats("c").unloads, 1);
  EXPECT_EQ(zoo.engine->Memory().used, 20);
  EXPECT_LE(zoo.engine->Memory().peak, 30) << "the first time nobody knew how large c is";
}

TEST(Memory, RoomIsMadeFirstWhereTheSizeIsKnown) {
  Zoo zoo(25);
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(zoo.Register(name, 10, 10).ok());
  Random random(3);
  for (int64_t i = 0; i < 50; ++i)
    zoo.Ask(1 + 300 * i, std::string(1, static_cast<char>('a' + random.Below(3))));
  zoo.sim->RunAll();
  for (const Outcome& o : zoo.outcomes) EXPECT_EQ(o.end, State::kSucceeded) << o.status.message();
  EXPECT_LE(zoo.engine->Memory().peak, 25);
}

TEST(Memory, WhoIsUnloadedAnswersFirst) {
  Zoo zoo(10);
  for (const char* name : {"a", "b"}) ASSERT_TRUE(zoo.Register(name, 10, 10).ok());
  for (int i = 0; i < 5; ++i) zoo.Ask(1 + i, "a");
  zoo.Ask(1002, "b");  // a is loaded, and has four requests to go
  zoo.Ask(1003, "a");  // behind b
  zoo.sim->RunAll();
  for (const Outcome& o : zoo.outcomes) EXPECT_EQ(o.end, State::kSucceeded) << o.status.message();
  EXPECT_EQ(zoo.ended[4], 1001 + 5 * Zoo::kRun);
  EXPECT_EQ(zoo.ended[5], zoo.ended[4] + Zoo::kLoad + Zoo::kRun);
  EXPECT_EQ(zoo.ended[6], zoo.ended[5] + Zoo::kLoad + Zoo::kRun);
  EXPECT_EQ(zoo.engine->Memory().peak, 10);
}

TEST(Memory, AModelBeyondTheBudgetIsRefusedWithFigures) {
  Zoo zoo(25);
  EXPECT_THAT(zoo.engine->Load("large", zoo.Source(26)).message(),
              HasSubstr("needs 26 bytes; of the budget of 25 bytes 0 are held"));
  ASSERT_TRUE(zoo.engine->Load("pinned", zoo.Source(20)).ok());
  ASSERT_TRUE(zoo.Register("b", 10).ok());
  ASSERT_TRUE(zoo.Register("known", 10, 10).ok());
  ASSERT_TRUE(zoo.Register("c", 5).ok());
  zoo.Ask(1, "b");
  zoo.Ask(2, "b");
  zoo.Ask(3, "known");
  zoo.Ask(4, "c");
  zoo.Ask(100'000, "b");
  zoo.sim->RunAll();
  for (size_t i : {0u, 1u, 2u, 4u}) {
    EXPECT_EQ(zoo.outcomes[i].end, State::kRejected);
    EXPECT_THAT(zoo.outcomes[i].status.message(), HasSubstr("needs 10 bytes; of the budget of 25"));
  }
  EXPECT_EQ(zoo.outcomes[3].end, State::kSucceeded);
  EXPECT_EQ(zoo.loads, 2) << "nothing is loaded in vain twice";
  EXPECT_FALSE(zoo.engine->Load("pinned", zoo.Source(20)).ok()) << "old and new do not fit";
  EXPECT_EQ(zoo.engine->Infer({.model = "pinned"}).version, 1);
}

TEST(Memory, ABudgetOfNothingTakesNothing) {
  Zoo zoo(0);
  EXPECT_FALSE(zoo.engine->Load("a", zoo.Source(1)).ok());
  ASSERT_TRUE(zoo.Register("b", 1).ok());
  ASSERT_TRUE(zoo.Register("empty", 0).ok());
  zoo.Ask(1, "b");
  zoo.Ask(2, "empty");
  zoo.sim->RunAll();
  EXPECT_EQ(zoo.outcomes[0].end, State::kRejected);
  EXPECT_EQ(zoo.outcomes[1].end, State::kSucceeded);
}

TEST(Memory, RequestsEndWhileTheirModelIsLoaded) {
  Zoo zoo(kNever);
  std::stop_source stop;
  ASSERT_TRUE(zoo.Register("a", 10).ok());
  ASSERT_TRUE(
      zoo.engine->Register("bad", []() -> Result<ModelSource> { return Internal("no file"); })
          .ok());
  ASSERT_TRUE(
      zoo.engine->Register("throws", []() -> Result<ModelSource> { throw std::bad_alloc(); }).ok());
  zoo.Ask(1, "a");
  zoo.Ask(1, "a", 500);
  zoo.Ask(1, "a", kNever, stop.get_token());
  zoo.Ask(1, "bad");
  zoo.Ask(1, "throws");
  zoo.sim->At(300, [&] { stop.request_stop(); });
  zoo.sim->RunAll();
  EXPECT_EQ(zoo.outcomes[0].end, State::kSucceeded);
  EXPECT_EQ(zoo.outcomes[1].end, State::kTimedOut);
  EXPECT_EQ(zoo.ended[1], 501);
  EXPECT_EQ(zoo.outcomes[2].end, State::kCancelled);
  EXPECT_EQ(zoo.ended[2], 300);
  EXPECT_EQ(zoo.outcomes[3].end, State::kRejected);
  EXPECT_THAT(zoo.outcomes[3].status.message(), HasSubstr("no file"));
  EXPECT_EQ(zoo.outcomes[4].end, State::kRejected);
}

TEST(Memory, UnloadForgetsARegisteredModel) {
  Zoo zoo(kNever);
  ASSERT_TRUE(zoo.Register("a", 10).ok());
  EXPECT_FALSE(zoo.Register("a", 10).ok());
  EXPECT_THAT(zoo.engine->Load("a", zoo.Source(1)).message(), HasSubstr("is registered"));
  zoo.Ask(1, "a");
  zoo.sim->At(500, [&] { EXPECT_TRUE(zoo.engine->Unload("a").ok()); });
  zoo.Ask(600, "a");
  zoo.sim->RunAll();
  EXPECT_EQ(zoo.outcomes[0].end, State::kRejected);
  EXPECT_EQ(zoo.outcomes[1].end, State::kRejected);
  EXPECT_EQ(zoo.engine->Memory().used, 0);
  ASSERT_TRUE(zoo.Register("a", 10).ok());
  ASSERT_TRUE(zoo.engine->Prefetch("a").ok());
  EXPECT_FALSE(zoo.engine->Prefetch("none").ok());
  zoo.sim->RunAll();
  EXPECT_EQ(zoo.engine->Memory().used, 10);
}

/// Random sizes, loads, cancels and timeouts: every request ends once, and memory keeps within the
/// budget by at most the model that is loaded for the first time.
TEST(Memory, RandomLoadsKeepTheBudget) {
  const int64_t seeds = FromEnvironment("INFER_ENGINE_SEEDS", 300);
  for (int64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    Random random(static_cast<uint64_t>(seed));
    const int64_t budget = 10 + random.Below(40);
    Zoo zoo(budget, 1 + static_cast<int>(random.Below(2)));
    const int64_t models = 2 + random.Below(5);
    int64_t largest = 0;
    const bool known = random.Below(2) == 0;
    for (int64_t m = 0; m < models; ++m) {
      const int64_t bytes = random.Below(30);
      largest = std::max(largest, std::min(bytes, budget));
      ASSERT_TRUE(zoo.Register(Cat("m", m), bytes, known ? bytes : 0).ok());
    }
    std::vector<std::stop_source> stops(60);
    int64_t at = 1;
    for (std::stop_source& stop : stops) {
      at += random.Below(1500);
      zoo.Ask(at, Cat("m", random.Below(static_cast<uint32_t>(models))),
              random.Below(4) == 0 ? 1 + random.Below(3000) : kNever, stop.get_token());
      if (random.Below(5) == 0) zoo.sim->At(at + random.Below(3000), [&] { stop.request_stop(); });
    }
    if (random.Below(3) == 0)
      zoo.sim->At(random.Below(30'000), [&] { (void)zoo.engine->Unload("m0"); });
    zoo.sim->RunAll();
    for (size_t i = 0; i < zoo.ended.size(); ++i) ASSERT_GE(zoo.ended[i], 0) << i;
    const MemoryStats memory = zoo.engine->Memory();
    EXPECT_LE(memory.used, budget);
    EXPECT_LE(memory.peak, budget + (known ? 0 : 30));
    for (const ModelStats& s : zoo.engine->Stats()) {
      int64_t ends = 0;
      for (int64_t n : s.ends) ends += n;
      EXPECT_EQ(ends, s.submitted);
      EXPECT_EQ(s.arriving, 0);
    }
    if (HasFailure()) return;
  }
}

/// On threads: loads beside runs, drain and destruction while a model is loaded.
TEST(Memory, OnThreadsEveryRequestEnds) {
  std::atomic<int> ended{0}, succeeded{0};
  constexpr int kThreads = 3, kEach = 100;
  {
    const auto engine = *Engine::Make({.threads = 2, .memory_bytes = 25});
    for (int m = 0; m < 4; ++m)
      ASSERT_TRUE(engine
                      ->Register(Cat("m", m),
                                 []() -> Result<ModelSource> {
                                   ModelSource source = SourceOf(kRowsModel);
                                   source.program = std::make_shared<HookedProgram>(
                                       source.program, RunHook(), Weighs(10));
                                   return source;
                                 })
                      .ok());
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        Random random(static_cast<uint64_t>(t));
        for (int i = 0; i < kEach; ++i)
          engine->Submit({.model = Cat("m", random.Below(4)),
                          .inputs = {Filled(1)},
                          .timeout_ns = random.Below(5) == 0 ? 100'000 : kNever},
                         [&](Outcome o) {
                           ++ended;
                           succeeded += o.end == State::kSucceeded ? 1 : 0;
                         });
      });
    for (std::thread& t : threads) t.join();
    engine->Drain();
    EXPECT_EQ(ended, kThreads * kEach);
    EXPECT_GT(succeeded, kThreads * kEach / 2);
    EXPECT_LE(engine->Memory().used, 25);
  }
  // Destroyed while a loader is at work: that is waited for.
  std::latch began(1);
  std::atomic<bool> told{false}, left{false};
  {
    const auto engine = *Engine::Make({.threads = 1});
    ASSERT_TRUE(engine
                    ->Register("slow",
                               [&]() -> Result<ModelSource> {
                                 began.count_down();
                                 told.wait(false);  // then the engine's end has begun
                                 std::this_thread::sleep_for(std::chrono::milliseconds(30));
                                 left = true;
                                 return SourceOf(kRowsModel);
                               })
                    .ok());
    engine->Submit({.model = "slow", .inputs = {Filled(1)}}, [&](Outcome o) {
      EXPECT_EQ(o.end, State::kCancelled);
      ++ended;
      told = true;
      told.notify_all();
    });
    began.wait();
  }
  EXPECT_TRUE(left);
  EXPECT_EQ(ended, kThreads * kEach + 1);
}

}  // namespace
}  // namespace infer::engine
