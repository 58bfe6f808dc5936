#include "tools/infer_bench/compare/live.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "lib/support/measure.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tools/common/pinning.h"
#include "tools/common/self.h"
#include "tools/engines/wire.h"
#include "tools/infer_bench/peers/infer_worker.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

constexpr char kSideName[] = {'A', 'B'};
/// Blocks of equal length are as lucky with their fastest run; sides further apart than this need
/// no such care.
constexpr double kAlike = 2;
/// Large models: few runs in a block, few blocks in a start, so that the budget holds several
/// starts.
constexpr int64_t kLeastRuns = 2;
constexpr int kLeastRounds = 4;
constexpr double kStartsInBudget = 8;
constexpr double kTimedShare = 0.5;  // of the time until a start's first block, at least
/// A suspicion may be followed up for so many budgets in all, and so may the first starts take,
/// without which nothing could be decided.
constexpr double kConfirmingBudgets = 2;
constexpr double kFirstBudgets = 6;

Result<Json> LoadRequest(const CompareSide& side, const peers::PreparedModel& prepared,
                         const std::string& folder, const LiveOptions& options) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return IoError(Cat(folder, ": ", error.message()));
  const Graph& g = prepared.model.graph;
  Json inputs = Json::array();
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    INFER_ASSIGN(Json described,
                 peers::WriteTensor(prepared.inputs.values[i].tensor(), g.inputs()[i]->name(),
                                    Cat(folder, "/input_", i, ".raw")));
    inputs.push_back(std::move(described));
  }
  const auto level = std::find(kLevelNames.begin(), kLevelNames.end(), side.rewrites);
  std::error_code no_folder;
  const fs::path whole = fs::absolute(side.model, no_folder);
  if (no_folder) return IoError(Cat(side.model, ": ", no_folder.message()));
  return Json{{"op", "load"},
              {"model", whole.string()},
              {"threads", side.device.threads},
              {"inputs", std::move(inputs)},
              {"outputs", Json::array()},
              {"symbols", prepared.symbols},
              {"external_root", options.external_root},
              {"lenient", options.lenient},
              {"infer",
               {{"device", side.device.device},
                {"level", side.device.level},
                {"compute", side.device.compute},
                {"memory", side.device.memory},
                {"rewrites", level - kLevelNames.begin()}}}};
}

Result<peers::EngineSpec> EngineOf(const CompareSide& side, char name) {
  std::string binary = side.binary;
  if (binary.empty()) {
    INFER_ASSIGN(binary, SelfPath());
  }
  return peers::EngineSpec{
      std::string(1, name), {binary, peers::kWorkerArgument}, side.environment};
}

