/// Batches that have as many rows as there is memory for.
#include "runtime/engine/batch_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/support/random.h"
#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/hooked_program.h"
#include "tests/runtime/engine/plain_memory.h"

namespace infer::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BatchMemory, BytesBetweenAndBeyondRowsThatWereSeen) {
  BatchMemory m;
  EXPECT_EQ(m.Bytes(3), 0);
  m.Ran(2, 100);
  m.Ran(6, 180);
  EXPECT_EQ(m.Bytes(1), 100);
  EXPECT_EQ(m.Bytes(2), 100);
  EXPECT_EQ(m.Bytes(3), 120);
  EXPECT_EQ(m.Bytes(7), 210);
  EXPECT_EQ(m.Bytes(int64_t{1} << 62), kNever) << "rather than an overflow";
  m.Ran(6, 150);
  EXPECT_EQ(m.Bytes(6), 180) << "the most that was seen";
  m.Ran(4, 300);
  EXPECT_EQ(m.Bytes(6), 300) << "more rows take no less";
  m.Ran(0, 5);
  m.Ran(1, -5);
  EXPECT_EQ(m.Bytes(1), 100);
}

TEST(BatchMemory, RowsWithinARoom) {
  BatchMemory m;
  EXPECT_EQ(m.RowsWithin(1000, 8), 1) << "nothing is known";
  EXPECT_EQ(m.RowsWithin(kNever, 8), 8);
  m.Ran(1, 100);
  EXPECT_EQ(m.RowsWithin(50, 8), 1) << "one request runs whatever it takes";
  EXPECT_EQ(m.RowsWithin(399, 8), 3);
  EXPECT_EQ(m.RowsWithin(400, 8), 4);
  EXPECT_EQ(m.RowsWithin(4000, 8), 8);
  m.Ran(4, 130);
  EXPECT_EQ(m.RowsWithin(200, 100), 6) << "a part of it does not grow with the rows";
  EXPECT_EQ(m.RowsWithin(120, 8), 3);
  EXPECT_GT(m.RowsWithin(kNever - 1, kNever), int64_t{1} << 57) << "without an overflow";
}

/// The expectation is never less than lines of any kind take.
TEST(BatchMemory, NeverExpectsTooLittleOfMaximaOfLines) {
  Random random(5);
  for (int i = 0; i < 2000; ++i) {
    const plain::Sizes sizes{
        .fixed = random.Below(100), .slope = random.Below(20), .steep = random.Below(40)};
    BatchMemory m;
    for (int seen = 0; seen < 4; ++seen) {
      const int64_t rows = 1 + random.Below(20);
      m.Ran(rows, sizes.Run(rows, 1));
      for (int64_t n = 1; n <= 40; ++n) ASSERT_GE(m.Bytes(n), sizes.Run(n, 1)) << i << ", " << n;
      const int64_t room = random.Below(500), fit = m.RowsWithin(room, 30);
      ASSERT_TRUE(fit == 1 || sizes.Run(fit, 1) <= room);
      ASSERT_TRUE(fit == 30 || m.Bytes(fit + 1) > room);
    }
  }
}

TEST(BatchMemory, RowsThatWereRefusedComeBackSlowly) {
  BatchMemory m;
  m.Refused(8);
  EXPECT_EQ(m.RowsWithin(kNever, 8), 4);
  m.Refused(4);
  EXPECT_EQ(m.RowsWithin(kNever, 8), 2);
  for (int64_t i = 0; i < BatchMemory::kForgiven; ++i) {
    EXPECT_EQ(m.RowsWithin(kNever, 8), 2);
    m.Ran(1, 10);  // says nothing of two
    m.Ran(2, 10);
  }
  EXPECT_EQ(m.RowsWithin(kNever, 8), 3);
  m.Refused(1);
  EXPECT_EQ(m.RowsWithin(kNever, 8), 1);
}

