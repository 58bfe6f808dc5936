/// Planned faults: when they come, and that an engine under them ends every request once.
#include "runtime/engine/faults.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/engine_fixture.h"
#include "tests/runtime/engine/from_environment.h"

namespace infer::engine {
namespace {

std::shared_ptr<FaultInjector> Begun(FaultPlan plan, FaultInjector::Wait wait = {}) {
  auto injector = FaultInjector::Make(std::move(plan), std::move(wait));
  EXPECT_TRUE(injector.ok()) << injector.status().message();
  (*injector)->Begin();
  return *std::move(injector);
}

/// 'f' or 't' where the visit fails or throws, '.' else.
std::string Visits(FaultInjector& injector, FaultSite site, int visits) {
  std::string seen;
  for (int i = 0; i < visits; ++i) try {
      seen += injector.Visit(site).ok() ? '.' : 'f';
    } catch (const std::runtime_error&) {
      seen += 't';
    }
  return seen;
}

FaultPlan Mixed(uint64_t seed) {
  return {.faults = {{FaultSite::kRun, FaultKind::kFail, 0.1},
                     {FaultSite::kRun, FaultKind::kThrow, 0.05},
                     {FaultSite::kBind, FaultKind::kFail, 1}},
          .seed = seed};
}

TEST(Faults, ComeBySeedVisitAndRate) {
  const auto a = Begun(Mixed(1)), b = Begun(Mixed(1)), c = Begun(Mixed(2));
  const std::string seen = Visits(*a, FaultSite::kRun, 20'000);
  EXPECT_EQ(Visits(*b, FaultSite::kBind, 5), "fffff") << "sites count for themselves";
  EXPECT_EQ(Visits(*b, FaultSite::kRun, 20'000), seen);
  EXPECT_NE(Visits(*c, FaultSite::kRun, 20'000), seen);
  EXPECT_EQ(Visits(*a, FaultSite::kAnswer, 100), std::string(100, '.'));
  const std::vector<FaultCount> counts = a->Counts();
  EXPECT_EQ(counts[0].visits, 20'000);
  EXPECT_NEAR(static_cast<double>(counts[0].met), 2000, 4 * 42.4);
  EXPECT_NEAR(static_cast<double>(counts[1].met), 1000, 4 * 30.8);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 'f'), counts[0].met) << "the first one ends it";
  EXPECT_EQ(counts[2].visits, 0);
}

TEST(Faults, NothingHappensBeforeTheyBegin) {
  const auto injector = *FaultInjector::Make(Mixed(1));
  EXPECT_EQ(Visits(*injector, FaultSite::kBind, 5), ".....");
  EXPECT_EQ(injector->Counts()[2].visits, 0);
}

TEST(Faults, ADelayComesFirstAndAStopEndsIt) {
  std::stop_source stop;
  int64_t waited = 0;
  const auto injector = Begun({.faults = {{FaultSite::kRun, FaultKind::kFail, 1},
                                          {FaultSite::kRun, FaultKind::kDelay, 1, 70}}},
                              [&](int64_t ns, const std::stop_token&) { waited += ns; });
  EXPECT_THAT(std::string(injector->Visit(FaultSite::kRun).message()),
              ::testing::HasSubstr("planned fault: run, visit 0"));
  EXPECT_EQ(waited, 70);
  const auto slow = Begun({.faults = {{FaultSite::kRun, FaultKind::kDelay, 1, 3'600'000'000'000}}});
  std::jthread stops([&] { stop.request_stop(); });
  EXPECT_EQ(slow->Visit(FaultSite::kRun, stop.get_token()).code(), Code::kCancelled);
}

TEST(Faults, SettingsOutOfRangeAreRefused) {
  const auto refused = [](Fault f) {
    return std::string(FaultInjector::Make({.faults = {f}}).status().message());
  };
  EXPECT_THAT(refused({.rate = 1.5}), ::testing::HasSubstr("fault run fail: rate 1.5"));
  EXPECT_THAT(refused({.rate = std::nan("")}), ::testing::HasSubstr("rate"));
  EXPECT_THAT(refused({.kind = FaultKind::kDelay, .rate = 0.5}), ::testing::HasSubstr("delay"));
  EXPECT_THAT(refused({.rate = 0.5, .delay_ns = 1}), ::testing::HasSubstr("delay"));
}

/// What a load under faults told, in order, and the counts behind it.
struct FaultyLoad {
  std::vector<std::pair<int, State>> ends;
  ModelStats stats;
  std::vector<FaultCount> faults;
};
FaultyLoad Simulated(uint64_t seed, int64_t max_rows) {
  const auto sim = std::make_shared<Simulation>(seed, 2);
  const FaultPlan plan{.faults = {{FaultSite::kRun, FaultKind::kFail, 0.1},
                                  {FaultSite::kBind, FaultKind::kThrow, 0.05},
                                  {FaultSite::kAnswer, FaultKind::kFail, 0.05},
                                  {FaultSite::kRun, FaultKind::kDelay, 0.1, 5'000'000}},
                       .seed = seed};
  const auto injector =
      *FaultInjector::Make(plan, [&](int64_t ns, const std::stop_token&) { sim->Elapse(ns); });
  const auto engine = *Engine::Make({.clock = sim, .executor = sim});
  ModelSource source = SourceOf(kRowsModel, [&](const auto&, const RunOptions&) {
    sim->Elapse(1'000'000);
    return Status();
  });
  source.program = WithFaults(std::move(source.program), injector);
  EXPECT_TRUE(engine->Load("m", std::move(source), {.batch = {.max_rows = max_rows}}).ok());
  injector->Begin();
  FaultyLoad told;
  Random random(seed);
  for (int i = 0; i < 1000; ++i)
    sim->At(static_cast<int64_t>(random.Uniform() * 1.2e9), [&, i] {
      engine->Submit({.model = "m", .inputs = {Filled(1)}, .timeout_ns = 20'000'000},
                     [&, i](const Outcome& o) { told.ends.emplace_back(i, o.end); });
    });
  sim->RunAll();
  told.stats = StatsOf(*engine);
  told.faults = injector->Counts();
  return told;
}

TEST(Faults, AnEngineUnderThemEndsEveryRequestOnceAndReplays) {
  for (const int64_t max_rows : {1, 4})
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const FaultyLoad told = Simulated(seed, max_rows);
      std::set<int> requests;
      for (const auto& [request, end] : told.ends) requests.insert(request);
      EXPECT_EQ(told.ends.size(), 1000u);
      EXPECT_EQ(requests.size(), 1000u);
      int64_t ends = 0;
      for (int64_t n : told.stats.ends) ends += n;
      EXPECT_EQ(ends, told.stats.submitted);
      for (const FaultCount& f : told.faults) EXPECT_GT(f.met, 5);
      const FaultyLoad again = Simulated(seed, max_rows);
      EXPECT_EQ(again.ends, told.ends);
    }
}

TEST(Faults, AloneEachFailsItsRequest) {
  const FaultyLoad told = Simulated(7, 1);
  const int64_t met = told.faults[0].met + told.faults[1].met + told.faults[2].met;
  int64_t delayed_too_long = 0;
  for (const auto& [request, end] : told.ends) delayed_too_long += end == State::kTimedOut;
  const int64_t failed = told.stats.ends[EndIndex(State::kFailed)];
  EXPECT_LE(failed, met);
  EXPECT_GE(failed + delayed_too_long, met);
}

TEST(Faults, ALoadThatFailsReplacesNothing) {
  const auto injector = Begun({.faults = {{FaultSite::kLoad, FaultKind::kThrow, 0.5}}, .seed = 3});
  const auto engine = Made();
  int failed = 0;
  for (int i = 0; i < 20; ++i) {
    ModelSource source = SourceOf(kRowsModel);
    source.program = WithFaults(std::move(source.program), injector);
    failed += !engine->Load("m", std::move(source)).ok();
    if (failed <= i) {
      EXPECT_EQ(engine->Infer(For(1)).end, State::kSucceeded);
    }
  }
  EXPECT_EQ(failed, injector->Counts()[0].met);
  EXPECT_GT(failed, 3);
  EXPECT_LT(failed, 17);
}

/// INFER_ENGINE_REQUESTS: how many.
TEST(Faults, ThreadsCancelsTimeoutsAndSwapsLoseNothing) {
  const int64_t requests = FromEnvironment("INFER_ENGINE_REQUESTS", 4000);
  const auto injector = Begun({.faults = {{FaultSite::kRun, FaultKind::kFail, 0.05},
                                          {FaultSite::kRun, FaultKind::kThrow, 0.05},
                                          {FaultSite::kBind, FaultKind::kFail, 0.02},
                                          {FaultSite::kLoad, FaultKind::kFail, 0.2},
                                          {FaultSite::kRun, FaultKind::kDelay, 0.02, 300'000}},
                               .seed = 5});
  const auto engine = Made();
  const auto load = [&] {
    ModelSource source = SourceOf(kRowsModel);
    source.program = WithFaults(std::move(source.program), injector);
    return engine->Load("m", std::move(source), {.instances = 2, .batch = {.max_rows = 4}}).ok();
  };
  while (!load()) {
  }
  std::vector<std::atomic<int>> calls(static_cast<size_t>(requests));
  std::array<std::atomic<int64_t>, kEnds> ends = {};
  Random random(11);
  for (int64_t i = 0; i < requests; ++i) {
    Request r = For(1);
    std::stop_source stop;
    r.stop = stop.get_token();
    if (random.Below(4) == 0) r.timeout_ns = 1 + random.Below(500'000);
    engine->Submit(std::move(r), [&, i](const Outcome& o) {
      ++calls[static_cast<size_t>(i)];
      ++ends[EndIndex(o.end)];
    });
    if (random.Below(8) == 0) stop.request_stop();
    if (random.Below(200) == 0) (void)load();
    if (random.Below(64) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  engine->Drain();
  for (const auto& c : calls) ASSERT_EQ(c, 1);
  const ModelStats s = StatsOf(*engine);
  EXPECT_EQ(s.submitted, requests);
  for (size_t e = 0; e < kEnds; ++e) EXPECT_EQ(s.ends[e], ends[e]);
  EXPECT_GT(s.ends[EndIndex(State::kFailed)], 0);
}

}  // namespace
}  // namespace infer::engine
