/// Requests that share a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/support/random.h"
#include "runtime/engine/simulation.h"
#include "runtime/engine/stack.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

using ::testing::HasSubstr;

TEST(BatchRules, WhenABatchBegins) {
  const BatchRules rules{.max_rows = 8, .max_delay_ns = 100};
  const Waiters w{.rows = 3, .oldest_ns = 1000};
  const auto at = [&](const BatchRules& r, const Waiters& x, bool drain = false) {
    return Decide(r, x, /*run_ns=*/50, drain);
  };
  EXPECT_EQ(at(rules, w).at_ns, 1100);
  EXPECT_EQ(at(rules, w).why, Fired::kWaited);
  EXPECT_EQ(at(rules, {.rows = 8, .oldest_ns = 1000}).at_ns, 0);
  EXPECT_EQ(at(rules, {.rows = 8, .oldest_ns = 1000}).why, Fired::kFull);
  // The last moment at which a run of twice the mean makes it.
  Waiters hurried = w;
  hurried.earliest_deadline_ns = 1120;
  EXPECT_EQ(at(rules, hurried).at_ns, 1020);
  EXPECT_EQ(at(rules, hurried).why, Fired::kDeadline);
  EXPECT_EQ(Decide(rules, hurried, 0, false).at_ns, 0) << "nothing is known of runs";
  hurried.earliest_deadline_ns = 5000;
  EXPECT_EQ(at(rules, hurried).why, Fired::kWaited);
  Waiters high = w;
  high.has_high = true;
  EXPECT_EQ(at(rules, high).why, Fired::kPriority);
  EXPECT_EQ(at({.max_rows = 8, .max_delay_ns = 100, .high_waits = true}, high).at_ns, 1100);
  EXPECT_EQ(at(rules, w, true).why, Fired::kDrain);
}

TEST(BatchRules, PriorityAges) {
  const auto made = [](int64_t id, int64_t came, Priority p) {
    Pending r;
    r.id = id;
    r.came_ns = came;
    r.request.priority = p;
    return r.order(/*ageing_ns=*/100);
  };
  EXPECT_LT(made(2, 50, Priority::kHigh), made(1, 0, Priority::kNormal));
  EXPECT_GT(made(2, 150, Priority::kHigh), made(1, 0, Priority::kNormal));
  EXPECT_LT(made(1, 0, Priority::kLow), made(2, 201, Priority::kHigh));
}

TEST(Stack, PartsOfAStackAreWhatWasStacked) {
  Random random(1);
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<Tensor> parts;
    for (int64_t n : {2, 1, 4}) {
      Dims dims = {3, 2, 5};
      dims[static_cast<size_t>(axis)] = n;
      Tensor t(DType::kI16, dims);
      for (int16_t& v : t.mutable_data<int16_t>()) v = static_cast<int16_t>(random.NextU32());
      parts.push_back(std::move(t));
    }
    const Tensor* all[] = {&parts[0], &parts[1], &parts[2]};
    const Tensor whole = Stack(all, axis);
    EXPECT_EQ(whole.dim(axis), 7);
    int64_t begin = 0;
    for (const Tensor& p : parts) {
      EXPECT_TRUE(BitEqual(Part(whole, axis, begin, p.dim(axis)), p));
      begin += p.dim(axis);
    }
  }
}

/// Runs of `counts` requests that came together, by virtual time.
struct Together {
  std::shared_ptr<Simulation> sim = std::make_shared<Simulation>(1, 2);
  std::unique_ptr<Engine> engine = *Engine::Make({.clock = sim, .executor = sim});
  std::vector<Outcome> outcomes;

  void Send(int64_t at, Request r) {
    sim->At(at, [this, r] {
      engine->Submit(r, [this](Outcome o) { outcomes.push_back(std::move(o)); });
    });
  }
  ModelStats stats() const { return engine->Stats()[0]; }
};

Request Rows(float value, int64_t rows = 1, int64_t length = 4) {
  return {.model = "m", .inputs = {Filled(value, rows, length)}};
}