/// One model of kRowsModel in virtual time, whose runs take 10 ns and `sizes`.
struct Served {
  explicit Served(plain::Sizes sizes, int64_t budget = kNever) : of_runs(sizes) {
    engine = *Engine::Make({.memory_bytes = budget, .clock = sim, .executor = sim});
  }
  ModelSource Source() {
    ModelSource source = SourceOf(kRowsModel);
    const auto hook = [this](const std::vector<Datum>& in, const RunOptions&) {
      const int64_t rows = in[0].tensor().dim(0);
      runs.push_back(rows);
      sim->Elapse(10);
      return rows > of_runs.refuses_above ? ResourceExhausted("no memory") : Status();
    };
    const auto memory = [this](const std::vector<Datum>& in) {
      MemoryInfo info{.weight_bytes = of_runs.weights};
      if (!in.empty()) info.arena_bytes = of_runs.Run(in[0].tensor().dim(0), in[0].tensor().dim(1));
      return info;
    };
    source.program = std::make_shared<HookedProgram>(source.program, hook, memory);
    return source;
  }
  void Send(int64_t at, int count, int64_t length = 1) {
    for (int i = 0; i < count; ++i)
      sim->At(at, [this, length] {
        engine->Submit({.model = "m", .inputs = {Filled(1, 1, length)}}, [](const Outcome& o) {
          EXPECT_EQ(o.end, State::kSucceeded) << o.status.message();
        });
      });
  }
  std::vector<int64_t> Runs() {
    sim->RunAll();
    return std::exchange(runs, {});
  }
  ModelStats stats() const { return engine->Stats()[0]; }
  int64_t fired(Fired why) const { return stats().fired[static_cast<size_t>(why)]; }

  std::shared_ptr<Simulation> sim = std::make_shared<Simulation>(1, 2);
  plain::Sizes of_runs;
  std::vector<int64_t> runs;
  std::unique_ptr<Engine> engine;
};

TEST(BatchMemory, ABatchHasTheRowsThatTheBudgetHasRoomFor) {
  Served s({.weights = 100, .slope = 10}, 155);
  ASSERT_TRUE(s.engine->Load("m", s.Source(), {.batch = {.max_rows = 8}}).ok());
  s.Send(1, 12);
  EXPECT_THAT(s.Runs(), ElementsAre(1, 5, 5, 1)) << "the first says what a row takes";
  EXPECT_EQ(s.engine->Memory().used, 150);
  EXPECT_EQ(s.engine->Memory().peak, 150);
  EXPECT_EQ(s.fired(Fired::kMemory), 3);
  EXPECT_EQ(s.stats().single[static_cast<size_t>(Single::kNoneOther)], 2);
  s.Send(1000, 20, 2);
  EXPECT_THAT(s.Runs(), ElementsAre(1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1)) << "rows of twice the length";
  EXPECT_EQ(s.stats().single[static_cast<size_t>(Single::kMemory)], 0);
  EXPECT_LE(s.engine->Memory().peak, 155);
}

TEST(BatchMemory, WithoutABudgetNothingIsWaitedFor) {
  Served s({.weights = 100, .slope = 10});
  ASSERT_TRUE(s.engine->Load("m", s.Source(), {.batch = {.max_rows = 8}}).ok());
  s.Send(1, 12);
  EXPECT_EQ(s.Runs().size(), 3u);
  EXPECT_EQ(s.fired(Fired::kMemory), 0);
}

