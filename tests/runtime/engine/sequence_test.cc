/// Sequences of stateful models: order, state, and what they stay with.
#include "runtime/engine/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/engine/drift.h"
#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/from_environment.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

using ::testing::HasSubstr;

/// The state is the sum of all inputs so far, and the answer, too.
constexpr const char* kSums =
    "graph g(x: f32[N,4], s: f32[N,4]) -> (y: f32[N,4], t: f32[N,4]) { t = Add(x, s) y = Abs(t) }";
/// The state grows by a place with each step.
constexpr const char* kGrows = R"(graph g(past: f32[N,P,2], x: f32[N,1,2]) -> (present, y) {
  present = Concat(past, x) {axis=1} a = const i64[1] {1} y = ReduceSum(present, a) })";

struct Steps {
  static constexpr int64_t kRun = 10;
  explicit Steps(uint64_t seed = 1, int width = 2)
      : sim(std::make_shared<Simulation>(seed, width)) {
    engine = *Engine::Make({.clock = sim, .executor = sim});
  }
  RunHook Hook() {
    return [this](const std::vector<Datum>& in, const RunOptions&) {
      sim->Elapse(kRun);
      return in[0].tensor().At(0) == 13 ? Internal("unlucky") : Status();
    };
  }
  ModelOptions Options() const {
    return {.instances = 2,
            .batch = {.max_rows = 4},
            .state = {.pairs = {{.input = 1, .output = 1}}, .idle_ns = 100'000},
            .warm_inputs = {Filled(1), Filled(0)}};
  }
  Status Load(const std::string& name = "m") {
    return engine->Load(name, SourceOf(kSums, Hook()), Options());
  }
  size_t Send(int64_t at, std::string id, float value, bool begins = false, bool ends = false,
              Request r = {}) {
    const size_t i = outcomes.size();
    outcomes.emplace_back();
    ended.push_back(-1);
    if (r.model.empty()) r.model = "m";
    r.inputs = {Filled(value)};
    r.sequence = {std::move(id), begins, ends};
    sim->At(at, [this, r, i] {
      engine->Submit(r, [this, i](Outcome o) {
        outcomes[i] = std::move(o);
        ended[i] = sim->NowNs();
      });
    });
    return i;
  }
  ModelStats Stats() const { return engine->Stats()[0]; }

  std::shared_ptr<Simulation> sim;
  std::vector<Outcome> outcomes;
  std::vector<int64_t> ended;
  std::unique_ptr<Engine> engine;
};

TEST(Sequences, StepsRunInOrderAndCarryTheirState) {
  Steps t;
  ASSERT_TRUE(t.Load().ok());
  for (int i = 0; i < 4; ++i) {
    t.Send(1 + i, "a", 1, i == 0, i == 3);
    t.Send(1 + i, "b", 10, i == 0);
  }
  t.sim->RunAll();
  for (int i = 0; i < 4; ++i) {
    const Outcome &a = t.outcomes[static_cast<size_t>(2 * i)],
                  &b = t.outcomes[static_cast<size_t>(2 * i + 1)];
    ASSERT_EQ(a.end, State::kSucceeded) << a.status.message();
    ASSERT_EQ(a.outputs.size(), 1u) << "the state is the engine's";
    EXPECT_EQ(FirstOf(a), static_cast<float>(i + 1));
    EXPECT_EQ(FirstOf(b), static_cast<float>(10 * (i + 1)));
  }
  EXPECT_EQ(t.Stats().sequences_begun, 2);
  EXPECT_EQ(t.Stats().sequences, 0);
  EXPECT_EQ(t.Stats().sequences_idle, 1) << "b had no end";
}

TEST(Sequences, StepsOfSeveralShareRuns) {
  Steps t(1, 1);
  ASSERT_TRUE(t.Load().ok());
  for (int step = 0; step < 3; ++step)
    for (int s = 0; s < 4; ++s)
      t.Send(1 + 100 * step, Cat(s), static_cast<float>(s + 1), step == 0);
  t.sim->RunAll();
  for (size_t i = 0; i < 12; ++i)
    EXPECT_EQ(FirstOf(t.outcomes[i]), static_cast<float>((i % 4 + 1) * (i / 4 + 1)));
  EXPECT_LE(t.Stats().runs, 6);
}

TEST(Sequences, AStateMayGrow) {
  Steps t;
  ASSERT_TRUE(
      t.engine->Load("m", SourceOf(kGrows), {.state = {.pairs = {{.input = 0, .output = 0}}}})
          .ok());
  for (int i = 0; i < 5; ++i) {
    Tensor x(DType::kF32, {1, 1, 2});
    for (float& v : x.mutable_data<float>()) v = static_cast<float>(i);
    t.sim->At(i + 1, [&t, x, i] {
      t.engine->Submit({.model = "m", .inputs = {x}, .sequence = {"a", i == 0, i == 4}},
                       [&t](Outcome o) { t.outcomes.push_back(std::move(o)); });
    });
  }
  t.sim->RunAll();
  ASSERT_EQ(t.outcomes.size(), 5u);
  EXPECT_EQ(FirstOf(t.outcomes[4]), 0 + 1 + 2 + 3 + 4);
}

TEST(Sequences, AnIdleOneIsForgotten) {
  Steps t;
  ASSERT_TRUE(t.Load().ok());
  t.Send(1, "a", 1, true);
  t.Send(90'000, "a", 1);
  const size_t late = t.Send(90'000 + 100'000 + 2 * Steps::kRun, "a", 1);
  t.Send(400'000, "a", 5, true);
  t.sim->RunAll();
  EXPECT_EQ(FirstOf(t.outcomes[1]), 2);
  EXPECT_EQ(t.outcomes[late].end, State::kRejected);
  EXPECT_THAT(t.outcomes[late].status.message(), HasSubstr("had no step for too long"));
  EXPECT_EQ(FirstOf(t.outcomes[3]), 5) << "begins anew";
  EXPECT_EQ(t.Stats().sequences_idle, 2);
}

TEST(Sequences, StayWithTheirVersion) {
  Steps t;
  ASSERT_TRUE(t.Load().ok());
  t.Send(1, "a", 1, true);
  t.sim->At(100, [&] { ASSERT_TRUE(t.Load().ok()); });
  t.Send(200, "b", 1, true);
  const size_t second = t.Send(300, "a", 1);
  t.sim->At(400, [&] { EXPECT_EQ(t.Stats().old_versions, 1); });
  const size_t last = t.Send(500, "a", 1, false, true);
  t.sim->At(600, [&] { EXPECT_EQ(t.Stats().old_versions, 0); });
  t.sim->RunAll();
  EXPECT_EQ(t.outcomes[second].version, 1);
  EXPECT_EQ(FirstOf(t.outcomes[last]), 3);
  EXPECT_EQ(t.outcomes[1].version, 2);
}

TEST(Sequences, StayWithTheirVariant) {
  Steps t;
  for (const char* name : {"one", "two"}) ASSERT_TRUE(t.Load(name).ok());
  const auto route = [&](double one, double two) {
    return t.engine->SetRoute("r",
                              {SplitRoute{.salt = "s"},
                               {{.model = "one", .weight = one}, {.model = "two", .weight = two}}});
  };
  ASSERT_TRUE(route(1, 1).ok());
  for (int s = 0; s < 20; ++s)
    for (int i = 0; i < 3; ++i) t.Send(1 + 1000 * i, Cat(s), 1, i == 0, false, {.model = "r"});
  t.sim->At(1500, [&] { ASSERT_TRUE(route(1, 1000).ok()); });
  const size_t unknown = t.Send(1600, "none", 1, false, false, {.model = "r"});
  t.sim->RunAll();
  std::map<std::string, int> of;
  for (size_t s = 0; s < 20; ++s) {
    for (size_t i = 1; i < 3; ++i)
      EXPECT_EQ(t.outcomes[3 * s + i].ticket.model, t.outcomes[3 * s].ticket.model);
    EXPECT_EQ(FirstOf(t.outcomes[3 * s + 2]), 3);
    ++of[t.outcomes[3 * s].ticket.model];
  }
  EXPECT_EQ(of.size(), 2u);
  EXPECT_THAT(t.outcomes[unknown].status.message(), HasSubstr("no variant has the sequence"));
}

TEST(Sequences, AStepThatFailsTakesThoseBehindItAlong) {
  Steps t;
  ASSERT_TRUE(t.Load().ok());
  t.Send(1, "a", 1, true);
  t.Send(50, "a", 13);
  t.Send(51, "a", 2);
  t.Send(52, "a", 3);
  t.Send(100, "a", 4);
  t.Send(1, "b", 13, true);
  t.Send(150, "b", 1);
  t.sim->RunAll();
  EXPECT_EQ(t.outcomes[1].end, State::kFailed);
  for (size_t i : {2u, 3u}) {
    EXPECT_EQ(t.outcomes[i].end, State::kCancelled);
    EXPECT_THAT(t.outcomes[i].status.message(), HasSubstr("a step before it"));
  }
  EXPECT_EQ(FirstOf(t.outcomes[4]), 5) << "the state is that of the last that succeeded";
  EXPECT_EQ(t.outcomes[6].end, State::kRejected) << "it never began";
}

TEST(Sequences, WhatCannotBeIsRefused) {
  Steps t;
  ModelOptions few = t.Options();
  few.state.max_sequences = 1;
  ASSERT_TRUE(t.engine->Load("m", SourceOf(kSums), few).ok());
  ASSERT_TRUE(t.engine->Load("plain", SourceOf(kRowsModel)).ok());
  t.Send(1, "", 1);
  t.Send(2, "a", 1);
  t.Send(3, "a", 1, true);
  t.Send(100, "a", 1, true);
  t.Send(101, "b", 1, true);
  t.Send(102, "a", 1, true, false, {.model = "plain"});
  t.sim->RunAll();
  const char* reasons[] = {"its requests are steps", "has not begun",     "",
                           "goes on already",        "1 sequences go on", "keeps no state"};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(t.outcomes[i].end, i == 2 ? State::kSucceeded : State::kRejected);
    EXPECT_THAT(t.outcomes[i].status.message(), HasSubstr(reasons[i]));
  }
  const auto refused = [&](StateRules rules) {
    return t.engine->Load("x", SourceOf(kSums), {.state = std::move(rules)}).message();
  };
  EXPECT_THAT(refused({.pairs = {{.input = 2}}}), HasSubstr("input 2 is none"));
  EXPECT_THAT(refused({.pairs = {{.input = 1, .output = 1}, {.input = 0, .output = 1}}}),
              HasSubstr("output 1 is none, or is there twice"));
  EXPECT_THAT(refused({.pairs = {{.input = 1, .output = 1}}, .idle_ns = 0}),
              HasSubstr("keeps no sequence for any time"));
  ModelOptions watched = t.Options();
  watched.drift = std::make_shared<DriftWatch>(std::make_shared<DriftReference>(
      std::vector<std::string>{"x", "s"}, std::vector<std::string>{"y", "t"}));
  EXPECT_THAT(t.engine->Load("x", SourceOf(kSums), watched).message(),
              HasSubstr("drift is watched of models without state only"));
}

TEST(Sequences, UnloadAndShutdownLeaveNothing) {
  Steps t;
  ASSERT_TRUE(t.Load().ok());
  for (int i = 0; i < 4; ++i) t.Send(1 + i, "a", 1, i == 0);
  t.sim->At(6, [&] { EXPECT_TRUE(t.engine->Unload("m").ok()); });
  t.Send(50, "a", 1);
  t.sim->RunAll();
  EXPECT_EQ(t.outcomes[0].end, State::kSucceeded) << "it ran";
  for (size_t i : {1u, 2u, 3u}) EXPECT_EQ(t.outcomes[i].end, State::kCancelled);
  EXPECT_EQ(t.outcomes[4].end, State::kRejected);
  EXPECT_EQ(t.Stats().old_versions, 0);
}

/// Random steps, cancels, timeouts, failures and swaps: what succeeds has the sum of what succeeded
/// before it, in the order in which steps were submitted.
TEST(Sequences, RandomStepsAddUp) {
  const int64_t seeds = FromEnvironment("INFER_ENGINE_SEEDS", 300);
  int64_t succeeded = 0;
  for (int64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    Random random(static_cast<uint64_t>(seed));
    Steps t(static_cast<uint64_t>(seed), 1 + static_cast<int>(random.Below(2)));
    ASSERT_TRUE(t.Load().ok());
    struct Sent {
      size_t outcome;
      float value;
      bool begins, ends;
    };
    std::map<std::string, std::vector<Sent>> all;
    std::vector<std::stop_source> stops(80);
    int64_t at = 1;
    for (std::stop_source& stop : stops) {
      at += 1 + random.Below(12);
      const std::string id = Cat(random.Below(4));
      const float value = static_cast<float>(1 + random.Below(13));
      const bool begins = all[id].empty() || random.Below(8) == 0, ends = random.Below(8) == 0;
      const int64_t timeout = random.Below(4) == 0 ? 1 + random.Below(30) : kNever;
      all[id].push_back(
          {t.Send(at, id, value, begins, ends, {.timeout_ns = timeout, .stop = stop.get_token()}),
           value, begins, ends});
      if (random.Below(5) == 0) t.sim->At(at + random.Below(30), [&stop] { stop.request_stop(); });
    }
    if (random.Below(2) == 0) t.sim->At(at / 2, [&] { ASSERT_TRUE(t.Load().ok()); });
    t.sim->RunAll();
    for (const auto& [id, steps] : all) {
      float sum = 0;
      int64_t before = -1;
      for (const Sent& s : steps) {
        ASSERT_GE(t.ended[s.outcome], 0);
        const Outcome& o = t.outcomes[s.outcome];
        if (o.end != State::kSucceeded) continue;
        ++succeeded;
        if (s.begins) sum = 0;
        sum += s.value;
        ASSERT_EQ(FirstOf(o), sum) << "sequence " << id;
        ASSERT_GT(t.ended[s.outcome], before);
        before = t.ended[s.outcome];
      }
    }
    const ModelStats s = t.Stats();
    EXPECT_EQ(s.sequences, 0);
    EXPECT_EQ(s.old_versions, 0);
    EXPECT_EQ(s.queue.requests, 0);
    if (HasFailure()) return;
  }
  EXPECT_GT(succeeded, 20 * seeds) << "of 80 steps each";
}

}  // namespace
}  // namespace infer::engine
