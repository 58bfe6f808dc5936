/// The engine on real threads: who is told what, once, and where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <latch>
#include <thread>

#include "lib/support/parallel.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<Engine> Made(int threads = 2) {
  auto engine = Engine::Make({.threads = threads});
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return *std::move(engine);
}

Request For(float value, int64_t rows = 1) {
  return {.model = "m", .inputs = {Filled(value, rows)}};
}

/// Runs wait at it until it is opened or their run is stopped.
class Gate {
 public:
  RunHook hook() {
    return [this](const std::vector<Datum>&, const RunOptions& options) {
      ++arrived_;
      arrived_.notify_all();
      while (!open_ && !options.stop.stop_requested())
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      ++gone_;
      gone_.notify_all();
      return options.stop.stop_requested() ? Cancelled("the run was stopped") : Status();
    };
  }
  void Open() { open_ = true; }
  void Await(int runs) {
    for (int n = arrived_; n < runs; n = arrived_) arrived_.wait(n);
  }
  /// Of all that had arrived.
  void AwaitGone() {
    for (int n = gone_; n < arrived_; n = gone_) gone_.wait(n);
  }

 private:
  std::atomic<bool> open_{false};
  std::atomic<int> arrived_{0}, gone_{0};
};

ModelStats StatsOf(const Engine& engine) {
  const auto all = engine.Stats();
  return all.empty() ? ModelStats() : all[0];
}

TEST(Engine, InferGivesTheBitsOfABareRun) {
  const std::string text =
      "graph g(x: f32[N,8]) -> (y, z) { w = const f32[8,5] ~3 m = MatMul(x, w) y = Tanh(m) "
      "z = Softmax(y) }";
  const auto engine = Made();
  ModelSource source = SourceOf(text);
  ASSERT_TRUE(engine->Load("m", source).ok());
  Random random(1);
  for (int64_t rows : {1, 3, 1, 7}) {
    Tensor x(DType::kF32, {rows, 8});
    for (float& v : x.mutable_data<float>()) v = static_cast<float>(random.Normal());
    const Datum inputs[] = {x};
    const auto bare = *RunOnce(*source.program, inputs);
    const Outcome o = engine->Infer({.model = "m", .inputs = {x}, .metadata = {{"id", "7"}}});
    ASSERT_EQ(o.end, State::kSucceeded) << o.status.message();
    ASSERT_EQ(o.outputs.size(), bare.size());
    for (size_t i = 0; i < bare.size(); ++i)
      EXPECT_TRUE(BitEqual(o.outputs[i].tensor(), bare[i].tensor()));
    EXPECT_EQ(o.version, 1);
    EXPECT_EQ(o.metadata.at("id"), "7");
    EXPECT_GT(o.phases.compute_ns, 0);
    EXPECT_GE(o.phases.total_ns, o.phases.queue_ns + o.phases.batch_ns + o.phases.compute_ns);
  }
}

TEST(Engine, AnIdleEngineRunsOnTheThreadThatWaitsAndCopiesNoOutputs) {
  std::atomic<std::thread::id> ran;
  const auto engine = Made();
  const auto hook = [&](const auto&, const RunOptions&) {
    ran = std::this_thread::get_id();
    return Status();
  };
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel, hook)).ok());
  const Outcome first = engine->Infer(For(1));
  EXPECT_EQ(ran.load(), std::this_thread::get_id());
  EXPECT_EQ(first.outputs[0].tensor().buffer().use_count(), 2) << "shared with the instance";
  const Outcome second = engine->Infer(For(2));
  EXPECT_EQ(FirstOf(first), 2) << "the next run writes into other memory";
  EXPECT_EQ(FirstOf(second), 4);
  (void)engine->Submit(For(1)).get();
  EXPECT_NE(ran.load(), std::this_thread::get_id()) << "who does not wait does not run";
}

TEST(Engine, OutputsThatAreInputsOrConstantsAreCopied) {
  const auto engine = Made();
  ASSERT_TRUE(engine
                  ->Load("m", SourceOf("graph g(x: f32[N,4]) -> (y, c) { c = const f32[2] ~1 "
                                       "y = Identity(x) }"))
                  .ok());
  Tensor x(DType::kF32, {1, 4});
  for (float& v : x.mutable_data<float>()) v = 5;
  Outcome o = engine->Infer({.model = "m", .inputs = {x}});
  ASSERT_EQ(o.end, State::kSucceeded) << o.status.message();
  const float constant = o.outputs[1].tensor().data<float>()[0];
  for (Datum& d : o.outputs) d.tensor().mutable_data<float>()[0] = 77;
  EXPECT_EQ(x.data<float>()[0], 5);
  o = engine->Infer({.model = "m", .inputs = {x}});
  EXPECT_EQ(o.outputs[1].tensor().data<float>()[0], constant);
}

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

TEST(Engine, DrainLosesNothingAndShutdownCancels) {
  for (const bool drain : {true, false}) {
    std::array<std::atomic<int>, kEnds> ends{};
    const auto engine = Made();
    ASSERT_TRUE(
        engine->Load("m", SourceOf(kRowsModel), {.instances = 2, .queue = {.max_requests = 100000}})
            .ok());
    for (int i = 0; i < 10000; ++i)
      engine->Submit(For(1), [&](Outcome o) { ++ends[EndIndex(o.end)]; });
    if (drain)
      engine->Drain();
    else
      engine->Shutdown();
    const int ok = ends[EndIndex(State::kSucceeded)], gone = ends[EndIndex(State::kCancelled)];
    EXPECT_EQ(ok + gone, 10000);
    if (drain) {
      EXPECT_EQ(ok, 10000);
    }
    EXPECT_EQ(engine->Infer(For(1)).end, State::kRejected);
  }
}

