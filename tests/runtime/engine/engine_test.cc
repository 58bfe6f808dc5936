/// The engine on real threads: who is told what, once, and where.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <thread>

#include "lib/support/random.h"
#include "tests/runtime/engine/engine_fixture.h"

namespace infer::engine {
namespace {

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
  std::promise<void> told;
  engine->Submit(For(1), [&](const Outcome&) { told.set_value(); });
  told.get_future().wait();
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

TEST(Engine, WarmingBesideOtherModelsHasTheLowestPriority) {
  std::vector<infer::Priority> seen;
  const ModelSource source = SourceOf(kRowsModel, [&](const auto&, const RunOptions& options) {
    seen.push_back(options.priority);
    return Status();
  });
  const auto engine = Made();
  const std::vector<Datum> warm = {Filled(1)};
  ASSERT_TRUE(engine->Load("m", source, {.warm_inputs = warm}).ok());
  ASSERT_TRUE(engine->Load("m", source, {.warm_inputs = warm}).ok());
  ASSERT_TRUE(engine->Load("other", source, {.warm_inputs = warm}).ok());
  EXPECT_EQ(seen,
            (std::vector{infer::Priority::kNormal, infer::Priority::kLow, infer::Priority::kLow}));
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