TEST(Batcher, SaysWhyItBeganAndWhyItServedOneAlone) {
  Together t;
  const auto hook = [&](const auto&, const RunOptions&) {
    t.sim->Elapse(10);
    return Status();
  };
  ASSERT_TRUE(
      t.engine
          ->Load("m", SourceOf(kRowsModel, hook), {.batch = {.max_rows = 4, .max_delay_ns = 1000}})
          .ok());
  for (int i = 0; i < 4; ++i) t.Send(10 + i, Rows(1));    // full
  for (int i = 0; i < 2; ++i) t.Send(5000 + i, Rows(2));  // waited
  Request hurried = Rows(3);
  hurried.timeout_ns = 500;
  t.Send(10000, hurried);  // deadline, alone
  Request high = Rows(4);
  high.priority = Priority::kHigh;
  t.Send(20000, Rows(5));
  t.Send(20001, high);  // priority, with the one that waits
  t.sim->RunAll();
  const ModelStats s = t.stats();
  const auto fired = [&](Fired f) { return s.fired[static_cast<size_t>(f)]; };
  EXPECT_EQ(fired(Fired::kFull), 1);
  EXPECT_EQ(fired(Fired::kWaited), 1);
  EXPECT_EQ(fired(Fired::kDeadline), 1);
  EXPECT_EQ(fired(Fired::kPriority), 1);
  EXPECT_EQ(s.single[static_cast<size_t>(Single::kNoneOther)], 1);
  EXPECT_EQ(s.batch_rows, (std::map<int64_t, int64_t>{{1, 1}, {2, 2}, {4, 1}}));
  EXPECT_EQ(s.unbatchable, "");
  ASSERT_EQ(t.outcomes.size(), 9u);
  for (const Outcome& o : t.outcomes) EXPECT_EQ(o.end, State::kSucceeded);
}

TEST(Batcher, UnderOverloadThoseAreServedThatCanEndInTime) {
  for (const int64_t max_rows : {1, 4}) {
    Together t;
    Random random(3);
    const auto hook = [&](const auto&, const RunOptions&) {
      t.sim->Elapse(70 + random.Below(60));
      return Status();
    };
    ASSERT_TRUE(
        t.engine->Load("m", SourceOf(kRowsModel, hook), {.batch = {.max_rows = max_rows}}).ok());
    // Ten times as many as can be answered, who wait for 20 runs.
    constexpr int64_t kRunNs = 100, kRuns = 400;
    for (int64_t i = 0; i < 10 * kRuns * max_rows; ++i) {
      Request r = Rows(1);
      r.timeout_ns = 20 * kRunNs;
      t.Send(i * kRunNs / (10 * max_rows), std::move(r));
    }
    t.sim->RunAll();
    const int64_t good = t.stats().ends[EndIndex(State::kSucceeded)];
    EXPECT_GE(static_cast<double>(good), 0.9 * static_cast<double>(kRuns * max_rows));
  }
}

TEST(Batcher, ARequestThatIsLateWaitsBehindThoseOfItsPriorityThatAreNot) {
  Together t;
  std::vector<float> order;
  const auto hook = [&](const std::vector<Datum>& in, const RunOptions&) {
    order.push_back(static_cast<float>(in[0].tensor().At(0)));
    t.sim->Elapse(100);
    return Status();
  };
  ASSERT_TRUE(t.engine->Load("m", SourceOf(kRowsModel, hook)).ok());
  const auto send = [&](int64_t at, float value, int64_t timeout, Priority priority) {
    Request r = Rows(value);
    r.timeout_ns = timeout;
    r.priority = priority;
    t.Send(at, std::move(r));
  };
  t.Send(0, Rows(1));                      // a run takes 100 from now on
  t.Send(1000, Rows(2));                   // until 1100
  send(1010, 3, 200, Priority::kNormal);   // late from 1060 on
  send(1020, 4, 5000, Priority::kNormal);  // goes before it
  send(1030, 5, 250, Priority::kHigh);     // late from 1130 on: the first
  send(1040, 6, 5000, Priority::kLow);
  t.sim->RunAll();
  EXPECT_EQ(order, (std::vector<float>{1, 2, 5, 4, 6})) << "3 timed out at 1210";
  EXPECT_EQ(t.stats().ends[EndIndex(State::kTimedOut)], 1);
}