TEST(BatchMemory, OneRequestRunsWhateverItTakes) {
  Served s({.weights = 100, .slope = 10}, 105);
  ASSERT_TRUE(s.engine->Load("m", s.Source(), {.batch = {.max_rows = 8}}).ok());
  s.Send(1, 4);
  EXPECT_THAT(s.Runs(), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(s.engine->Memory().peak, 110);
  EXPECT_EQ(s.stats().single[static_cast<size_t>(Single::kMemory)], 2);
  EXPECT_EQ(s.stats().single[static_cast<size_t>(Single::kNoneOther)], 2) << "the first, the last";
}

TEST(BatchMemory, AModelMayHaveABudgetOfItsOwn) {
  Served s({.weights = 100, .fixed = 20, .slope = 5});
  const ModelOptions options{.memory_bytes = 150, .batch = {.max_rows = 8}};
  ASSERT_TRUE(s.engine->Load("m", s.Source(), options).ok());
  s.Send(1, 20);
  EXPECT_THAT(s.Runs(), ElementsAre(1, 2, 3, 4, 5, 5)) << "what does not grow is found out";
  EXPECT_EQ(s.engine->Memory().peak, 145);
  s.of_runs.weights = 151;
  const Status refused = s.engine->Load("n", s.Source(), options);
  EXPECT_THAT(refused.message(), HasSubstr("model 'n' needs 151 bytes, and may have 150"));
  EXPECT_EQ(refused.code(), Code::kResource);
  EXPECT_THAT(s.engine->Load("n", s.Source(), {.memory_bytes = -1}).message(),
              HasSubstr("a memory budget of -1 bytes"));
}

TEST(BatchMemory, RunsBesideEachOtherShareTheRoom) {
  Served s({.weights = 100, .slope = 10}, 190);
  ASSERT_TRUE(s.engine->Load("m", s.Source(), {.instances = 2, .batch = {.max_rows = 8}}).ok());
  s.Send(1, 2);
  EXPECT_THAT(s.Runs(), ElementsAre(1, 1));
  s.Send(100, 20);
  s.Runs();
  EXPECT_LE(s.engine->Memory().peak, 190);
  EXPECT_GE(s.engine->Memory().peak, 180);
}

TEST(BatchMemory, WarmingStacksAsManyAsFit) {
  const std::vector<Datum> one = {Filled(1, 1, 1)};
  {
    Served s({.weights = 100, .fixed = 10, .slope = 10}, 170);
    ASSERT_TRUE(
        s.engine->Load("m", s.Source(), {.batch = {.max_rows = 8}, .warm_inputs = one}).ok());
    EXPECT_THAT(s.Runs(), ElementsAre(1, 3, 5, 1));
    EXPECT_EQ(s.engine->Memory().used, 160) << "what the largest run took stays";
    s.Send(1, 12);
    EXPECT_THAT(s.Runs(), ElementsAre(1, 5, 5, 1)) << "the first came alone";
  }
  {
    Served s({.weights = 100, .slope = 10}, 170);
    ASSERT_TRUE(
        s.engine
            ->Load("m", s.Source(), {.instances = 2, .batch = {.max_rows = 8}, .warm_inputs = one})
            .ok());
    EXPECT_THAT(s.Runs(), ElementsAre(1, 3, 1, 1, 3, 1)) << "instances share the room";
  }
  Served s({.weights = 100, .slope = 10});
  ASSERT_TRUE(s.engine->Load("m", s.Source(), {.batch = {.max_rows = 8}, .warm_inputs = one}).ok());
  EXPECT_THAT(s.Runs(), ElementsAre(8, 1)) << "as ever without a budget";
  EXPECT_EQ(s.engine->Memory().used, 180);
}

TEST(BatchMemory, AModelThatIsLoadedHasItsRoomBefore) {
  Served s({.weights = 100, .slope = 10}, 200);
  ASSERT_TRUE(s.engine->Load("m", s.Source(), {.batch = {.max_rows = 8}}).ok());
  const auto loader = [&]() -> Result<ModelSource> {
    s.sim->Elapse(500);
    ModelSource source = SourceOf(kRowsModel);
    source.program = std::make_shared<HookedProgram>(source.program, RunHook(), Weighs(60));
    return source;
  };
  ASSERT_TRUE(s.engine->Register("other", loader, {}, 60).ok());
  s.Send(1, 1);
  s.sim->At(50, [&] { EXPECT_TRUE(s.engine->Prefetch("other").ok()); });
  s.Send(100, 12);  // while it is loaded
  EXPECT_THAT(s.Runs(), ElementsAre(1, 1, 4, 4, 3));
  EXPECT_EQ(s.engine->Memory().used, 200);
  EXPECT_EQ(s.engine->Memory().peak, 200);
}

/// A device that has no more memory is no reason for every batch to fail first.
TEST(BatchMemory, BatchesThatAreRefusedMemoryBecomeSmaller) {
  Served s({.slope = 10, .refuses_above = 3});
  ASSERT_TRUE(s.engine->Load("m", s.Source(), {.batch = {.max_rows = 8}}).ok());
  s.Send(1, 1);
  s.Runs();
  s.Send(100, 1);
  s.Send(101, 16);
  EXPECT_THAT(s.Runs(), ElementsAre(1, 8, 1, 1, 1, 1, 1, 1, 1, 1, 4, 1, 1, 1, 1, 2, 2));
  EXPECT_EQ(s.fired(Fired::kMemory), 3);
  // The warm-up meets it, too.
  s.runs.clear();
  ASSERT_TRUE(
      s.engine->Load("m", s.Source(), {.batch = {.max_rows = 8}, .warm_inputs = {Filled(1, 1, 1)}})
          .ok());
  EXPECT_THAT(s.Runs(), ElementsAre(8, 4, 2, 1));
}

}  // namespace
}  // namespace infer::engine
