/// Urgent requests beside others, on real threads.
#include <gtest/gtest.h>

#include <thread>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "tests/runtime/engine/engine_fixture.h"

namespace infer::engine {
namespace {

TEST(Engine, AnUrgentRequestOvertakesARunThatGoesOn) {
  Gate gate;
  const auto engine = Made(1);
  ASSERT_TRUE(engine->Load("slow", SourceOf(kRowsModel, gate.hook())).ok());
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel)).ok());
  const auto submit = [&](const char* model, Priority p) {
    return engine->Submit({.model = model, .inputs = {Filled(1)}, .priority = p});
  };
  auto low = submit("slow", Priority::kLow);
  gate.Await(1);
  EXPECT_EQ(submit("m", Priority::kHigh).get().end, State::kSucceeded) << "beside the only thread";
  EXPECT_EQ(submit("m", Priority::kNormal).get().end, State::kSucceeded);
  auto as_low = submit("m", Priority::kLow);
  EXPECT_EQ(submit("m", Priority::kHigh).get().end, State::kSucceeded);
  EXPECT_EQ(as_low.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  gate.Open();
  EXPECT_EQ(low.get().end, State::kSucceeded);
  EXPECT_EQ(as_low.get().end, State::kSucceeded);
}

TEST(Engine, AnUrgentRunIsGivenTheLanesOfALessUrgentOne) {
  // On one lane, 2,000 steps of low priority, which are given up once the urgent run is over.
  std::string text = "graph g(x: f32[128,128]) -> (y: f32[128,128]) { s0 = Tanh(x) ";
  for (int i = 0; i < 2000; ++i) text += Cat("s", i + 1, " = MatMul(s", i, ", x) ");
  text += "y = Tanh(s2000) }";
  const int budget = LaneBudget();
  SetLaneBudget(1);
  std::promise<void> begun;
  std::stop_source enough;
  const auto engine = Made(1);
  const auto hook = [&](const auto&, const RunOptions& o) {
    EXPECT_EQ(o.priority, infer::Priority::kLow);
    begun.set_value();
    return Status();
  };
  ASSERT_TRUE(engine->Load("long", SourceOf(text, hook)).ok());
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel)).ok());
  auto low = engine->Submit({.model = "long",
                             .inputs = {Tensor::Zeros(DType::kF32, {128, 128})},
                             .priority = Priority::kLow,
                             .stop = enough.get_token()});
  begun.get_future().wait();
  auto high = engine->Submit({.model = "m", .inputs = {Filled(1)}, .priority = Priority::kHigh});
  EXPECT_EQ(high.get().end, State::kSucceeded);
  enough.request_stop();
  EXPECT_EQ(low.get().end, State::kCancelled) << "the urgent run waited for its end";
  SetLaneBudget(budget);
}

TEST(Engine, AShadowThatHangsHoldsNobodyUp) {
  Gate gate;
  auto engine = Made(1);
  std::atomic<bool> warm{true};
  const auto hangs = [&](const std::vector<Datum>& in, const RunOptions& o) {
    if (warm) return Status();
    EXPECT_EQ(o.priority, infer::Priority::kLow);
    // It does not look whether it should stop.
    return gate.hook()(in, {});
  };
  const std::vector<Datum> inputs = {Filled(1)};
  ASSERT_TRUE(engine->Load("a", SourceOf(kRowsModel), {.warm_inputs = inputs}).ok());
  ASSERT_TRUE(engine->Load("b", SourceOf(kRowsModel, hangs), {.warm_inputs = inputs}).ok());
  warm = false;
  ASSERT_TRUE(
      engine->SetRoute("r", {ShadowRoute{.most_waiting = 3}, {{.model = "a"}, {.model = "b"}}})
          .ok());
  auto memory = std::make_unique<std::array<float, 4>>();
  for (int i = 0; i < 20; ++i) {
    memory->fill(static_cast<float>(i));
    const Tensor borrowed(DType::kF32, {1, 4},
                          Buffer::Borrow(memory->data(), sizeof *memory, nullptr));
    const Outcome o = i % 2 == 0 ? engine->Infer({.model = "r", .inputs = {borrowed}})
                                 : engine->Submit({.model = "r", .inputs = {borrowed}}).get();
    ASSERT_EQ(o.end, State::kSucceeded) << o.status.message();
    EXPECT_EQ(FirstOf(o), 2 * static_cast<float>(i));
  }
  gate.Await(1);
  memory.reset();  // the shadow has copies
  const RouteStats s = engine->StatsOfRoutes()[0];
  EXPECT_EQ(s.variants[0].ends[EndIndex(State::kSucceeded)], 20);
  EXPECT_EQ(s.variants[1].sent, 3);
  EXPECT_EQ(s.shadow->dropped, 17);
  engine->Drain();  // which does not wait for it
  engine.reset();
  gate.Open();
  gate.AwaitGone();
}

}  // namespace
}  // namespace infer::engine
