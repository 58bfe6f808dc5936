/// Settings that mean nothing, and requests that no model can take: refused with a reason, never
/// ignored, and never the end of the process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/engine/engine_fixture.h"

namespace infer::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

std::string WhyNoEngine(EngineOptions options) {
  const auto engine = Engine::Make(std::move(options));
  return engine.ok() ? "" : engine.status().message();
}

TEST(Refusals, SettingsOfAnEngine) {
  EXPECT_THAT(WhyNoEngine({.threads = -1}), HasSubstr("-1 threads"));
  EXPECT_THAT(WhyNoEngine({.threads = 1, .ageing_ns = -1}), HasSubstr("ageing"));
  EXPECT_THAT(WhyNoEngine({.threads = 1, .memory_bytes = -1}), HasSubstr("memory"));
  EXPECT_THAT(WhyNoEngine({.threads = 1, .topology = Topology{}}),
              HasSubstr("places no instances"));
  const auto executor = *MakeThreadExecutor(1);
  EXPECT_THAT(WhyNoEngine({.threads = 1, .executor = executor}), HasSubstr("threads"));
  EXPECT_THAT(WhyNoEngine({.executor = executor}), IsEmpty());
}

TEST(Refusals, SettingsOfAModel) {
  const auto engine = Made();
  const auto source = SourceOf(kRowsModel);
  struct Case {
    ModelOptions options;
    const char* why;
  };
  const Case cases[] = {
      {{.instances = 0}, "0 instances"},
      {{.queue = {.max_requests = 0}}, "queue"},
      {{.queue = {.max_bytes = -1}}, "queue"},
      {{.batch = {.max_rows = 0}}, "0 rows"},
      {{.batch = {.max_rows = 4, .max_delay_ns = -1}}, "delay"},
      {{.batch = {.max_delay_ns = 1000}}, "max_delay_ns has no effect"},
      {{.batch = {.high_waits = true}}, "high_waits has no effect"},
      {{.batch = {.adapts = true}}, "adapts has no effect"},
      {{.buckets = {.symbol = "L"}}, "no extents"},
      {{.buckets = {.extents = {0}}}, "extent 0"},
      {{.state = {.max_sequences = 3}}, "keeps no state"},
      {{.state = {.idle_ns = 3}}, "keeps no state"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(engine->Load("m", source, c.options).message(), HasSubstr(c.why));
    EXPECT_THAT(engine
                    ->Register(
                        "r", [&] { return source; }, c.options)
                    .message(),
                HasSubstr(c.why))
        << "told when it is registered, not to the first who asks";
  }
  EXPECT_THAT(engine
                  ->Register(
                      "r", [&] { return source; }, {}, -1)
                  .message(),
              HasSubstr("bytes"));
  EXPECT_THAT(engine->Stats(), IsEmpty()) << "nothing was loaded: no name is left behind";
}

TEST(Refusals, SettingsOfARoute) {
  const auto engine = Made();
  for (const char* name : {"a", "b"})
    ASSERT_TRUE(engine->Load(name, SourceOf(kRowsModel), {.warm_inputs = {Filled(1)}}).ok());
  const auto why = [&](RoutePolicy policy) {
    return engine->SetRoute("r", std::move(policy)).message();
  };
  const auto slo = [](double margin, double accuracy) {
    return RoutePolicy{SloRoute{.margin = margin},
                       {{.model = "a", .accuracy = accuracy}, {.model = "b", .accuracy = 0.5}}};
  };
  for (double none : {kNaN, kInf, -kInf}) {
    EXPECT_THAT(why(slo(none, 0.9)), HasSubstr("margin"));
    EXPECT_THAT(why(slo(2, none)), HasSubstr("accuracy"));
    EXPECT_THAT(why({SplitRoute{}, {{.model = "a", .weight = none}, {.model = "b"}}}),
                HasSubstr("weight"));
  }
  EXPECT_THAT(why(slo(2, 0.9)), IsEmpty());
  EXPECT_THAT(why({CascadeRoute{.output = 1}, {{.model = "a"}, {.model = "b"}}}),
              HasSubstr("output 1"));
  EXPECT_THAT(why({CascadeRoute{}, {{.model = "a"}, {.model = "b"}}}), IsEmpty());
}

TEST(Refusals, ValuesThatAreNoTensors) {
  for (int64_t max_rows : {1, 4}) {
    const auto engine = Made();
    ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel), {.batch = {.max_rows = max_rows}}).ok());
    for (const Datum& input : {Datum(SequenceDatum{}), Datum(OptionalDatum{}), Datum(MapDatum{}),
                               Datum(), Datum(Tensor())}) {
      const Outcome o = engine->Infer({.model = "m", .inputs = {input}});
      EXPECT_EQ(o.end, State::kRejected);
      EXPECT_THAT(o.status.message(), HasSubstr("'x' is f32[N,L]"));
    }
  }
}

TEST(Refusals, APriorityThatIsNone) {
  const auto engine = Made();
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel)).ok());
  Request r = For(1);
  r.priority = static_cast<Priority>(200);
  const Outcome o = engine->Infer(std::move(r));
  EXPECT_EQ(o.end, State::kRejected);
  EXPECT_THAT(o.status.message(), HasSubstr("priority"));
}

TEST(Refusals, AStepWithoutASequence) {
  const auto engine = Made();
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel)).ok());
  for (const SequenceStep& step : {SequenceStep{.begins = true}, SequenceStep{.ends = true}}) {
    Request r = For(1);
    r.sequence = step;
    const Outcome o = engine->Infer(std::move(r));
    EXPECT_EQ(o.end, State::kRejected);
    EXPECT_THAT(o.status.message(), HasSubstr("no sequence"));
  }
}

TEST(Refusals, AgeingWithoutAnEndKeepsTheOrderOfPriorities) {
  // kNever steps later is beyond all moments, not before them.
  Gate gate;
  const auto engine = *Engine::Make({.threads = 1, .ageing_ns = kNever});
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel, gate.hook())).ok());
  std::mutex mutex;
  std::vector<Priority> order;
  engine->Submit(For(0), {});
  gate.Await(1);
  for (Priority p : {Priority::kLow, Priority::kNormal}) {
    Request r = For(1);
    r.priority = p;
    engine->Submit(std::move(r), [&, p](const Outcome&) {
      const std::lock_guard lock(mutex);
      order.push_back(p);
    });
  }
  gate.Open();
  engine->Drain();
  EXPECT_EQ(order, (std::vector{Priority::kNormal, Priority::kLow}));
}

TEST(Refusals, ARouteWithoutACallbackThrowsNothing) {
  const auto engine = Made();
  for (const char* name : {"a", "b"})
    ASSERT_TRUE(engine->Load(name, SourceOf(kRowsModel), {.warm_inputs = {Filled(1)}}).ok());
  ASSERT_TRUE(engine->SetRoute("r", {SplitRoute{}, {{.model = "a"}, {.model = "b"}}}).ok());
  Request r = For(1);
  r.model = "r";
  engine->Submit(std::move(r), nullptr);
  engine->Drain();
  for (const ModelStats& s : engine->Stats()) EXPECT_EQ(s.thrown, 0);
}

}  // namespace
}  // namespace infer::engine
