#include "runtime/engine/request_log.h"

#include <gtest/gtest.h>

#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/engine_fixture.h"

namespace infer::engine {
namespace {

TEST(RequestLog, HasEachEndWithItsPhases) {
  const auto sim = std::make_shared<Simulation>(1, 1);
  const auto log = std::make_shared<RequestLog>();
  const auto engine = *Engine::Make({.clock = sim, .executor = sim, .log = log});
  const auto hook = [&](const std::vector<Datum>&, const RunOptions&) {
    sim->Elapse(100);
    return Status();
  };
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel, hook)).ok());
  std::vector<Outcome> told;
  for (int i = 0; i < 3; ++i) {
    Request r = For(1);
    r.priority = i == 0 ? Priority::kHigh : Priority::kNormal;
    if (i == 2) r.inputs.clear();  // rejected
    engine->Submit(std::move(r), [&](Outcome o) {
      told.push_back(std::move(o));
      EXPECT_EQ(log->Spans().size(), told.size()) << "added before it is told";
    });
  }
  sim->RunAll();
  const std::vector<RequestSpan> spans = log->Spans();
  ASSERT_EQ(spans.size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(spans[i].model, "m");
    EXPECT_EQ(spans[i].end, told[i].end);
    EXPECT_EQ(spans[i].version, told[i].version);
    EXPECT_EQ(spans[i].batch_rows, told[i].batch_rows);
    EXPECT_EQ(spans[i].phases.compute_ns, told[i].phases.compute_ns);
    EXPECT_EQ(spans[i].phases.total_ns, told[i].phases.total_ns);
    const Phases& p = spans[i].phases;
    EXPECT_LE(p.queue_ns + p.batch_ns + p.compute_ns, p.total_ns);
  }
  EXPECT_EQ(spans[0].end, State::kRejected);
  EXPECT_EQ(spans[1].priority, Priority::kHigh);
  EXPECT_EQ(spans[1].phases.compute_ns, 100);
  EXPECT_GE(spans[2].phases.queue_ns, 100) << "it waited for the one before it";
}

TEST(RequestLog, IsBounded) {
  RequestLog log(3);
  for (int64_t i = 0; i < 10; ++i) log.Add({.number = i});
  ASSERT_EQ(log.Spans().size(), 3);
  EXPECT_EQ(log.Spans()[0].number, 7);
  EXPECT_EQ(log.dropped(), 7);
  log.Clear();
  EXPECT_TRUE(log.Spans().empty());
  RequestLog none(0);
  none.Add({});
  EXPECT_TRUE(none.Spans().empty());
}

}  // namespace
}  // namespace infer::engine
