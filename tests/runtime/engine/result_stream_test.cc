/// Results as they finish.
#include "runtime/engine/result_stream.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

/// `count` requests that hold their positions; `given`: how many were asked for.
ResultStream::Source Numbered(int64_t count, int64_t* given) {
  return [count, given]() -> std::optional<Request> {
    if (*given == count) return std::nullopt;
    return Request{.model = "m", .inputs = {Filled(static_cast<float>((*given)++))}};
  };
}

std::unique_ptr<Engine> Serving(RunHook hook = {}) {
  auto engine = *Engine::Make({.threads = 2});
  const Status s = engine->Load("m", SourceOf(kRowsModel, std::move(hook)), {.instances = 2});
  EXPECT_TRUE(s.ok()) << s.message();
  return engine;
}

TEST(ResultStream, GivesEveryResultOnceAndNoMoreThanTheWindowWaits) {
  const auto engine = Serving();
  int64_t given = 0;
  ResultStream stream(*engine, Numbered(1000, &given), 16);
  std::set<int64_t> seen;
  while (const auto r = stream.Next()) {
    EXPECT_TRUE(seen.insert(r->index).second);
    EXPECT_EQ(FirstOf(r->outcome), 2 * static_cast<float>(r->index));
    EXPECT_LE(given - static_cast<int64_t>(seen.size()), 16) << "the reader holds them back";
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_FALSE(stream.Next());
}

TEST(ResultStream, ResultsComeAsTheyFinish) {
  std::atomic<bool> open{false};
  const auto engine = Serving([&](const std::vector<Datum>& in, const RunOptions&) {
    while (in[0].tensor().At(0) == 0 && !open)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    return Status();
  });
  int64_t given = 0;
  ResultStream stream(*engine, Numbered(5, &given), 5);
  for (int i = 0; i < 4; ++i) EXPECT_GT(stream.Next()->index, 0) << "the first still runs";
  open = true;
  EXPECT_EQ(stream.Next()->index, 0);
}

TEST(ResultStream, UnreadResultsOutliveADrain) {
  const auto engine = Serving();
  int64_t given = 0;
  ResultStream stream(*engine, Numbered(20, &given), 8);
  int64_t succeeded = stream.Next()->outcome.end == State::kSucceeded ? 1 : 0, rejected = 0;
  engine->Drain();
  while (const auto r = stream.Next()) {
    succeeded += r->outcome.end == State::kSucceeded ? 1 : 0;
    rejected += r->outcome.end == State::kRejected ? 1 : 0;
  }
  EXPECT_EQ(succeeded, 8) << "what was submitted before";
  EXPECT_EQ(rejected, 12);
}

TEST(ResultStream, ADroppedStreamCancels) {
  const auto engine = Serving([](const auto&, const RunOptions& o) {
    while (!o.stop.stop_requested()) std::this_thread::sleep_for(std::chrono::microseconds(50));
    return Cancelled("the run was stopped");
  });
  std::stop_source own;
  int64_t given = 0;
  const auto next = Numbered(3, &given);
  {
    ResultStream stream(
        *engine,
        [&] {
          auto r = next();
          if (r && given == 1) r->stop = own.get_token();
          return r;
        },
        3);
    own.request_stop();
    EXPECT_EQ(stream.Next()->index, 0) << "its own token is looked at";
  }
  engine->Drain();
  EXPECT_EQ(engine->Stats()[0].ends[EndIndex(State::kCancelled)], 3);
}

}  // namespace
}  // namespace infer::engine
