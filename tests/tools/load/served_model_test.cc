#include "tools/infer_bench/load/served_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/engine/hooked_program.h"
#include "tools/infer_bench/load/drive.h"
#include "tools/infer_bench/load/fault_text.h"

namespace infer::bench {
namespace {

using engine::Filled;
using engine::SourceOf;

std::unique_ptr<ServedModel> Served(const ServeOptions& options, engine::ModelSource source,
                                    int64_t batch = 1) {
  auto served = ServedModel::Make({.names = {"m"}, .sources = {std::move(source)}},
                                  {Filled(1, batch)}, batch, 2, options, 1, {});
  EXPECT_TRUE(served.ok()) << served.status().message();
  return *std::move(served);
}

TEST(ServedModel, TellsPhasesAndBatchesOfWhatWasMeasured) {
  const auto served = Served({.engine = true, .max_batch = 4, .priorities = {"1", "0", "1"}},
                             SourceOf(engine::kRowsModel));
  (void)*Drive(*served, {.duration_s = 0, .min_queries = 7});
  ASSERT_TRUE(served->BeginMeasuring().ok());
  const LoadResult r = *Drive(*served, {.concurrency = 16, .duration_s = 0, .min_queries = 500});
  EXPECT_EQ(r.answered, r.issued);
  EXPECT_EQ(r.service.count(), r.issued);
  const Json j = served->StatsJson();
  EXPECT_EQ(j["ends"]["succeeded"], r.issued);
  EXPECT_EQ(j["phases_ms"]["total"]["count"], r.issued);
  int64_t rows = 0, runs = 0;
  for (const Json& b : j["batch_rows"]) {
    EXPECT_LE(b["rows"], 4);
    rows += b["rows"].get<int64_t>() * b["runs"].get<int64_t>();
    runs += b["runs"].get<int64_t>();
  }
  EXPECT_EQ(rows, r.issued);
  EXPECT_EQ(runs, j["runs"]);
  EXPECT_LT(runs, r.issued) << "sixteen queries on two instances share runs";
  EXPECT_GT(j["priorities"][0]["total_ms"]["count"], 0);
  EXPECT_EQ(j["priorities"][1]["total_ms"]["count"], 0);
  EXPECT_GT(j["priorities"][2]["total_ms"]["count"], 0);
  EXPECT_THAT(served->StatsTable(), ::testing::HasSubstr("total, low priority"));
}

TEST(ServedModel, AQueryOfManySamplesIsSeveralRequests) {
  const auto served = Served({.engine = true}, SourceOf(engine::kRowsModel), 4);
  ASSERT_TRUE(served->BeginMeasuring().ok());
  const LoadResult r =
      *Drive(*served, {.samples_per_query = 37, .duration_s = 0, .max_queries = 1});
  EXPECT_EQ(r.answered, 1);
  EXPECT_EQ(served->StatsJson()["ends"]["succeeded"], 10);  // ceil(37 / 4)
}

TEST(ServedModel, AQueryThatIsLateIsAnswered) {
  const auto hook = [](const auto&, const RunOptions& o) {
    while (o.stop.stop_possible() && !o.stop.stop_requested())
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    return o.stop.stop_requested() ? Cancelled("the run was stopped") : Status();
  };
  const auto served =
      Served({.engine = true, .deadline_ms = 1}, SourceOf(engine::kRowsModel, hook));
  EXPECT_EQ(Drive(*served, {.duration_s = 0, .min_queries = 3})->answered, 3);
  EXPECT_EQ(served->StatsJson()["ends"]["timed out"], 3);
}

TEST(ServedModel, VariantsOfARouteAreToldApart) {
  engine::SplitRoute split{.salt = "s", .experiment = engine::ExperimentRules{}};
  ServedVariants variants{
      .names = {"a", "b"},
      .sources = {SourceOf(engine::kRowsModel), SourceOf(engine::kRowsModel)},
      .route = engine::RoutePolicy{split, {{.model = "a"}, {.model = "b", .weight = 3}}}};
  const auto served = *ServedModel::Make(std::move(variants), {Filled(1)}, 1, 2,
                                         {.engine = true, .route = "r", .keys = 100}, 1, {});
  (void)*Drive(*served, {.duration_s = 0, .min_queries = 7});
  ASSERT_TRUE(served->BeginMeasuring().ok());
  const LoadResult r = *Drive(*served, {.concurrency = 4, .duration_s = 0, .min_queries = 500});
  const Json j = served->StatsJson(), &route = j["route"];
  EXPECT_EQ(route["mode"], "split");
  EXPECT_EQ(route["submitted"], r.issued);
  int64_t sent = 0;
  for (const Json& v : route["variants"]) {
    EXPECT_EQ(v["ends"]["succeeded"], v["sent"]);
    EXPECT_EQ(v["total_ms"]["count"], v["sent"]);
    sent += v["sent"].get<int64_t>();
  }
  EXPECT_EQ(sent, r.issued);
  EXPECT_EQ(route["variants"][1]["share"], 0.75);
  EXPECT_EQ(route["experiment"]["verdict"], "open");
  EXPECT_EQ(route["experiment"]["trials"][0]["count"], route["variants"][0]["sent"]);
  EXPECT_EQ(j["ends"]["succeeded"], r.issued) << "of both models";
  const Json& cells = j["matrix"]["cells"];
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0]["variant"], "a");
  EXPECT_EQ(cells[1]["ended"], route["variants"][1]["sent"]);
  EXPECT_EQ(cells[1]["success_rate"], 1);
  EXPECT_TRUE(cells[1]["correlation"]["bytes"].is_null()) << "all are alike";
  EXPECT_TRUE(cells[1]["correlation"]["load"].is_object());
  EXPECT_TRUE(j["matrix"]["device_share"].is_null()) << "one device";
  EXPECT_THAT(served->StatsTable(), ::testing::HasSubstr("route split"));
}