double Fastest(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

double MedianOf(const std::vector<double>& values) { return Quantile(values, 0.5); }

class LiveRun {
 public:
  LiveRun(std::vector<peers::EngineSpec> engines, std::vector<Json> loads, std::string folder,
          const LiveOptions& options)
      : engines_(std::move(engines)),
        loads_(std::move(loads)),
        folder_(std::move(folder)),
        random_(options.seed),
        rounds_(options.rounds) {
    contest_.block_s = options.block_s;
    contest_.warmup_s = options.warmup_s;
    contest_.timeout_s = options.timeout_s;
    contest_.stop = options.stop;
    contest_.min_runs = kLeastRuns;
    start_s_ = options.budget_s / kStartsInBudget;
  }

  Result<StartRecord> Start(LiveComparison& live) {
    const auto began = std::chrono::steady_clock::now();
    std::vector<peers::Contender> sides(2);
    for (size_t k : {0, 1}) {
      sides[k].name = engines_[k].name;
      INFER_TRY(peers::Enter(sides[k], engines_[k], loads_[k], live.cpus,
                             Cat(folder_, "/", engines_[k].name, ".log"), contest_));
      INFER_TRY(Check(sides[k]));
    }
    for (size_t k : {0, 1}) {
      INFER_TRY(peers::WarmUp(sides[k], live.cpus, contest_));
      INFER_TRY(Check(sides[k]));
      live.brought_back[k].merge(sides[k].brought_back);
    }
    EvenOut(sides[0], sides[1]);
    StartRecord record;
    std::vector<double> fast[2], median[2], log_ratios, median_log_ratios;
    std::vector<std::vector<double>> blocks;
    const double spent = MsSince(began) / 1e3;
    const int rounds = RoundsWithin(std::max(start_s_ - spent, kTimedShare * spent), sides);
    for (int i = 0; i < rounds; ++i) {
      INFER_ASSIGN(const peers::Round r, peers::RunRound(sides, random_, contest_, blocks));
      for (size_t k : {0, 1}) {
        INFER_TRY(Check(sides[k]));
        const auto& undisturbed = sides[k].undisturbed_ms;
        fast[k].push_back(Fastest(undisturbed.empty() ? blocks[k] : undisturbed));
        median[k].push_back(MedianOf(blocks[k]));
        Append(record.samples_ms[k], blocks[k]);
        Append(record.undisturbed_ms[k], undisturbed);
      }
      record.other_load += r.other_load / rounds;
      log_ratios.push_back(std::log(fast[1].back() / fast[0].back()));
      median_log_ratios.push_back(std::log(median[1].back() / median[0].back()));
    }
    record.log_ratio = MedianOf(log_ratios);
    record.median_log_ratio = MedianOf(median_log_ratios);
    for (size_t k : {0, 1}) {
      record.fastest_ms[k] = MedianOf(fast[k]);
      record.median_ms[k] = MedianOf(median[k]);
      record.load_ms[k] = sides[k].load_ms.back();
      record.first_ms[k] = sides[k].first_ms.back();
      record.runs_of_block[k] = sides[k].block_runs;
    }
    if (!std::isfinite(record.log_ratio))
      return Unsupported("a run took no time that the clock shows");
    return record;
  }

 private:
  static Status Check(const peers::Contender& c) {
    if (c.takes_part()) return {};
    return InvalidArgument(Cat("side ", c.name, ": ", c.failure));
  }

  static void EvenOut(peers::Contender& a, peers::Contender& b) {
    const auto [less, more] = std::minmax(a.block_runs, b.block_runs);
    if (static_cast<double>(more) <= kAlike * static_cast<double>(less))
      a.block_runs = b.block_runs = more;
  }

  /// So many rounds take about `seconds`: at most what was asked for, and at least four of them.
  int RoundsWithin(double seconds, const std::vector<peers::Contender>& sides) const {
    double round_ms = 0;
    for (const peers::Contender& c : sides)
      round_ms += static_cast<double>(c.settle_runs + c.block_runs) * c.run_ms;
    const double fit = std::max(0.0, seconds * 1e3 / std::max(round_ms, 1e-6));
    const int least = std::min(rounds_, kLeastRounds);
    return fit >= rounds_ ? rounds_ : std::max(least, static_cast<int>(fit));
  }

  static void Append(std::vector<double>& all, const std::vector<double>& more) {
    all.insert(all.end(), more.begin(), more.end());
  }

  std::vector<peers::EngineSpec> engines_;
  std::vector<Json> loads_;
  std::string folder_;
  peers::ContestOptions contest_;
  Random random_;
  int rounds_;
  double start_s_ = 0;
};

}  // namespace

double LimitOf(const Decision& decision, double budget_s) {
  if (decision.starts() < DecisionOptions::kLeastMaxStarts) return budget_s * kFirstBudgets;
  return budget_s * (decision.suspecting() ? kConfirmingBudgets : 1);
}

Result<LiveComparison> CompareLive(const CompareSide (&sides)[2],
                                   const std::vector<peers::PreparedModel>& inputs,
                                   const std::string& folder, const LiveOptions& options,
                                   Decision& decision,
                                   const std::function<void(double)>& after_each) {
  LiveComparison live;
  INFER_ASSIGN(live.cpus, FirstCpus(std::max(sides[0].device.threads, sides[1].device.threads)));
  std::vector<peers::EngineSpec> engines;
  std::vector<Json> loads;
  for (size_t k : {0, 1}) {
    INFER_ASSIGN(auto engine, EngineOf(sides[k], kSideName[k]));
    engines.push_back(std::move(engine));
    INFER_ASSIGN(auto load,
                 LoadRequest(sides[k], inputs[k], Cat(folder, "/", kSideName[k]), options));
    loads.push_back(std::move(load));
  }
  LiveRun run(std::move(engines), std::move(loads), folder, options);
  const auto began = std::chrono::steady_clock::now();
  double longest = 0;
  while (!decision.exhausted()) {
    const double before = MsSince(began) / 1e3;
    if (!live.starts.empty() && before + longest > LimitOf(decision, options.budget_s)) break;
    auto start = run.Start(live);
    if (!start.ok() && start.status().code() == Code::kCancelled) {
      live.interrupted = true;
      break;
    }
    if (!start.ok()) return start.status();
    decision.Add(start->log_ratio);
    live.starts.push_back(*std::move(start));
    live.seconds = MsSince(began) / 1e3;
    longest = std::max(longest, live.seconds - before);
    after_each(live.seconds);
  }
  return live;
}

}  // namespace infer
