/// Routes in an engine under virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/engine/simulation.h"
#include "tests/runtime/engine/from_environment.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000, kOneSecond = 1'000 * kMs;

/// Models whose runs take virtual time and fail as a test wants.
struct World {
  explicit World(uint64_t seed = 1, int width = 8)
      : sim(std::make_shared<Simulation>(seed, width)),
        engine(*Engine::Make({.clock = sim, .executor = sim})),
        random(seed) {}

  struct Behaviour {
    std::function<int64_t()> ns = [] { return kMs; };
    std::function<bool()> fails = [] { return false; };
    float factor = 2;  ///< of the outputs; 3: a model of its own
  };
  void Load(const std::string& name, Behaviour b, int instances = 8) {
    const auto hook = [this, b](const auto&, const RunOptions&) {
      if (sim->NowNs() == 0) return Status();  // warm-up
      sim->Elapse(b.ns());
      return b.fails() ? Internal("injected") : Status();
    };
    const std::string text =
        b.factor == 2 ? kRowsModel
                      : "graph g(x: f32[N,L]) -> (y: f32[N,L]) { d = Add(x, x) y = Add(d, x) }";
    const Status s = engine->Load(
        name, SourceOf(text, hook),
        {.instances = instances, .queue = {.max_requests = 100'000}, .warm_inputs = {Filled(1)}});
    ASSERT_TRUE(s.ok()) << s.message();
  }
  void Route(RouteMode mode, std::vector<RouteVariant> variants, BreakerRules breaker = {}) {
    const Status s = engine->SetRoute("r", {std::move(mode), std::move(variants), breaker});
    ASSERT_TRUE(s.ok()) << s.message();
  }
  struct Told {
    int64_t at_ns = 0;
    Outcome outcome = {};
    int calls = 0;
  };
  /// A request at `at_ns`; `value` is its input.
  void Send(int64_t at_ns, float value, Request like = {}) {
    const size_t i = told.size();
    told.push_back({.at_ns = at_ns});
    like.model = "r";
    like.inputs = {Filled(value)};
    sim->At(at_ns, [this, i, like] {
      engine->Submit(like, [this, i](Outcome o) {
        ++told[i].calls;
        told[i].outcome = std::move(o);
        if (seen) seen(told[i]);
      });
    });
  }
  RouteStats stats() { return engine->StatsOfRoutes().at(0); }

  std::shared_ptr<Simulation> sim;
  std::unique_ptr<Engine> engine;
  Random random;
  std::vector<Told> told;
  std::function<void(const Told&)> seen;
};

World::Behaviour Like(World& w, double base_ms, double fail_rate = 0, int64_t from_ns = 0) {
  return {
      .ns = [&w,
             base_ms] { return static_cast<int64_t>(kMs * base_ms * w.random.Uniform(0.8, 1.2)); },
      .fails = [&w, fail_rate,
                from_ns] { return w.sim->NowNs() >= from_ns && w.random.Uniform() < fail_rate; }};
}

TEST(RoutesInEngine, EveryRequestEndsOnceAndStaysWithItsKey) {
  World w;
  w.Load("a", Like(w, 1));
  w.Load("b", Like(w, 1, 0.1));
  w.Route(SplitRoute{.salt = "s", .experiment = ExperimentRules{}},
          {{.model = "a"}, {.model = "b"}}, {.failures = 1000});
  for (int i = 1; i <= 5000; ++i) w.Send(i * kMs, 1, {.key = Cat(i % 500)});
  w.sim->RunAll();
  std::map<int, std::string> of_key;
  int i = 0;
  for (const auto& t : w.told) {
    ASSERT_EQ(t.calls, 1);
    EXPECT_EQ(t.outcome.ticket.route, "r");
    const auto [it, fresh] = of_key.emplace(++i % 500, t.outcome.ticket.model);
    ASSERT_EQ(it->second, t.outcome.ticket.model);
    if (t.outcome.end == State::kSucceeded) {
      ASSERT_EQ(FirstOf(t.outcome), 2);
    }
  }
  const RouteStats s = w.stats();
  int64_t sent = 0;
  for (const VariantStats& v : s.variants) {
    sent += v.sent;
    int64_t ends = 0;
    for (int64_t n : v.ends) ends += n;
    EXPECT_EQ(ends, v.sent);
  }
  EXPECT_EQ(sent, 5000);
  EXPECT_EQ(s.submitted, 5000);
  ASSERT_EQ(s.experiment->kind, ExperimentVerdict::Kind::kWinner) << "a tenth of b's fail";
  EXPECT_EQ(s.experiment->winner, 0u);
}

/// A canary with errors or slowness, from the start or from some moment on, gets no request later
/// than two intervals after so many of its requests have ended as the rules want.
TEST(RoutesInEngine, ABadCanaryIsRolledBackInTwoIntervals) {
  const int64_t seeds = FromEnvironment("INFER_ENGINE_EXPERIMENTS", 300) / 100;
  for (int64_t seed = 0; seed < seeds; ++seed)
    for (const bool slow : {false, true}) {
      SCOPED_TRACE(Cat("seed ", seed, slow ? ", slow" : ", failing"));
      World w(static_cast<uint64_t>(seed));
      const int64_t from_ns = seed % 2 == 0 ? 0 : 2 * kOneSecond;
      w.Load("old", Like(w, 2));
      World::Behaviour bad = Like(w, 2, slow ? 0 : 0.3, from_ns);
      if (slow)
        bad.ns = [&w, from_ns] {
          const double base = w.sim->NowNs() >= from_ns ? 4 : 2;
          return static_cast<int64_t>(kMs * base * w.random.Uniform(0.8, 1.2));
        };
      w.Load("new", bad);
      const CanaryRules rules{.steps = {0.05, 0.25, 0.5, 0.75, 0.9},
                              .least_samples = 50,
                              .interval_ns = kOneSecond / 2};
      w.Route(CanaryRoute{.rules = rules}, {{.model = "old"}, {.model = "new"}},
              {.failures = 1000});
      int64_t ended = 0, enough_ns = kNever, last_ns = 0;
      w.seen = [&](const World::Told& t) {
        if (t.outcome.ticket.model != "new") return;
        last_ns = std::max(last_ns, t.at_ns);
        if (t.at_ns >= from_ns && ++ended == rules.least_samples) enough_ns = w.sim->NowNs();
      };
      for (int i = 1; i <= 6'000; ++i) w.Send(i * kMs, 1);
      w.sim->RunAll();
      ASSERT_EQ(w.stats().canary->phase, Canary::Phase::kRolledBack) << w.stats().canary->why;
      ASSERT_NE(enough_ns, kNever);
      EXPECT_LE(last_ns, enough_ns + 2 * rules.interval_ns);
    }
}

TEST(RoutesInEngine, AGoodCanaryIsPromotedStepByStep) {
  World w;
  w.Load("old", Like(w, 2));
  w.Load("new", Like(w, 2));
  w.Route(
      CanaryRoute{.rules = {.steps = {0.1, 0.5}, .least_samples = 50, .interval_ns = kOneSecond}},
      {{.model = "old"}, {.model = "new"}});
  for (int i = 1; i <= 6'000; ++i) w.Send(i * kMs, 1);
  w.sim->RunAll();
  EXPECT_EQ(w.stats().canary->phase, Canary::Phase::kPromoted);
  EXPECT_EQ(w.told.back().outcome.ticket.model, "new");
}

/// The same load with and without a shadow: every end at the same moment, with the same answer.
TEST(RoutesInEngine, AShadowDoesNotTouchProduction) {
  enum { kNone, kFine, kHangs, kFails, kThrows, kOther };
  const auto run = [](int shadow) {
    auto w = std::make_unique<World>(7, 2);
    w->Load("a", {.ns = [] { return 3 * kMs; }}, 2);
    World::Behaviour b;
    b.ns = [shadow] { return shadow == kHangs ? 1'000'000 * kOneSecond : kMs; };
    b.fails = [shadow] {
      if (shadow == kThrows) throw std::runtime_error("thrown by the shadow");
      return shadow == kFails;
    };
    if (shadow == kOther) b.factor = 3;
    w->Load("b", b, 2);
    if (shadow == kNone)
      w->Route(CascadeRoute{.min_confidence = 1e-9, .logits = true},
               {{.model = "a"}, {.model = "b"}});
    else
      w->Route(ShadowRoute{}, {{.model = "a"}, {.model = "b"}}, {.failures = 1000});
    for (int i = 1; i <= 2000; ++i) w->Send(i * kMs * 8 / 5, static_cast<float>(1 + i % 7));
    w->sim->RunAll();
    return w;
  };
  const auto alone = run(kNone);
  for (const int shadow : {kFine, kHangs, kFails, kThrows, kOther}) {
    SCOPED_TRACE(shadow);
    const auto with = run(shadow);
    for (size_t i = 0; i < alone->told.size(); ++i) {
      const Outcome &a = alone->told[i].outcome, &b = with->told[i].outcome;
      ASSERT_EQ(with->told[i].calls, 1);
      ASSERT_EQ(a.end, b.end);
      ASSERT_EQ(a.phases.total_ns, b.phases.total_ns);
      ASSERT_EQ(FirstOf(a), FirstOf(b));
      ASSERT_EQ(b.ticket.model, "a");
    }
    const RouteStats s = with->stats();
    const int64_t copies = s.variants[1].sent;
    EXPECT_EQ(copies + s.shadow->dropped, 2000);
    EXPECT_EQ(s.variants[0].sent, 2000);
    if (shadow == kFine) {
      EXPECT_EQ(s.shadow->compared, copies);
      EXPECT_EQ(s.shadow->worst, 0);
      EXPECT_EQ(s.shadow->rows, copies);
    }
    if (shadow == kOther) {
      EXPECT_NEAR(s.shadow->worst, 0.5, 1e-6);
    }
    if (shadow == kHangs || shadow == kFails || shadow == kThrows) {
      EXPECT_EQ(s.shadow->compared, 0);
    }
  }
}

TEST(RoutesInEngine, AShadowTakesCopiesOnlyAndServesOneRoute) {
  World w;
  for (const char* name : {"a", "b", "c"}) w.Load(name, {});
  w.Route(ShadowRoute{.share = 0.5}, {{.model = "a"}, {.model = "b"}});
  const Status second = w.engine->SetRoute("s", {SplitRoute{}, {{.model = "b"}, {.model = "c"}}});
  EXPECT_THAT(second.message(), HasSubstr("also serves route 'r'"));
  Outcome told;
  w.engine->Submit({.model = "b", .inputs = {Filled(1)}}, [&](Outcome o) { told = std::move(o); });
  EXPECT_THAT(told.status.message(), HasSubstr("is a shadow"));
  for (int i = 1; i <= 1000; ++i) w.Send(i * 10 * kMs, 1);
  w.sim->RunAll();
  EXPECT_NEAR(static_cast<double>(w.stats().variants[1].sent), 500, 64) << "its share";
  ASSERT_TRUE(w.engine->RemoveRoute("r").ok());
  w.engine->Submit({.model = "b", .inputs = {Filled(1)}}, [&](Outcome o) { told = std::move(o); });
  w.sim->RunAll();
  EXPECT_EQ(told.end, State::kSucceeded) << "a model like others";
}

/// [v, 0, 0, 0] becomes [2v, 0, 0, 0], whose surest class has e^2v / (e^2v + 3).
Request OfLogit(float v) {
  Tensor t = Tensor::Zeros(DType::kF32, {1, 4});
  t.mutable_data<float>()[0] = v;
  return {.model = "r", .inputs = {std::move(t)}, .metadata = {{"id", "7"}}};
}

Outcome Asked(World& w, Request r) {
  Outcome told;
  w.engine->Submit(std::move(r), [&](Outcome o) { told = std::move(o); });
  w.sim->RunAll();
  return told;
}

TEST(RoutesInEngine, ACascadeAsksTheNextWhereItIsNotSure) {
  World w;
  bool small_fails = false, large_fails = false;
  w.sim->At(kMs, [] {});
  w.Load("small", {.fails = [&] { return small_fails; }});
  w.Load("large",
         {.ns = [] { return 5 * kMs; }, .fails = [&] { return large_fails; }, .factor = 3});
  w.sim->RunAll();
  w.Route(CascadeRoute{.min_confidence = 0.9, .logits = true},
          {{.model = "small"}, {.model = "large"}});
  const Outcome sure = Asked(w, OfLogit(3));
  EXPECT_EQ(sure.ticket.model, "small");
  EXPECT_NEAR(sure.confidence, 0.9926, 1e-4);
  const Outcome unsure = Asked(w, OfLogit(0.5f));
  EXPECT_EQ(unsure.ticket.model, "large");
  EXPECT_EQ(FirstOf(unsure), 1.5f);
  EXPECT_EQ(unsure.phases.total_ns, 6 * kMs) << "of both";
  EXPECT_EQ(unsure.phases.compute_ns, 6 * kMs);
  EXPECT_EQ(unsure.metadata.at("id"), "7");
  small_fails = true;
  EXPECT_EQ(Asked(w, OfLogit(3)).ticket.model, "large") << "the first failed";
  small_fails = false;
  large_fails = true;
  const Outcome better_than_none = Asked(w, OfLogit(0.5f));
  EXPECT_EQ(better_than_none.end, State::kSucceeded);
  EXPECT_EQ(better_than_none.ticket.model, "small");
  EXPECT_EQ(better_than_none.metadata.at("id"), "7");
  EXPECT_EQ(w.stats().gave_up, 1);
  EXPECT_TRUE(w.engine->Unload("large").ok());
  EXPECT_EQ(Asked(w, OfLogit(0.5f)).ticket.model, "small");
  EXPECT_EQ(w.stats().gave_up, 2);
  Request hurried = OfLogit(0.5f);
  hurried.timeout_ns = kMs / 2;
  EXPECT_EQ(Asked(w, std::move(hurried)).end, State::kTimedOut);
  EXPECT_EQ(w.stats().variants[0].unsure, 3);
}

TEST(RoutesInEngine, ACascadeHoldsTheDeadlineOverAllItsVariants) {
  World w;
  w.sim->At(kMs, [] {});
  w.Load("small", {.ns = [] { return 3 * kMs; }});
  w.Load("large", {.ns = [] { return 5 * kMs; }});
  w.sim->RunAll();
  w.Route(CascadeRoute{.min_confidence = 0.9, .logits = true},
          {{.model = "small"}, {.model = "large"}});
  Request r = OfLogit(0);
  r.timeout_ns = 7 * kMs;
  const Outcome o = Asked(w, r);
  EXPECT_EQ(o.end, State::kTimedOut);
  EXPECT_EQ(o.phases.total_ns, 7 * kMs);
}

TEST(RoutesInEngine, ADrainLetsACascadeGoOn) {
  World w;
  w.Load("small", {});
  w.Load("large", {});
  w.Route(CascadeRoute{.min_confidence = 1, .logits = true},
          {{.model = "small"}, {.model = "large"}});
  w.Send(kMs, 1);
  w.sim->At(kMs + 1, [&] { w.engine->Close(); });
  w.Send(kMs + 2, 1);
  w.sim->RunAll();
  EXPECT_EQ(w.told[0].outcome.end, State::kSucceeded);
  EXPECT_EQ(w.told[0].outcome.ticket.model, "large");
  EXPECT_EQ(w.told[1].outcome.end, State::kRejected);
}

TEST(RoutesInEngine, SloGivesWayUnderLoad) {
  World w(1, 2);
  w.Load("small", {.ns = [] { return 2 * kMs; }}, 1);
  w.Load("large", {.ns = [] { return 20 * kMs; }}, 1);
  w.Route(SloRoute{.margin = 1}, {{.model = "small", .accuracy = 0.8, .run_ns = 2 * kMs},
                                  {.model = "large", .accuracy = 0.9, .run_ns = 20 * kMs}});
  for (int i = 0; i < 1000; ++i)
    w.Send((1 + i) * 4 * kMs, 1, {.timeout_ns = 50 * kMs});  // 5 times what the large one takes
  w.sim->RunAll();
  for (const auto& t : w.told) ASSERT_EQ(t.outcome.end, State::kSucceeded) << "in time";
  const RouteStats s = w.stats();
  EXPECT_GT(s.variants[1].sent, 150) << "the accurate one is used as far as it goes";
  EXPECT_EQ(s.late, 0);
}

TEST(RoutesInEngine, BalanceKeepsTheSlowerVariantShort) {
  World w(3, 4);
  w.Load("fast", {.ns = [] { return kMs; }}, 2);
  w.Load("slow", {.ns = [] { return 4 * kMs; }}, 2);
  w.Route(BalanceRoute{.seed = 5}, {{.model = "fast"}, {.model = "slow"}});
  for (int i = 1; i <= 4000; ++i) w.Send(i * kMs / 2, 1);
  w.sim->RunAll();
  const RouteStats s = w.stats();
  EXPECT_GT(s.variants[0].sent, 2 * s.variants[1].sent);
  for (const auto& t : w.told) EXPECT_LT(t.outcome.phases.queue_ns, 100 * kMs);
}

TEST(RoutesInEngine, LabelsComeLateAndDecideAnExperiment) {
  World w;
  w.Load("a", {});
  w.Load("b", {});
  w.Route(SplitRoute{.experiment = ExperimentRules{.by_labels = true}},
          {{.model = "a"}, {.model = "b"}});
  for (int i = 1; i <= 4000; ++i) w.Send(i * kMs, 1);
  w.sim->RunAll();
  EXPECT_EQ(w.stats().experiment->kind, ExperimentVerdict::Kind::kOpen);
  for (const auto& t : w.told) {
    const Ticket& ticket = t.outcome.ticket;
    EXPECT_TRUE(
        w.engine->RecordOutcome(ticket, w.random.Uniform() < (ticket.model == "b" ? 0.9 : 0.8))
            .ok());
  }
  const RouteStats s = w.stats();
  EXPECT_EQ(s.experiment->kind, ExperimentVerdict::Kind::kWinner);
  EXPECT_EQ(s.experiment->winner, 1u);
  EXPECT_EQ(s.variants[0].labels.count + s.variants[1].labels.count, 4000);
  w.Route(SplitRoute{}, {{.model = "a"}, {.model = "b"}});
  EXPECT_THAT(w.engine->RecordOutcome(w.told[0].outcome.ticket, true).message(),
              HasSubstr("set anew"));
}

TEST(RoutesInEngine, WhatCannotBeRoutedIsRefused) {
  World w;
  w.Load("a", {});
  w.Load("b", {});
  const auto why = [&](const std::string& name, RoutePolicy policy) {
    const Status s = w.engine->SetRoute(name, std::move(policy));
    EXPECT_FALSE(s.ok());
    return s.message();
  };
  const RoutePolicy fine{SplitRoute{}, {{.model = "a"}, {.model = "b"}}};
  EXPECT_THAT(why("a", fine), HasSubstr("a model has this name"));
  EXPECT_THAT(why("r", {SplitRoute{}, {{.model = "a"}, {.model = "c"}}}),
              HasSubstr("no model 'c'"));
  ASSERT_TRUE(w.engine->Load("cold", SourceOf(kRowsModel)).ok());
  EXPECT_THAT(why("r", {SplitRoute{}, {{.model = "a"}, {.model = "cold"}}}),
              HasSubstr("'cold' is not warm"));
  ASSERT_TRUE(w.engine
                  ->Load("other", SourceOf("graph g(x: i64[N,L]) -> (y) { y = Add(x, x) }"),
                         {.warm_inputs = {Datum(Tensor::Zeros(DType::kI64, {1, 1}))}})
                  .ok());
  EXPECT_THAT(why("r", {SplitRoute{}, {{.model = "a"}, {.model = "other"}}}),
              HasSubstr("have other inputs"));
  ASSERT_TRUE(w.engine->SetRoute("r", fine).ok());
  EXPECT_THAT(w.engine->Load("r", SourceOf(kRowsModel)).message(), HasSubstr("a route has"));
  const Outcome device = Asked(w, {.model = "a", .inputs = {Filled(1)}, .device = "cpu"});
  EXPECT_EQ(device.end, State::kRejected);
  EXPECT_THAT(device.status.message(), HasSubstr("no route by device"));
  EXPECT_TRUE(w.engine->Unload("a").ok());
  EXPECT_EQ(Asked(w, {.model = "r", .inputs = {Filled(1)}}).ticket.model, "b") << "a is gone";
  EXPECT_TRUE(w.engine->RemoveRoute("r").ok());
  EXPECT_FALSE(w.engine->RemoveRoute("r").ok());
  EXPECT_EQ(Asked(w, {.model = "r", .inputs = {Filled(1)}}).end, State::kRejected);
}

}  // namespace
}  // namespace infer::engine
