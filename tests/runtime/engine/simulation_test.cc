/// The engine in virtual time against the same rules written down plainly (plain_model.h): random
/// loads of several models, shapes, priorities, deadlines, cancellations and failing requests.
/// INFER_ENGINE_SEEDS: how many; INFER_ENGINE_FIRST_SEED replays one.
#include "runtime/engine/simulation.h"

#include <gtest/gtest.h>

#include "lib/support/hash.h"
#include "lib/support/strings.h"
#include "tests/runtime/engine/from_environment.h"
#include "tests/runtime/engine/hooked_program.h"
#include "tests/runtime/engine/plain_model.h"

namespace infer::engine {
namespace {

/// Nanoseconds below a second, so fine that two events hardly ever share a moment.
int64_t Draw(Random& random, double lo_s, double hi_s) {
  return static_cast<int64_t>(
      1e12 * (lo_s + (hi_s - lo_s) * (static_cast<double>(random.NextU64() >> 11) * 0x1p-53)));
}

struct Load {
  std::vector<plain::Model> models = {};
  std::vector<plain::Arrival> arrivals = {};
  int width = 1;
  int64_t ageing_ns = 0;
  int64_t budget = kNever;
  uint64_t seed = 0;

  /// What decides is who is in the run, not when.
  plain::RunFacts RunOf(const std::vector<size_t>& requests) const {
    Hasher h;
    h.Add(seed);
    plain::RunFacts facts;
    for (size_t i : requests) {
      h.Add(i);
      facts.fails |= Fails(i);
    }
    facts.ns = 1 + static_cast<int64_t>(h.value() % 50'000'000'000);
    int64_t rows = 0;
    for (size_t i : requests) rows += arrivals[i].rows;
    if (requests.size() > 1 && rows > models[arrivals[requests[0]].model].sizes.refuses_above)
      facts.fails = facts.for_memory = true;
    return facts;
  }
  bool Fails(size_t i) const { return Hasher().Add(seed).Add(i).value() % 11 == 0; }
};

/// A third of the loads has a budget, a third of their models one of its own.
void DrawMemory(Load& load) {
  Random random(load.seed ^ 0x6d656d6f7279);
  const bool budgeted = random.Below(3) == 0;
  int64_t weights = 0;
  for (plain::Model& m : load.models) {
    m.sizes = {.weights = random.Below(100),
               .fixed = random.Below(50),
               .slope = random.Below(15),
               .steep = random.Below(25)};
    weights += m.sizes.weights;
    if (random.Below(3) == 0) m.sizes.most = m.sizes.weights + random.Below(400);
    if (random.Below(5) == 0) m.sizes.refuses_above = 1 + random.Below(4);
  }
  if (budgeted) load.budget = weights + random.Below(600);
}

Load Drawn(uint64_t seed) {
  Random random(seed);
  Load load{.seed = seed};
  load.width = 1 + static_cast<int>(random.Below(3));
  load.ageing_ns = Draw(random, 0, 0.2);
  for (uint32_t m = 0; m <= random.Below(3); ++m)
    load.models.push_back({.instances = 1 + static_cast<int>(random.Below(2)),
                           .max_requests = 1 + random.Below(12),
                           .max_bytes = 16 * (1 + random.Below(60)),
                           .max_rows = 1 + random.Below(6),
                           .max_delay_ns = random.Below(2) ? Draw(random, 0, 0.08) : 0});
  for (plain::Model& m : load.models) {
    if (m.max_rows == 1) m.max_delay_ns = 0;  // refused: nobody waits for others
    if (m.max_rows > 1 && random.Below(2) == 0)
      m.buckets = random.Below(2) ? std::vector<int64_t>{2} : std::vector<int64_t>{1, 3};
  }
  int64_t now = 0;
  const uint32_t count = 20 + random.Below(60);
  for (uint32_t i = 0; i < count; ++i) {
    now += Draw(random, 0, 0.03) + 1;
    plain::Arrival a{.at_ns = now};
    a.model = random.Below(static_cast<uint32_t>(load.models.size()));
    a.shape = load.models[a.model].max_rows > 1 ? random.Below(4) : 0;
    a.rows = load.models[a.model].max_rows > 1 ? 1 + random.Below(3) : 1;
    a.bytes = 4 * a.rows * (a.shape + 1);
    a.priority = static_cast<int>(random.Below(kPriorities));
    if (random.Below(4) == 0) a.deadline_ns = now + Draw(random, 0.001, 0.2);
    if (random.Below(5) == 0) a.cancel_ns = now + Draw(random, 0.001, 0.2);
    load.arrivals.push_back(a);
  }
  DrawMemory(load);
  return load;
}

struct Told {
  plain::End end;
  int calls = 0;
  std::string message;
};
struct Simulated {
  std::vector<Told> told;
  MemoryStats memory;
  std::vector<plain::Engine::ByMemory> by_memory;
};

/// Tensors hold who they belong to, so that runs know whom they serve.
Simulated Simulate(const Load& load) {
  const auto sim = std::make_shared<Simulation>(load.seed, load.width);
  Simulated all{.told = std::vector<Told>(load.arrivals.size())};
  std::vector<Told>& told = all.told;
  std::vector<std::stop_source> stops(load.arrivals.size());
  const auto hook = [&](const std::vector<Datum>& inputs, const RunOptions&) -> Status {
    const Tensor& t = inputs[0].tensor();
    std::vector<size_t> requests;
    for (int64_t r = 0; r < t.dim(0); ++r) {
      const auto who = static_cast<size_t>(t.At(r * t.dim(1)));
      if (requests.empty() || requests.back() != who) requests.push_back(who);
    }
    const plain::RunFacts facts = load.RunOf(requests);
    sim->Elapse(facts.ns);
    if (facts.for_memory) return ResourceExhausted("no memory");
    return facts.fails ? Internal("poisoned") : Status();
  };
  static const ModelSource source = SourceOf(kRowsModel);
  auto engine = *Engine::Make(
      {.ageing_ns = load.ageing_ns, .memory_bytes = load.budget, .clock = sim, .executor = sim});
  for (size_t m = 0; m < load.models.size(); ++m) {
    const plain::Model& model = load.models[m];
    const auto memory = [sizes = model.sizes](const std::vector<Datum>& inputs) {
      MemoryInfo info{.weight_bytes = sizes.weights};
      if (!inputs.empty())
        info.arena_bytes = sizes.Run(inputs[0].tensor().dim(0), inputs[0].tensor().dim(1));
      return info;
    };
    const Status s = engine->Load(
        Cat("m", m),
        {std::make_shared<HookedProgram>(source.program, hook, memory), source.axes,
         source.padding},
        {.instances = model.instances,
         .memory_bytes = model.sizes.most,
         .queue = {model.max_requests, model.max_bytes},
         .batch = {.max_rows = model.max_rows, .max_delay_ns = model.max_delay_ns},
         .buckets = {.symbol = model.buckets.empty() ? "" : "L", .extents = model.buckets}});
    EXPECT_TRUE(s.ok()) << s.message();
  }
  for (size_t i = 0; i < load.arrivals.size(); ++i) {
    const plain::Arrival& a = load.arrivals[i];
    sim->At(a.at_ns, [&, i, a] {
      engine->Submit(
          {.model = Cat("m", a.model),
           .inputs = {Filled(static_cast<float>(i), a.rows, a.shape + 1)},
           .timeout_ns = a.deadline_ns == kNever ? kNever : a.deadline_ns - a.at_ns,
           .priority = static_cast<Priority>(a.priority),
           .stop = stops[i].get_token()},
          [&, i](Outcome o) {
            ++told[i].calls;
            // Others than the submitter's may come later than they were decided.
            told[i].end = {o.end, load.arrivals[i].at_ns + o.phases.total_ns, o.batch_rows};
            told[i].message = o.status.message();
            if (o.end == State::kSucceeded) {
              EXPECT_EQ(FirstOf(o), 2 * static_cast<float>(i));
              EXPECT_EQ(o.outputs[0].tensor().dims(),
                        (Dims{load.arrivals[i].rows, load.arrivals[i].shape + 1}));
            }
          });
    });
    if (a.cancel_ns != kNever) sim->At(a.cancel_ns, [&, i] { stops[i].request_stop(); });
  }
  sim->RunAll();
  for (const ModelStats& s : engine->Stats()) {
    int64_t ends = 0, batches = 0;
    for (int64_t n : s.ends) ends += n;
    for (int64_t n : s.fired) batches += n;
    EXPECT_EQ(ends, s.submitted);
    EXPECT_EQ(ends, s.times.total.ended());
    EXPECT_EQ(batches, s.runs - s.single[static_cast<size_t>(Single::kRerun)]);
    EXPECT_EQ(s.queue.requests, 0);
    EXPECT_EQ(s.queue.bytes, 0);
    EXPECT_EQ(s.queue.running, 0);
    all.by_memory.push_back({.fired = s.fired[static_cast<size_t>(Fired::kMemory)],
                             .single = s.single[static_cast<size_t>(Single::kMemory)]});
  }
  all.memory = engine->Memory();
  return all;
}

TEST(EngineSimulation, DoesWhatThePlainRulesSay) {
  const int64_t first = FromEnvironment("INFER_ENGINE_FIRST_SEED", 0),
                seeds = FromEnvironment("INFER_ENGINE_SEEDS", 300);
  std::array<int64_t, kEnds> ends = {};
  int64_t by_memory = 0, alone_by_memory = 0;
  for (int64_t seed = first; seed < first + seeds; ++seed) {
    SCOPED_TRACE(Cat("INFER_ENGINE_FIRST_SEED=", seed, " INFER_ENGINE_SEEDS=1"));
    const Load load = Drawn(static_cast<uint64_t>(seed));
    plain::Engine plainly(load.models, load.arrivals, load.width, load.ageing_ns, load.budget,
                          [&](const auto& r) { return load.RunOf(r); });
    const auto want = plainly.Run();
    const Simulated simulated = Simulate(load);
    const std::vector<Told>& got = simulated.told;
    ASSERT_EQ(plainly.memory().over(), 0) << "batches that went over a budget";
    ASSERT_EQ(simulated.memory.used, plainly.memory().Used());
    ASSERT_EQ(simulated.memory.peak, plainly.memory().peak());
    for (size_t m = 0; m < load.models.size(); ++m) {
      const auto &said = simulated.by_memory[m], &counted = plainly.by_memory()[m];
      ASSERT_EQ(said.fired, counted.fired) << "model " << m;
      ASSERT_EQ(said.single, counted.single) << "model " << m;
      by_memory += counted.fired;
      alone_by_memory += counted.single;
    }
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i].calls, 1) << "request " << i;
      ASSERT_EQ(Name(got[i].end.how), Name(want[i].how)) << "request " << i << got[i].message;
      ASSERT_EQ(got[i].end.at_ns, want[i].at_ns) << "request " << i;
      ASSERT_EQ(got[i].end.rows, want[i].rows) << "request " << i;
      ++ends[EndIndex(want[i].how)];
    }
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  if (seeds < 100) return;
  for (int64_t n : ends) EXPECT_GT(n, seeds) << "a kind of end that the loads hardly have";
  EXPECT_GT(by_memory - alone_by_memory, seeds) << "hardly a batch that memory made smaller";
  EXPECT_GT(alone_by_memory, seeds / 2);
}

TEST(EngineSimulation, ASeedReplays) {
  for (uint64_t seed : {5, 6, 7}) {
    const auto a = Simulate(Drawn(seed)), b = Simulate(Drawn(seed));
    for (size_t i = 0; i < a.told.size(); ++i) EXPECT_EQ(a.told[i].end, b.told[i].end);
  }
}

TEST(EngineSimulation, AnUrgentRequestBeginsBesideLessUrgentRuns) {
  constexpr int64_t kShort = 10, kLong = 1000;
  const auto sim = std::make_shared<Simulation>(1, 1);
  auto engine = *Engine::Make({.clock = sim, .executor = sim});
  for (const char* model : {"long", "short"}) {
    const int64_t ns = std::string(model) == "long" ? kLong : kShort;
    const auto hook = [&sim, ns](const auto&, const RunOptions&) {
      sim->Elapse(ns);
      return Status();
    };
    ASSERT_TRUE(engine->Load(model, SourceOf(kRowsModel, hook), {.instances = 3}).ok());
  }
  std::map<std::string, int64_t> ended;
  const auto send = [&](int64_t at, const char* model, Priority p, std::string name) {
    sim->At(at, [&, model, p, name] {
      engine->Submit({.model = model, .inputs = {Filled(1)}, .priority = p},
                     [&, name](Outcome) { ended[name] = sim->NowNs(); });
    });
  };
  send(0, "long", Priority::kLow, "low");
  send(100, "short", Priority::kLow, "second low");
  send(200, "short", Priority::kHigh, "high");
  send(201, "short", Priority::kHigh, "second high");
  send(300, "long", Priority::kNormal, "normal");
  send(400, "short", Priority::kNormal, "second normal");
  send(500, "short", Priority::kHigh, "third high");
  sim->RunAll();
  EXPECT_EQ(ended, (std::map<std::string, int64_t>{{"low", 1000},
                                                   {"high", 210},
                                                   {"second high", 220},
                                                   {"normal", 1300},
                                                   {"third high", 510},
                                                   {"second low", 1320},
                                                   {"second normal", 1310}}))
      << "width 1: one of each priority";
}

/// High priority saturates the one instance; low requests are overtaken only by what came less
/// than twice the ageing after them.
TEST(EngineSimulation, LowPriorityDoesNotStarve) {
  constexpr int64_t kRun = 10'000'000, kAgeing = 50'000'000;
  const auto sim = std::make_shared<Simulation>(1, 1);
  auto engine = *Engine::Make({.ageing_ns = kAgeing, .clock = sim, .executor = sim});
  const auto hook = [&](const auto&, const RunOptions&) {
    sim->Elapse(kRun);
    return Status();
  };
  ASSERT_TRUE(
      engine->Load("m", SourceOf(kRowsModel, hook), {.queue = {.max_requests = 10000}}).ok());
  int64_t worst_low = 0, worst_high = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool low = i % 5 == 4;
    sim->At(i * kRun, [&, low] {
      engine->Submit(
          {.model = "m", .inputs = {Filled(1)}, .priority = low ? Priority::kLow : Priority::kHigh},
          [&, low](Outcome o) {
            int64_t& worst = low ? worst_low : worst_high;
            worst = std::max(worst, o.phases.queue_ns);
          });
    });
  }
  // Load 1 and a backlog of ten from the start.
  for (int i = 0; i < 10; ++i)
    sim->At(1, [&] {
      engine->Submit({.model = "m", .inputs = {Filled(1)}, .priority = Priority::kHigh},
                     [](Outcome) {});
    });
  sim->RunAll();
  // Before it: the backlog and what came before and less than 2 * kAgeing after it.
  EXPECT_LE(worst_low, 2 * kAgeing + 12 * kRun);
  EXPECT_GT(worst_low, worst_high);
}