TEST(ServedModel, ModelsBesideEachOtherAreToldApart) {
  ServedVariants models{.names = {"a", "b", "c"},
                        .sources = {SourceOf(engine::kRowsModel), SourceOf(engine::kRowsModel),
                                    SourceOf(engine::kRowsModel)},
                        .mix = {{.share = 0.25, .inputs = {Filled(1)}},
                                {.share = 0.7, .inputs = {Filled(2, 4)}, .batch = 4},
                                {.share = 0.05, .inputs = {Filled(3)}}}};
  models.sources[2].axes = {.proved = false, .reason = "it counts its rows"};
  const auto served = *ServedModel::Make(
      std::move(models), {}, 1, 2, {.engine = true, .max_batch = 8, .also = {"b", "c"}}, 1, {});
  (void)*Drive(*served, {.duration_s = 0, .min_queries = 20});
  ASSERT_TRUE(served->BeginMeasuring().ok());
  const LoadResult r = *Drive(*served, {.concurrency = 32,
                                        .samples_per_query = 4,
                                        .duration_s = 0,
                                        .min_queries = 1000,
                                        .max_queries = 1000});
  EXPECT_EQ(r.answered, 1000);
  const Json j = served->StatsJson(), &models_json = j["models"];
  ASSERT_EQ(models_json.size(), 3u);
  int64_t submitted = 0, queries = 0;
  for (const Json& m : models_json) {
    EXPECT_EQ(m["ends"]["succeeded"], m["submitted"]);
    EXPECT_EQ(m["phases_ms"]["total"]["count"], m["submitted"]);
    EXPECT_GT(m["answered_per_s"], 0);
    submitted += m["submitted"].get<int64_t>();
    queries += m["submitted"].get<int64_t>() * m["batch"].get<int64_t>() / 4;
  }
  EXPECT_EQ(j["ends"]["succeeded"], submitted) << "counts beside are of all models";
  EXPECT_EQ(queries, 1000) << "a query of four samples is one request of b, four of the others";
  EXPECT_NEAR(models_json[1]["submitted"].get<double>() / 1000, 0.7, 0.06);
  EXPECT_NEAR(models_json[0]["submitted"].get<double>() / 4000, 0.25, 0.06);
  EXPECT_LT(models_json[0]["runs"], models_json[0]["submitted"]) << "requests of a share runs";
  EXPECT_EQ(models_json[2]["runs"], models_json[2]["submitted"]) << "those of c may not";
  EXPECT_EQ(models_json[2]["unbatchable"], "it counts its rows");
  EXPECT_TRUE(models_json[0]["unbatchable"].is_null());
  EXPECT_THAT(served->StatsTable(), ::testing::HasSubstr("not batched: it counts its rows"));
}

