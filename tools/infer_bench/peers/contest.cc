#include "tools/infer_bench/peers/contest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "lib/support/random.h"
#include "lib/support/statistics.h"
#include "lib/support/strings.h"
#include "tools/common/host.h"
#include "tools/infer_bench/peers/machine.h"

namespace infer::peers {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMaxBlockRuns = 20'000;
constexpr int64_t kKeptSamples = 1000;  // of one block
constexpr double kWindowSeconds = 0.02;
constexpr double kSettleSeconds = 0.01;
/// Threads that spin after a run go to sleep: those of ONNX Runtime 1.30 after 30 ms, and whoever
/// is measured meanwhile has a processor less.
constexpr auto kPause = std::chrono::milliseconds(50);

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int64_t RunsFor(double seconds, double run_ms, int64_t least, int64_t most) {
  const double runs = std::ceil(1000 * seconds / std::max(run_ms, 1e-6));
  return static_cast<int64_t>(
      std::clamp(runs, static_cast<double>(least), static_cast<double>(most)));
}

/// Times of `count` runs in milliseconds; empty where the contender was dropped.
Result<std::vector<double>> TimedRuns(Contender& c, int64_t settle, int64_t count,
                                      const ContestOptions& options) {
  INFER_ASSIGN(const Json answer,
               c.Ask({{"op", "run"}, {"settle", settle}, {"count", count}}, options));
  std::vector<double> ms;
  c.undisturbed_ms.clear();
  if (answer.is_null()) return ms;
  const auto read = [&](const char* key, std::vector<double>& to) {
    for (const Json& ns : answer.value(key, Json::array()))
      if (ns.is_number() && ns.get<double>() >= 0) to.push_back(ns.get<double>() / 1e6);
  };
  read("ns", ms);
  read("undisturbed_ns", c.undisturbed_ms);
  if (c.undisturbed_ms.size() != ms.size()) c.undisturbed_ms.clear();
  if (static_cast<int64_t>(ms.size()) == count) return ms;
  c.Drop(Cat("asked for ", count, " times it gave ", ms.size()));
  return std::vector<double>();
}

double CpuSecondsOf(const std::vector<Contender>& contenders) {
  double sum = 0;
  for (const Contender& c : contenders) sum += c.worker ? c.worker->CpuSeconds() : 0;
  return sum;
}

/// By what a worker said when it had loaded the model.
bool RunsOnDevice(const Json& loaded) {
  const Json settings = loaded.value("settings", Json::object());
  const std::string on = settings.is_object() ? settings.value("device", "") : "";
  return !on.empty() && on != "cpu" && on != "reference";
}

void Keep(const std::vector<double>& block, std::vector<double>& samples) {
  const auto n = static_cast<int64_t>(block.size());
  const int64_t stride = (n + kKeptSamples - 1) / kKeptSamples;
  for (int64_t i = 0; i < n; i += stride) samples.push_back(block[static_cast<size_t>(i)]);
}

}  // namespace

void Contender::Drop(std::string why) {
  failure = std::move(why);
  worker.reset();
}

Result<Json> Contender::Ask(const Json& request, const ContestOptions& options) {
  auto answer = worker->Ask(request, options.timeout_s, options.stop);
  if (answer.ok()) return answer;
  if (answer.status().code() == Code::kCancelled) return answer.status();
  Drop(answer.status().message());
  return Json();
}

Status Enter(Contender& c, const EngineSpec& engine, const Json& load, const std::vector<int>& cpus,
             const std::string& log, const ContestOptions& options) {
  if (!c.failure.empty()) return {};
  auto worker = Worker::Start({engine.argv, engine.environment, cpus, log});
  if (!worker.ok()) {
    c.Drop(worker.status().message());
    return {};
  }
  c.worker = *std::move(worker);
  INFER_ASSIGN(const Json hello, c.Ask({{"op", "hello"}}, options));
  if (hello.is_null()) return {};
  std::this_thread::sleep_for(kPause);
  INFER_ASSIGN(const Json loaded, c.Ask(load, options));
  if (loaded.is_null()) return {};
  for (const auto& [key, times] : {std::pair("load_ms", &c.load_ms), {"first_ms", &c.first_ms}}) {
    if (!loaded.contains(key) || !loaded[key].is_number() || loaded[key].get<double>() < 0) {
      c.Drop(Cat("its answer to load has no ", key));
      return {};
    }
    times->push_back(loaded[key].get<double>());
  }
  c.loaded = loaded;
  return {};
}