/// The same where urgent runs may begin beside the low one, of another model: it waits for its turn
/// as long as before, and goes on once it has begun.
TEST(EngineSimulation, LowPriorityDoesNotStarveBesideRunsThatOvertake) {
  constexpr int64_t kRun = 10'000'000, kAgeing = 50'000'000;
  const auto sim = std::make_shared<Simulation>(1, 1);
  auto engine = *Engine::Make({.ageing_ns = kAgeing, .clock = sim, .executor = sim});
  const auto hook = [&](const auto&, const RunOptions&) {
    sim->Elapse(kRun);
    return Status();
  };
  for (const char* model : {"urgent", "patient"})
    ASSERT_TRUE(engine
                    ->Load(model, SourceOf(kRowsModel, hook),
                           {.instances = 2, .queue = {.max_requests = 10000}})
                    .ok());
  int64_t worst = 0, low = 0;
  // Load 1 and a backlog of three, so that an urgent one always waits.
  for (int i = -3; i < 1000; ++i) {
    sim->At(std::max(i, 0) * kRun, [&] {
      engine->Submit({.model = "urgent", .inputs = {Filled(1)}, .priority = Priority::kHigh},
                     [](Outcome) {});
    });
    if (i % 50 != 49) continue;
    sim->At(i * kRun + 1, [&] {
      engine->Submit({.model = "patient", .inputs = {Filled(1)}, .priority = Priority::kLow},
                     [&](Outcome o) {
                       ++low;
                       worst = std::max(worst, o.phases.queue_ns);
                       EXPECT_EQ(o.phases.total_ns, o.phases.queue_ns + kRun);
                     });
    });
  }
  sim->RunAll();
  EXPECT_EQ(low, 20);
  EXPECT_LE(worst, 2 * kAgeing + 6 * kRun);
  EXPECT_GT(worst, kAgeing) << "it was overtaken";
}

}  // namespace
}  // namespace infer::engine