TEST(ServedModel, SharesOfModelsAreRead) {
  const auto refused = [](const ServeOptions& o) { return o.ModelShares().status().message(); };
  EXPECT_THAT(refused({.also = {"b"}}), ::testing::HasSubstr("goes with --engine"));
  EXPECT_THAT(refused({.engine = true, .shares = {"1"}}), ::testing::HasSubstr("--also"));
  EXPECT_THAT(refused({.engine = true, .route = "r", .also = {"b"}}), ::testing::HasSubstr("both"));
  EXPECT_THAT(refused({.engine = true, .pad_to = {"4"}, .also = {"b"}}),
              ::testing::HasSubstr("--pad-to"));
  for (const std::vector<std::string>& shares :
       {std::vector<std::string>{"1"}, {"1", "2", "3"}, {"1", "0"}, {"1", "inf"}, {"1", "x"}})
    EXPECT_THAT(refused({.engine = true, .also = {"b"}, .shares = shares}),
                ::testing::HasSubstr("--shares"));
  EXPECT_EQ(*(ServeOptions{.engine = true, .also = {"b"}, .shares = {"3", "1"}}.ModelShares()),
            (std::vector<double>{0.75, 0.25}));
  EXPECT_EQ(*(ServeOptions{.engine = true, .also = {"b"}}.ModelShares()),
            (std::vector<double>{0.5, 0.5}));
  EXPECT_TRUE(ServeOptions{.engine = true}.ModelShares()->empty());
}

TEST(ServedModel, WhatIsAbandonedIsNotHeardOfAgain) {
  std::atomic<bool> slow{false};
  const auto hook = [&](const auto&, const RunOptions& o) {
    while (slow && !o.stop.stop_requested())
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    return o.stop.stop_requested() ? Cancelled("the run was stopped") : Status();
  };
  const auto served = Served({.engine = true}, SourceOf(engine::kRowsModel, hook));
  slow = true;
  for (int id = 0; id < 5; ++id) served->Submit(id, 1);
  served->Abandon();
  slow = false;
  EXPECT_TRUE(served->Wait(0).empty());
  EXPECT_EQ(Drive(*served, {.duration_s = 0, .min_queries = 5})->answered, 5);
}

TEST(ServedModel, AnswersHandOverTheNextQuery) {
  const auto served = Served({.engine = true}, SourceOf(engine::kRowsModel));
  std::atomic<int64_t> more = 100;
  ASSERT_TRUE(served->FollowAnswers(
      [&] { return more < 103 ? std::optional<int64_t>(more++) : std::nullopt; }, 1));
  served->Submit(0, 1);
  std::vector<int64_t> ids;
  // This thread hands over nothing else, and is woken when the last was not followed.
  while (ids.size() < 4)
    for (const Done& d : served->Wait(served->NowMs() + 1e5)) ids.push_back(d.id);
  EXPECT_THAT(ids, ::testing::ElementsAre(0, 100, 101, 102));
  const LoadResult r =
      *Drive(*served, {.concurrency = 3, .duration_s = 100, .max_queries = 200, .drain_s = 100});
  EXPECT_EQ(r.issued, 200);
  EXPECT_EQ(r.answered, 200);
  EXPECT_EQ(r.ended, "max queries");
}