TEST(Batcher, OtherShapesDoNotShareARunNorWaitForEachOther) {
  Together t;
  ASSERT_TRUE(
      t.engine->Load("m", SourceOf(kRowsModel), {.instances = 2, .batch = {.max_rows = 4}}).ok());
  for (int i = 0; i < 3; ++i) {
    t.Send(1, Rows(1, 1, 4));
    t.Send(1, Rows(1, 1, 5));
  }
  t.Send(1, Rows(1, 9, 4));  // more rows than a batch has: alone
  t.sim->RunAll();
  EXPECT_EQ(t.outcomes.size(), 7u);
  for (const Outcome& o : t.outcomes) EXPECT_EQ(o.end, State::kSucceeded) << o.status.message();
}

TEST(Batcher, APoisonedRequestFailsAlone) {
  Together t;
  const auto hook = [](const std::vector<Datum>& in, const RunOptions&) {
    for (int64_t r = 0; r < in[0].tensor().dim(0); ++r)
      if (in[0].tensor().At(4 * r) == 13) return Internal("poisoned");
    return Status();
  };
  ASSERT_TRUE(
      t.engine
          ->Load("m", SourceOf(kRowsModel, hook), {.batch = {.max_rows = 4, .max_delay_ns = 1000}})
          .ok());
  for (float v : {1.0f, 13.0f, 3.0f, 4.0f}) t.Send(1, Rows(v));
  t.sim->RunAll();
  ASSERT_EQ(t.outcomes.size(), 4u);
  int failed = 0;
  for (const Outcome& o : t.outcomes) {
    if (o.end == State::kFailed) {
      ++failed;
      EXPECT_THAT(o.status.message(), HasSubstr("poisoned"));
      continue;
    }
    ASSERT_EQ(o.end, State::kSucceeded);
    EXPECT_EQ(o.batch_rows, 1);
  }
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(t.stats().single[static_cast<size_t>(Single::kRerun)], 4);
}

TEST(Batcher, WhoIsCancelledInABatchLeavesTheOthersTheirBits) {
  Together t;
  std::stop_source stop;
  const auto hook = [&](const auto&, const RunOptions& o) {
    stop.request_stop();
    EXPECT_FALSE(o.stop.stop_requested()) << "the others go on";
    return Status();
  };
  ASSERT_TRUE(
      t.engine
          ->Load("m", SourceOf(kRowsModel, hook), {.batch = {.max_rows = 3, .max_delay_ns = 1000}})
          .ok());
  Request cancelled = Rows(2);
  cancelled.stop = stop.get_token();
  t.Send(1, Rows(1));
  t.Send(1, cancelled);
  t.Send(1, Rows(3));
  t.sim->RunAll();
  ASSERT_EQ(t.outcomes.size(), 3u);
  std::map<State, float> sums;
  for (const Outcome& o : t.outcomes) sums[o.end] += FirstOf(o);
  EXPECT_EQ(sums, (std::map<State, float>{{State::kSucceeded, 8}, {State::kCancelled, 0}}));
}

TEST(Batcher, ALoadThatWouldStackWhatMayNotBeStackedIsRefused) {
  const auto engine = *Engine::Make();
  const auto source = SourceOf("graph g(x: f32[N,4]) -> (y) { y = Softmax(x) {axis=0} }");
  const Status s = engine->Load("m", source, {.batch = {.max_rows = 2}});
  EXPECT_THAT(s.message(), HasSubstr("axis 0 of operand 'x' does not stay apart"));
  EXPECT_TRUE(engine->Load("m", source).ok());
  EXPECT_THAT(engine->Stats()[0].unbatchable, HasSubstr("does not stay apart"));
}

}  // namespace
}  // namespace infer::engine