Status WarmUp(Contender& c, const std::vector<int>& cpus, const ContestOptions& options) {
  if (!c.takes_part()) return {};
  double run_ms = c.first_ms.back();
  const auto start = Clock::now();
  std::vector<double> last;
  ++c.warmup_runs;
  bool stable = false;
  do {
    const int64_t count = RunsFor(kWindowSeconds, run_ms, options.min_runs, kMaxBlockRuns);
    INFER_ASSIGN(const auto ms, TimedRuns(c, 0, count, options));
    if (ms.empty()) return {};
    c.warmup_runs += count;
    const double median = Quantile(ms, 0.5);
    stable = !last.empty() && std::abs(median - run_ms) <= 0.02 * run_ms;
    run_ms = median;
    last = ms;
  } while (!stable && SecondsSince(start) < options.warmup_s);
  c.stable = c.stable && stable;
  c.run_ms = run_ms;
  c.block_runs = RunsFor(options.block_s, run_ms, options.min_runs, kMaxBlockRuns);
  c.settle_runs = RunsFor(kSettleSeconds, run_ms, 1, kMaxBlockRuns);
  if (RunsOnDevice(c.loaded))
    for (std::string& name : c.worker->BringBack(cpus)) c.brought_back.insert(std::move(name));
  if (!c.worker->StaysOn(cpus)) c.Drop("its threads left the processors that it was pinned to");
  return {};
}

Result<Round> RunRound(std::vector<Contender>& contenders, Random& random,
                       const ContestOptions& options, std::vector<std::vector<double>>& blocks) {
  Round r;
  r.order.resize(contenders.size());
  std::iota(r.order.begin(), r.order.end(), size_t{0});
  for (size_t i = r.order.size(); i > 1; --i)
    std::swap(r.order[i - 1], r.order[random.Below(static_cast<uint32_t>(i))]);
  r.median_ms.assign(contenders.size(), std::numeric_limits<double>::quiet_NaN());
  blocks.assign(contenders.size(), {});
  const auto start = Clock::now();
  const double busy = GetMachineSeconds().busy, own = OwnCpuSeconds();
  const double workers = CpuSecondsOf(contenders);
  double waiting = 0;
  for (size_t i : r.order) {
    Contender& c = contenders[i];
    if (!c.takes_part()) continue;
    std::this_thread::sleep_for(kPause);
    const double all = CpuSecondsOf(contenders), its = c.worker->CpuSeconds();
    INFER_ASSIGN(blocks[i], TimedRuns(c, c.settle_runs, c.block_runs, options));
    if (blocks[i].empty()) continue;
    r.median_ms[i] = Quantile(blocks[i], 0.5);
    waiting += std::max(0.0, CpuSecondsOf(contenders) - all - (c.worker->CpuSeconds() - its));
  }
  r.seconds = SecondsSince(start);
  const double ours = CpuSecondsOf(contenders) - workers + OwnCpuSeconds() - own;
  if (busy >= 0) r.other_load = std::max(0.0, GetMachineSeconds().busy - busy - ours) / r.seconds;
  r.waiting_load = waiting / r.seconds;
  r.quiet = r.other_load + r.waiting_load <= options.max_other_load;
  return r;
}

double ContestResult::other_load() const {
  double seconds = 0, used = 0;
  for (const Round& r : rounds) {
    seconds += r.seconds;
    used += (r.other_load + r.waiting_load) * r.seconds;
  }
  return seconds > 0 ? used / seconds : 0;
}

Status Compete(std::vector<Contender>& contenders, const ContestOptions& options, int start,
               Random& random, ContestResult& result,
               const std::function<void(int64_t, int64_t)>& after_each) {
  const auto share = [&](int64_t n) { return n * (start + 1) / options.starts; };
  result.load_known = GetMachineSeconds().busy >= 0;
  std::vector<std::vector<double>> blocks;
  const auto some = [&] {
    return std::any_of(contenders.begin(), contenders.end(),
                       [](const Contender& c) { return c.takes_part(); });
  };
  while (some() && result.quiet_rounds < share(options.rounds) &&
         static_cast<int64_t>(result.rounds.size()) < share(options.max_rounds)) {
    if (options.stop.stop_requested()) return Cancelled("interrupted");
    INFER_ASSIGN(Round r, RunRound(contenders, random, options, blocks));
    r.start = start;
    result.quiet_rounds += r.quiet;
    for (size_t i = 0; r.quiet && i < blocks.size(); ++i) Keep(blocks[i], contenders[i].samples_ms);
    result.rounds.push_back(std::move(r));
    after_each(result.quiet_rounds, options.rounds);
  }
  return {};
}

}  // namespace infer::peers
