/// Which variant a route picks, without an engine. INFER_ENGINE_KEYS: how many keys are split.
#include "runtime/engine/route_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/support/strings.h"
#include "tests/runtime/engine/from_environment.h"

namespace infer::engine {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMilli = 1'000'000;

std::vector<ModelLoad> Idle(size_t variants) {
  return std::vector<ModelLoad>(variants, {.ready = true, .run_ns = kMilli});
}

RouteState MadeRoute(RouteMode mode, std::vector<RouteVariant> variants) {
  const RoutePolicy policy{.mode = std::move(mode), .variants = std::move(variants)};
  const Status s = Check(policy);
  EXPECT_TRUE(s.ok()) << s.message();
  return {"r", policy, 1, 0};
}

size_t PickOf(RouteState& route, const std::vector<ModelLoad>& loads, std::string key = "",
              int64_t timeout_ns = kNever) {
  const auto p =
      route.Pick({.model = "r", .timeout_ns = timeout_ns, .key = std::move(key)}, loads, 0);
  EXPECT_TRUE(p.variant) << p.why;
  return p.variant.value_or(99);
}

Outcome Ends(State how, int64_t total_ns = kMilli) {
  Outcome o;
  o.end = how;
  o.phases.total_ns = total_ns;
  if (how == State::kRejected) o.status = ResourceExhausted("the queue is full");
  return o;
}

TEST(Routes, SplitHasItsSharesAndKeysStay) {
  const int64_t keys = FromEnvironment("INFER_ENGINE_KEYS", 100'000);
  RouteState route = MadeRoute(SplitRoute{.salt = "s"},
                               {{.model = "a", .weight = 1}, {.model = "b", .weight = 3}});
  const auto loads = Idle(2);
  int64_t with_key = 0, without = 0, moved = 0;
  for (int64_t k = 0; k < keys; ++k) {
    const size_t picked = PickOf(route, loads, Cat("user", k));
    moved += PickOf(route, loads, Cat("user", k)) != picked ? 1 : 0;
    with_key += picked == 0 ? 1 : 0;
    without += PickOf(route, loads) == 0 ? 1 : 0;
  }
  EXPECT_EQ(moved, 0);
  const auto n = static_cast<double>(keys);
  for (const int64_t count : {with_key, without})
    EXPECT_NEAR(static_cast<double>(count), n / 4, 4 * std::sqrt(n * 3 / 16));
}

TEST(Routes, AFewKeysWithManyRequestsBreakNoShares) {
  using Kind = ExperimentVerdict::Kind;
  for (const bool gone : {false, true}) {
    RouteState route = MadeRoute(SplitRoute{.experiment = ExperimentRules{}},
                                 {{.model = "a"}, {.model = "b", .weight = 3}});
    std::vector<ModelLoad> loads = Idle(2);
    loads[1].ready = !gone;
    for (int i = 0; i < 5000; ++i) route.Send(PickOf(route, loads, Cat(i % 100)), 0);
    EXPECT_EQ(route.Stats(loads, 0).experiment->kind, gone ? Kind::kSampleRatio : Kind::kOpen);
  }
}

TEST(Routes, NoneThatIsNotReadyIsPicked) {
  for (const RouteMode& mode :
       std::vector<RouteMode>{SplitRoute{}, CanaryRoute{}, AffinityRoute{}, BalanceRoute{},
                              ShadowRoute{}, CascadeRoute{}, SloRoute{}}) {
    SCOPED_TRACE(NameOf(mode));
    const bool slo = std::holds_alternative<SloRoute>(mode);
    RouteVariant a{.model = "a"}, b{.model = "b"};
    if (slo) a.accuracy = 0.9, b.accuracy = 0.8;
    RouteState route = MadeRoute(mode, {a, b});
    std::vector<ModelLoad> loads = Idle(2);
    loads[1].ready = false;
    for (int k = 0; k < 200; ++k) EXPECT_EQ(PickOf(route, loads, Cat(k)), 0u);
    loads[0].ready = false;
    const auto none = route.Pick({.model = "r", .key = "k"}, loads, 0);
    EXPECT_FALSE(none.variant);
    EXPECT_THAT(none.why, HasSubstr("ready"));
    EXPECT_TRUE(route.Copies(loads, 0).empty());
  }
}

TEST(Routes, ABrokenVariantIsLeftOutUntilAProbeSucceeds) {
  RouteState route = MadeRoute(SplitRoute{}, {{.model = "a"}, {.model = "b"}});
  const auto loads = Idle(2);
  for (int i = 0; i < 5; ++i) route.Ended(route.Send(1, 0), Ends(State::kFailed), 0);
  for (int k = 0; k < 200; ++k) EXPECT_EQ(PickOf(route, loads, Cat(k)), 0u);
  EXPECT_EQ(route.Stats(loads, 0).variants[1].breaker, Breaker::State::kOpen);
  const int64_t later = BreakerRules().open_ns;
  std::string key;  // of the broken one
  for (int k = 0; key.empty(); ++k)
    if (route.Pick({.model = "r", .key = Cat(k)}, loads, later).variant == 1) key = Cat(k);
  const auto probe = route.Send(1, later);
  EXPECT_TRUE(probe.probe);
  EXPECT_EQ(route.Pick({.model = "r", .key = key}, loads, later).variant, 0) << "one at a time";
  route.Ended(probe, Ends(State::kSucceeded), later);
  EXPECT_EQ(PickOf(route, loads, key), 1u);
}

TEST(Routes, AffinityByKeyAndByDevice) {
  RouteState by_key = MadeRoute(AffinityRoute{.salt = "s"}, {{.model = "a"}, {.model = "b"}});
  const auto loads = Idle(2);
  EXPECT_EQ(PickOf(by_key, loads, "k"), PickOf(by_key, loads, "k"));
  EXPECT_THAT(by_key.Pick({.model = "r"}, loads, 0).why, HasSubstr("the request has none"));
  EXPECT_THAT(by_key.Pick({.model = "r", .key = "k", .device = "cpu"}, loads, 0).why,
              HasSubstr("does not choose by device"));
  RouteState by_device = MadeRoute(AffinityRoute{.by = AffinityRoute::By::kDevice},
                                   {{.model = "a", .device = "cpu"},
                                    {.model = "b", .device = "vulkan"},
                                    {.model = "c", .device = "cpu"}});
  std::vector<ModelLoad> three = Idle(3);
  three[0].waiting = 5;
  const auto on = [&](std::string device) {
    return by_device.Pick({.model = "r", .device = std::move(device)}, three, 0);
  };
  EXPECT_EQ(on("cpu").variant, 2) << "the less loaded of two";
  EXPECT_EQ(on("vulkan").variant, 1);
  EXPECT_THAT(on("npu").why, HasSubstr("no variant runs on device 'npu'"));
  EXPECT_THAT(on("").why, HasSubstr("names none"));
  three[1].ready = false;
  EXPECT_FALSE(on("vulkan").variant) << "no other device answers instead";
}

TEST(Routes, SloTakesTheMostAccurateThatIsInTime) {
  RouteState route = MadeRoute(SloRoute{.margin = 2}, {{.model = "small", .accuracy = 0.7},
                                                       {.model = "large", .accuracy = 0.9}});
  std::vector<ModelLoad> loads = Idle(2);
  loads[1].run_ns = 10 * kMilli;
  EXPECT_EQ(PickOf(route, loads), 1u) << "no timeout";
  EXPECT_EQ(PickOf(route, loads, "", 20 * kMilli), 1u);
  EXPECT_EQ(PickOf(route, loads, "", 20 * kMilli - 1), 0u);
  loads[1].busy = 1;  // a run of 10 ms is before it
  EXPECT_EQ(PickOf(route, loads, "", 39 * kMilli), 0u);
  EXPECT_EQ(PickOf(route, loads, "", 40 * kMilli), 1u);
  EXPECT_EQ(route.Stats(loads, 0).late, 0);
  EXPECT_EQ(PickOf(route, loads, "", kMilli), 0u) << "the fastest, if none is in time";
  EXPECT_EQ(route.Stats(loads, 0).late, 1);
  RouteState told =
      MadeRoute(SloRoute{}, {{.model = "small", .accuracy = 0.7, .run_ns = kMilli},
                             {.model = "large", .accuracy = 0.9, .run_ns = 10 * kMilli}});
  const std::vector<ModelLoad> unknown(2, {.ready = true});
  EXPECT_EQ(PickOf(told, unknown, "", 10 * kMilli), 0u) << "by the policy until a run was seen";
}

TEST(ExpectedNs, CountsRunsBeforeTheOneOfTheRequest) {
  EXPECT_EQ(ExpectedNs({.run_ns = 10}, 7), 10);
  EXPECT_EQ(ExpectedNs({}, 7), 7);
  EXPECT_EQ(ExpectedNs({.waiting_rows = 3, .busy = 1, .run_ns = 10}, 0), 50);
  EXPECT_EQ(ExpectedNs({.waiting_rows = 3, .max_rows = 4, .busy = 1, .run_ns = 10}, 0), 20);
  EXPECT_EQ(ExpectedNs({.waiting_rows = 3, .instances = 2, .busy = 2, .run_ns = 10}, 0), 30);
}

TEST(Routes, ACanaryTakesItsShareAndNoMore) {
  const CanaryRules rules{.steps = {0.1, 0.5}, .least_samples = 10, .interval_ns = 1000};
  RouteState route = MadeRoute(CanaryRoute{.rules = rules}, {{.model = "old"}, {.model = "new"}});
  std::vector<ModelLoad> loads = Idle(2);
  std::vector<bool> first(10'000);
  int64_t to_new = 0;
  for (size_t k = 0; k < first.size(); ++k) to_new += first[k] = PickOf(route, loads, Cat(k)) == 1;
  EXPECT_NEAR(static_cast<double>(to_new), 1000, 4 * std::sqrt(900.0));
  loads[0].ready = false;
  int64_t rejected = 0;
  for (size_t k = 0; k < first.size(); ++k)
    rejected += route.Pick({.model = "r", .key = Cat(k)}, loads, 0).variant ? 0 : 1;
  EXPECT_EQ(rejected, 10'000 - to_new) << "what the stable one cannot answer";
  loads[0].ready = true;
  // A step on: all that had the canary keep it.
  for (int i = 0; i < 20; ++i)
    for (size_t v : {0u, 1u}) route.Ended(route.Send(v, 0), Ends(State::kSucceeded), 0);
  for (size_t k = 0; k < first.size(); ++k) {
    const bool now_new = route.Pick({.model = "r", .key = Cat(k)}, loads, 1000).variant == 1;
    ASSERT_TRUE(now_new || !first[k]);
  }
  EXPECT_EQ(route.Stats(loads, 1000).canary->step, 1u);
  EXPECT_EQ(route.Stats(loads, 1000).variants[1].share, 0.5);
  for (int i = 0; i < 20; ++i)
    for (size_t v : {0u, 1u}) route.Ended(route.Send(v, 1000), Ends(State::kSucceeded), 1000);
  EXPECT_EQ(route.Stats(loads, 2000).canary->phase, Canary::Phase::kPromoted);
  for (int k = 0; k < 100; ++k) EXPECT_EQ(PickOf(route, loads, Cat(k)), 1u);
  loads[1].ready = false;
  EXPECT_EQ(PickOf(route, loads, "k"), 0u) << "the promoted one is gone";
}

TEST(Routes, ACanaryThatAnswersNothingIsRolledBack) {
  const CanaryRules rules{.least_samples = 10, .interval_ns = 100 * kMilli};
  RouteState route = MadeRoute(CanaryRoute{.rules = rules}, {{.model = "old"}, {.model = "new"}});
  for (int i = 0; i < 20; ++i) {
    route.Ended(route.Send(0, 0), Ends(State::kSucceeded, 10 * kMilli), 0);
    (void)route.Send(1, 0);
  }
  const RouteStats s = route.Stats(Idle(2), 100 * kMilli);
  EXPECT_EQ(s.canary->phase, Canary::Phase::kRolledBack);
  EXPECT_THAT(s.canary->why, HasSubstr("slower"));
}

TEST(Routes, ACanaryWhoseBreakerOpensIsRolledBackWithFewSamples) {
  const CanaryRules rules{.least_samples = 1000, .interval_ns = 1000};
  RouteState route = MadeRoute(CanaryRoute{.rules = rules}, {{.model = "old"}, {.model = "new"}});
  for (int i = 0; i < 5; ++i) route.Ended(route.Send(1, 0), Ends(State::kFailed), 0);
  const RouteStats s = route.Stats(Idle(2), 1000);
  EXPECT_EQ(s.canary->phase, Canary::Phase::kRolledBack);
  EXPECT_EQ(s.canary->why, "its breaker opened");
}

TEST(Routes, AFullQueueCountsAgainstACanaryAndOpensNoBreaker) {
  const CanaryRules rules{.least_samples = 10, .interval_ns = 1000};
  RouteState route = MadeRoute(CanaryRoute{.rules = rules}, {{.model = "old"}, {.model = "new"}});
  for (int i = 0; i < 20; ++i) {
    route.Ended(route.Send(0, 0), Ends(State::kSucceeded), 0);
    route.Ended(route.Send(1, 0), Ends(State::kRejected), 0);
  }
  const RouteStats s = route.Stats(Idle(2), 1000);
  EXPECT_EQ(s.canary->phase, Canary::Phase::kRolledBack);
  EXPECT_EQ(s.variants[1].breaker, Breaker::State::kClosed);
}

TEST(RoutePolicy, NoSettingIsIgnored) {
  const auto why = [](RouteMode mode, std::vector<RouteVariant> variants,
                      BreakerRules breaker = {}) {
    const Status s = Check(RoutePolicy{std::move(mode), std::move(variants), breaker});
    EXPECT_EQ(s.message().find('\n'), std::string::npos);
    return s.ok() ? std::string("ok") : s.message();
  };
  const std::vector<RouteVariant> two = {{.model = "a"}, {.model = "b"}};
  using By = AffinityRoute::By;
  EXPECT_EQ(why(SplitRoute{}, two), "ok");
  EXPECT_THAT(why(SplitRoute{}, {{.model = "a"}}), HasSubstr("two variants or more, not 1"));
  EXPECT_THAT(why(CanaryRoute{}, {{.model = "a"}, {.model = "b"}, {.model = "c"}}),
              HasSubstr("two variants, the stable one and the canary, not 3"));
  EXPECT_THAT(why(SplitRoute{}, {{.model = "a"}, {.model = "a"}}), HasSubstr("there twice"));
  EXPECT_THAT(why(SplitRoute{}, {{.model = "a"}, {}}), HasSubstr("no model"));
  for (const RouteMode& mode : std::vector<RouteMode>{CanaryRoute{}, ShadowRoute{}, CascadeRoute{}})
    EXPECT_THAT(why(mode, {{.model = "a"}, {.model = "b", .weight = 2}}),
                HasSubstr("weight has no effect in mode"));
  EXPECT_THAT(why(BalanceRoute{}, {{.model = "a"}, {.model = "b", .weight = 0}}),
              HasSubstr("weight is above 0"));
  EXPECT_THAT(why(SplitRoute{}, {{.model = "a"}, {.model = "b", .accuracy = 0.9}}),
              HasSubstr("accuracy has no effect in mode split"));
  EXPECT_THAT(why(SplitRoute{}, {{.model = "a"}, {.model = "b", .run_ns = 9}}),
              HasSubstr("run time has no effect"));
  EXPECT_THAT(why(SloRoute{}, two), HasSubstr("mode slo needs its accuracy"));
  EXPECT_THAT(why(SplitRoute{}, {{.model = "a"}, {.model = "b", .device = "cpu"}}),
              HasSubstr("device has no effect in mode split"));
  EXPECT_THAT(why(AffinityRoute{.by = By::kDevice}, two), HasSubstr("needs its device"));
  EXPECT_THAT(why(AffinityRoute{.by = By::kDevice, .salt = "s"},
                  {{.model = "a", .device = "cpu"}, {.model = "b", .device = "cpu"}}),
              HasSubstr("salt has no effect"));
  EXPECT_THAT(why(AffinityRoute{.seed = 1}, two), HasSubstr("seed has no effect"));
  EXPECT_THAT(why(SplitRoute{.experiment = ExperimentRules{.alpha = 2}}, two), HasSubstr("alpha"));
  EXPECT_THAT(why(CanaryRoute{.rules = {.interval_ns = 0}}, two), HasSubstr("interval"));
  EXPECT_THAT(why(ShadowRoute{.share = 0}, two), HasSubstr("share of a shadow"));
  EXPECT_THAT(why(ShadowRoute{.most_waiting = 0}, two), HasSubstr("gets none"));
  EXPECT_THAT(why(ShadowRoute{.timeout_ns = 0}, two), HasSubstr("timeout of a shadow"));
  EXPECT_THAT(why(CascadeRoute{.min_confidence = 1.5}, two), HasSubstr("min_confidence"));
  EXPECT_THAT(
      why(SloRoute{.margin = 0.5}, {{.model = "a", .accuracy = 1}, {.model = "b", .accuracy = 1}}),
      HasSubstr("margin"));
  EXPECT_THAT(why(SplitRoute{}, two, {.failures = 0}), HasSubstr("breaker"));
}

}  // namespace
}  // namespace infer::engine
