/// How requests end on real threads: rejected, cancelled, too late; and what is read until then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/runtime/engine/engine_fixture.h"

namespace infer::engine {
namespace {

using ::testing::HasSubstr;

TEST(Engine, RequestsThatDoNotFitAreRejected) {
  const auto engine = Made();
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel)).ok());
  const auto why = [&](Request r) {
    const Outcome o = engine->Infer(std::move(r));
    EXPECT_EQ(o.end, State::kRejected);
    return o.status.message();
  };
  EXPECT_THAT(why({.model = "n"}), HasSubstr("no model 'n'"));
  EXPECT_THAT(why({.model = "m"}), HasSubstr("got 0 inputs"));
  EXPECT_THAT(why({.model = "m", .inputs = {Tensor::Int64s({1})}}), HasSubstr("'x' is f32[N,L]"));
  EXPECT_THAT(why({.model = "m", .inputs = {Tensor::Zeros(DType::kF32, {2})}}),
              HasSubstr("got f32[2]"));
  EXPECT_TRUE(engine->Unload("m").ok());
  EXPECT_FALSE(engine->Unload("m").ok());
  EXPECT_THAT(why(For(1)), HasSubstr("not loaded"));
}

TEST(Engine, AFullQueueRejectsAtOnceAndSaysHowFullItIs) {
  Gate gate;
  const auto engine = Made();
  ASSERT_TRUE(engine
                  ->Load("m", SourceOf(kRowsModel, gate.hook()),
                         {.queue = {.max_requests = 3, .max_bytes = 100}})
                  .ok());
  std::vector<std::future<Outcome>> taken;
  taken.push_back(engine->Submit(For(0)));
  gate.Await(1);
  for (int i = 1; i < 3; ++i) taken.push_back(engine->Submit(For(0)));
  // By bytes: 32 wait, 80 more do not fit into 100. Told before Submit returns.
  Outcome told;
  engine->Submit(For(0, 5), [&](Outcome o) { told = std::move(o); });
  EXPECT_EQ(told.end, State::kRejected);
  EXPECT_THAT(told.status.message(), HasSubstr("32 of 100 bytes wait, the request has 80"));
  taken.push_back(engine->Submit(For(0)));
  engine->Submit(For(0), [&](Outcome o) { told = std::move(o); });  // by count
  EXPECT_THAT(told.status.message(), HasSubstr("3 of 3 requests wait"));
  EXPECT_EQ(told.queue.requests, 3);
  EXPECT_EQ(told.queue.bytes, 48);
  EXPECT_EQ(told.queue.running, 1);
  gate.Open();
  for (auto& f : taken) EXPECT_EQ(f.get().end, State::kSucceeded);
}

TEST(Engine, CancelledInTheQueueAtOnceAndInARunBetweenSteps) {
  Gate gate;
  const auto engine = Made();
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel, gate.hook())).ok());
  std::stop_source running, queued;
  Request first = For(1), second = For(2);
  first.stop = running.get_token();
  second.stop = queued.get_token();
  auto a = engine->Submit(std::move(first));
  gate.Await(1);
  auto b = engine->Submit(std::move(second));
  queued.request_stop();
  EXPECT_EQ(b.get().end, State::kCancelled) << "while the run before it goes on";
  running.request_stop();
  const Outcome o = a.get();
  EXPECT_EQ(o.end, State::kCancelled);
  EXPECT_TRUE(o.outputs.empty());
  std::stop_source before;
  before.request_stop();
  Request late = For(3);
  late.stop = before.get_token();
  EXPECT_EQ(engine->Infer(std::move(late)).end, State::kCancelled);
}

TEST(Engine, ADeadlinePassesWhileTheOnlyThreadIsBusy) {
  Gate gate;
  const auto engine = Made(1);
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel, gate.hook())).ok());
  auto running = engine->Submit(For(1));
  gate.Await(1);
  Request r = For(2);
  r.timeout_ns = 1'000'000;
  EXPECT_EQ(engine->Infer(std::move(r)).end, State::kTimedOut);
  Request late = For(2);
  late.timeout_ns = -1;
  EXPECT_EQ(engine->Infer(std::move(late)).end, State::kTimedOut);
  gate.Open();
  EXPECT_EQ(running.get().end, State::kSucceeded);
}

TEST(Engine, ADeadlineStopsARun) {
  Gate gate;
  const auto engine = Made();
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel, gate.hook())).ok());
  Request r = For(2);
  r.timeout_ns = 1'000'000;
  EXPECT_EQ(engine->Infer(std::move(r)).end, State::kTimedOut) << "the gate is never opened";
}

TEST(Engine, BorrowedInputsAreNotReadBehindTheEnd) {
  // The run reads its input when it is let go; by then the request has been cancelled, but not
  // told.
  std::atomic<bool> read{false}, told{false}, told_before_read{false};
  Gate gate;
  const auto hook = [&](const std::vector<Datum>& inputs, const RunOptions& o) {
    (void)gate.hook()(inputs, o);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    told_before_read = told.load();
    read = inputs[0].tensor().At(0) == 5;
    return Cancelled("the run was stopped");
  };
  const auto engine = Made();
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel, hook)).ok());
  auto memory = std::make_unique<std::array<float, 4>>();
  memory->fill(5);
  std::stop_source stop;
  std::promise<void> done;
  engine->Submit({.model = "m",
                  .inputs = {Tensor(DType::kF32, {1, 4},
                                    Buffer::Borrow(memory->data(), sizeof *memory, nullptr))},
                  .stop = stop.get_token()},
                 [&](Outcome) {
                   told = true;
                   memory.reset();
                   done.set_value();
                 });
  gate.Await(1);
  stop.request_stop();
  done.get_future().wait();
  EXPECT_TRUE(read);
  EXPECT_FALSE(told_before_read);
}

TEST(Engine, OwnersOfInputsAreLetGo) {
  const auto engine = Made();
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel)).ok());
  const auto owner = std::make_shared<std::array<float, 4>>();
  (void)engine->Infer({.model = "m",
                       .inputs = {Tensor(DType::kF32, {1, 4},
                                         Buffer::Borrow(owner->data(), sizeof *owner, owner))}});
  engine->Drain();
  EXPECT_EQ(owner.use_count(), 1) << "the instance lives and keeps its inputs bound";
}

}  // namespace
}  // namespace infer::engine
