/// Names of models and of routes: what comes and goes leaves nothing, and a model behind a route
/// stays one that the route can use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/engine/engine_fixture.h"

namespace infer::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kOtherModel = "graph g(x: i64[N]) -> (y: i64[N]) { y = Add(x, x) }";

ModelOptions Warm() { return {.warm_inputs = {Filled(1)}}; }

TEST(Names, ManyModelsThatCameAndWentLeaveLittle) {
  // Each name took 200 KB of counts and times, for ever.
  const auto engine = Made();
  const ModelSource source = SourceOf(kRowsModel);
  constexpr int kModels = 500;
  int64_t recorded = 0;
  for (int i = 0; i < kModels; ++i) {
    const std::string name = "m" + std::to_string(i);
    ASSERT_TRUE(engine->Load(name, source).ok());
    Request r = For(1);
    r.model = name;
    ASSERT_EQ(engine->Infer(std::move(r)).end, State::kSucceeded);
    ASSERT_TRUE(engine->Unload(name).ok());
    if (i == kModels / 2) recorded = Histogram::RecordedBytes();
  }
  const auto stats = engine->Stats();
  EXPECT_EQ(stats.size(), 64) << "counts of those that were unloaded last";
  for (const ModelStats& s : stats) EXPECT_GE(s.model, "m436") << s.model;
  EXPECT_LE(Histogram::RecordedBytes(), 2 * recorded);
}

TEST(Names, AnUnloadedModelKeepsItsCountsAndBeginsAnew) {
  const auto engine = Made();
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel)).ok());
  ASSERT_EQ(engine->Infer(For(1)).end, State::kSucceeded);
  ASSERT_TRUE(engine->Unload("m").ok());
  ASSERT_EQ(engine->Stats().size(), 1);
  EXPECT_EQ(StatsOf(*engine).ends[EndIndex(State::kSucceeded)], 1);
  EXPECT_EQ(engine->Infer(For(1)).end, State::kRejected);
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel)).ok());
  EXPECT_EQ(StatsOf(*engine).version, 2);
  EXPECT_EQ(StatsOf(*engine).submitted, 2);
}

TEST(Names, VersionsAreToldApart) {
  const auto engine = Made();
  const ModelSource source = SourceOf(kRowsModel);
  for (int version = 1; version <= 6; ++version) {
    ASSERT_TRUE(engine->Load("m", source).ok());
    for (int i = 0; i < version; ++i) ASSERT_EQ(engine->Infer(For(1)).end, State::kSucceeded);
    Request late = For(1);
    late.timeout_ns = -1;
    ASSERT_EQ(engine->Infer(std::move(late)).end, State::kTimedOut);
  }
  const ModelStats stats = StatsOf(*engine);
  ASSERT_EQ(stats.versions.size(), kKeptVersions);
  for (size_t i = 0; i < kKeptVersions; ++i) {
    const VersionStats& v = stats.versions[i];
    EXPECT_EQ(v.version, static_cast<int64_t>(i) + 3);
    EXPECT_EQ(v.device, "reference");
    EXPECT_EQ(v.times.ended(State::kSucceeded), v.version);
    EXPECT_EQ(v.times.ended(State::kTimedOut), 1);
    EXPECT_EQ(v.times.by[EndIndex(State::kSucceeded)][static_cast<size_t>(Phase::kCompute)].count(),
              v.version);
  }
  EXPECT_EQ(stats.times.total.ended(State::kSucceeded), 21);
}

TEST(Names, ALoadThatFailsLeavesNoName) {
  const auto engine = Made();
  EXPECT_FALSE(engine->Load("m", {}).ok());
  EXPECT_THAT(engine->Stats(), IsEmpty());
}

TEST(Names, ARouteMayHaveTheNameOfAnUnloadedModel) {
  const auto engine = Made();
  for (const char* name : {"a", "b", "m"})
    ASSERT_TRUE(engine->Load(name, SourceOf(kRowsModel), Warm()).ok());
  const RoutePolicy policy{SplitRoute{}, {{.model = "a"}, {.model = "b"}}};
  EXPECT_THAT(engine->SetRoute("m", policy).message(), HasSubstr("a model has this name"));
  ASSERT_TRUE(engine->Unload("m").ok());
  EXPECT_THAT(engine->SetRoute("m", policy).message(), IsEmpty());
  EXPECT_EQ(engine->Infer(For(1)).end, State::kSucceeded);
  EXPECT_THAT(engine->Load("m", SourceOf(kRowsModel)).message(), HasSubstr("a route"));
}

TEST(Names, AVariantIsReplacedByItsLikeOnly) {
  const auto engine = Made();
  for (const char* name : {"a", "b"})
    ASSERT_TRUE(engine->Load(name, SourceOf(kRowsModel), Warm()).ok());
  ASSERT_TRUE(engine->SetRoute("m", {SplitRoute{}, {{.model = "a"}, {.model = "b"}}}).ok());
  EXPECT_THAT(
      engine->Load("b", SourceOf(kOtherModel), {.warm_inputs = {Tensor::Int64s({1})}}).message(),
      HasSubstr("route 'm'"));
  EXPECT_THAT(engine->Load("b", SourceOf(kRowsModel)).message(), HasSubstr("warm_inputs"))
      << "nobody would warm it: the route would never pick it again";
  EXPECT_THAT(engine->Load("b", SourceOf(kRowsModel), Warm()).message(), IsEmpty());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(engine->Infer(For(1)).end, State::kSucceeded);
  ASSERT_TRUE(engine->RemoveRoute("m").ok());
  EXPECT_TRUE(engine->Load("b", SourceOf(kOtherModel)).ok());
}

TEST(Names, AShadowThatWasUnloadedIsOneWhenItComesBack) {
  const auto engine = Made();
  const ModelSource source = SourceOf(kRowsModel);
  for (const char* name : {"a", "b"}) ASSERT_TRUE(engine->Load(name, source, Warm()).ok());
  ASSERT_TRUE(engine->SetRoute("m", {ShadowRoute{}, {{.model = "a"}, {.model = "b"}}}).ok());
  ASSERT_TRUE(engine->Unload("b").ok());
  for (size_t i = 0; i <= kMostUnloaded; ++i) {
    const std::string name = "other" + std::to_string(i);
    ASSERT_TRUE(engine->Load(name, source).ok());
    ASSERT_TRUE(engine->Unload(name).ok());
  }
  ASSERT_TRUE(engine->Load("b", source, Warm()).ok());
  Request own = For(1);
  own.model = "b";
  EXPECT_THAT(engine->Infer(std::move(own)).status.message(), HasSubstr("is a shadow"));
}

}  // namespace
}  // namespace infer::engine