TEST(ServedModel, PlannedFaultsAreAnswersAndAreCounted) {
  const auto served = Served({.engine = true, .faults = {"run:fail:10%", "bind:throw:0.1"}},
                             SourceOf(engine::kRowsModel));
  EXPECT_EQ(Drive(*served, {.duration_s = 0, .min_queries = 50})->answered, 50);
  ASSERT_TRUE(served->BeginMeasuring().ok());
  const LoadResult r = *Drive(*served, {.concurrency = 4, .duration_s = 0, .min_queries = 500});
  EXPECT_EQ(r.answered, r.issued);
  const Json j = served->StatsJson(), &faults = j["faults"];
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_EQ(faults[1]["visits"], r.issued) << "one run, one input each; none in the warm-up";
  EXPECT_GT(faults[0]["met"], 10);
  const int64_t failed = j["ends"]["failed"];
  EXPECT_EQ(failed, faults[0]["met"].get<int64_t>() + faults[1]["met"].get<int64_t>());
  EXPECT_EQ(failed + j["ends"]["succeeded"].get<int64_t>(), r.issued);
  EXPECT_THAT(served->StatsTable(), ::testing::HasSubstr("planned: run fail, 10 %"));
}

TEST(Faults, AreReadFromText) {
  const auto plan = *ParseFaults({"run:delay:5%:20ms", "answer:throw:0.25"}, 3);
  ASSERT_EQ(plan.faults.size(), 2u);
  EXPECT_EQ(plan.seed, 3);
  EXPECT_EQ(plan.faults[0].kind, engine::FaultKind::kDelay);
  EXPECT_EQ(plan.faults[0].rate, 0.05);
  EXPECT_EQ(plan.faults[0].delay_ns, 20'000'000);
  EXPECT_EQ(plan.faults[1].site, engine::FaultSite::kAnswer);
  EXPECT_EQ(plan.faults[1].rate, 0.25);
  for (const auto& [text, why] :
       std::map<std::string, std::string>{{"run", "SITE:KIND:RATE"},
                                          {"load:fail:0.1", "site"},
                                          {"run:explode:0.1", "kind"},
                                          {"run:fail:2", "rate"},
                                          {"run:fail:nan", "rate"},
                                          {"run:fail:101%", "rate"},
                                          {"run:delay:0.1", "has a time"},
                                          {"run:fail:0.1:1ms", "has a time"},
                                          {"run:delay:0.1:20", "like 20ms"},
                                          {"run:delay:0.1:-1s", "like 20ms"},
                                          {"run:delay:0.1:1e9s", "like 20ms"}})
    EXPECT_THAT(std::string(ParseFaults({text}, 0).status().message()), ::testing::HasSubstr(why))
        << text;
}

TEST(ServedModel, SettingsThatDoNotGoTogetherAreRefused) {
  const auto refused = [](const ServeOptions& o) { return o.Shares().status().message(); };
  EXPECT_THAT(refused({.max_batch = 2}), ::testing::HasSubstr("go with --engine"));
  EXPECT_THAT(refused({.faults = {"run:fail:1"}}), ::testing::HasSubstr("go with --engine"));
  EXPECT_THAT(refused({.engine = true, .batch_delay_ms = 1}), ::testing::HasSubstr("--max-batch"));
  EXPECT_THAT(refused({.engine = true, .priorities = {"1", "2"}}),
              ::testing::HasSubstr("three shares"));
  EXPECT_THAT(refused({.engine = true, .priorities = {"0", "0", "0"}}),
              ::testing::HasSubstr("above 0"));
  EXPECT_EQ((*ServeOptions{.engine = true, .priorities = {"1", "2", "1"}}.Shares())[1], 0.5);
}

}  // namespace
}  // namespace infer::bench