TEST(Engine, HotSwapFailsNoRequest) {
  const auto engine = Made();
  const ModelSource doubles = SourceOf(kRowsModel),
                    triples = SourceOf(
                        "graph g(x: f32[N,L]) -> (y: f32[N,L]) { d = Add(x, x) y = Add(d, x) }");
  const std::vector<Datum> warm = {Filled(1)};
  ASSERT_TRUE(engine->Load("m", doubles, {.warm_inputs = warm}).ok());
  EXPECT_FALSE(engine->Load("m", triples, {.warm_inputs = {Tensor::Int64s({1})}}).ok());
  EXPECT_FALSE(engine->Load("m", triples, {.instances = 0}).ok());
  EXPECT_EQ(FirstOf(engine->Infer(For(1))), 2) << "what fails to load replaces nothing";
  std::atomic<bool> stop{false};
  std::atomic<int64_t> answered{0};
  std::jthread client([&] {
    while (!stop) {
      const Outcome o = engine->Infer(For(1));
      ASSERT_EQ(o.end, State::kSucceeded) << o.status.message();
      ASSERT_EQ(FirstOf(o), o.version % 2 == 1 ? 2 : 3);
      answered += 1;
      answered.notify_all();
    }
  });
  int64_t version = 1;
  version += 2;  // numbers of the two that failed are not used again
  for (int i = 0; i < 50; ++i) {
    const bool odd = ++version % 2 == 1;
    ASSERT_TRUE(engine->Load("m", odd ? doubles : triples, {.warm_inputs = warm}).ok());
    answered.wait(answered.load());
  }
  stop = true;
  client.join();
  engine->Drain();
  const ModelStats s = StatsOf(*engine);
  EXPECT_EQ(s.version, version);
  EXPECT_EQ(s.old_versions, 0);
  EXPECT_EQ(s.ends[EndIndex(State::kSucceeded)], s.submitted);
}

TEST(Engine, AForkedChildIsRefused) {
  auto engine = Made();
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel)).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    Outcome o;
    engine->Submit(For(1), [&](Outcome told) { o = std::move(told); });
    const bool refused = o.end == State::kRejected &&
                         o.status.message().find("forked") != std::string::npos &&
                         !engine->Load("n", {}).ok() && engine->Stats().empty();
    engine.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(engine->Infer(For(1)).end, State::kSucceeded);
}

TEST(Engine, EveryRequestEndsOnce) {
  // Random cancellations, deadlines, failures, unloads and swaps from four threads.
  constexpr int kThreads = 4, kEach = 3000;
  std::vector<std::atomic<int>> told(kThreads * kEach);
  std::array<std::atomic<int64_t>, kEnds> ends{};
  const ModelSource source =
      SourceOf(kRowsModel, [](const std::vector<Datum>& in, const RunOptions&) {
        for (int64_t r = 0; r < in[0].tensor().dim(0); ++r)
          if (in[0].tensor().At(4 * r) == 13) return Internal("poisoned");
        return Status();
      });
  const ModelOptions options{.instances = 2,
                             .queue = {.max_requests = 200},
                             .batch = {.max_rows = 8, .max_delay_ns = 100'000}};
  {
    const auto engine = Made();
    ASSERT_TRUE(engine->Load("m", source, options).ok());
    std::vector<std::jthread> clients;
    for (int t = 0; t < kThreads; ++t)
      clients.emplace_back([&, t] {
        Random random(static_cast<uint64_t>(t));
        std::deque<std::stop_source> stops;
        for (int i = 0; i < kEach; ++i) {
          const int id = t * kEach + i;
          Request r = For(random.Below(20) == 0 ? 13.0f : 1.0f, 1 + random.Below(3));
          r.priority = static_cast<Priority>(random.Below(kPriorities));
          if (random.Below(5) == 0) r.timeout_ns = random.Below(300'000);
          if (random.Below(3) == 0) r.stop = stops.emplace_back().get_token();
          const float in = r.inputs[0].tensor().data<float>()[0];
          engine->Submit(std::move(r), [&, id, in](Outcome o) {
            ++told[static_cast<size_t>(id)];
            ++ends[EndIndex(o.end)];
            EXPECT_EQ(FirstOf(o), o.end == State::kSucceeded ? 2 * in : 0);
          });
          if (stops.size() > 4) {
            stops.front().request_stop();
            stops.pop_front();
          }
          if (random.Below(8) == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
          if (t == 0 && i % 400 == 399) {
            ASSERT_TRUE(engine->Load("m", source, options).ok());
          }
          if (t == 1 && i % 1000 == 999) (void)engine->Unload("m");
        }
      });
    clients.clear();
    engine->Drain();
    const ModelStats s = StatsOf(*engine);
    EXPECT_EQ(s.submitted, kThreads * kEach);
    for (size_t e = 0; e < kEnds; ++e) EXPECT_EQ(s.ends[e], ends[e]) << e;
  }
  for (const auto& n : told) ASSERT_EQ(n, 1);
  for (const auto& n : ends) EXPECT_GT(n, 0) << "a kind of end that was not met";
}

}  // namespace
}  // namespace infer::engine
