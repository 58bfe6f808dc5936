#include "tools/common/pair_timing.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "lib/support/measure.h"
#include "lib/support/parallel.h"

namespace infer {
namespace {

constexpr int kWarmUps = 3, kMinPairs = 11, kMaxPairs = 301;
constexpr double kEnoughMs = 1000;

double CpuMs() {
  timespec t = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

/// How often the processor was taken from a thread of this process that wanted to go on.
int64_t Interruptions() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

}  // namespace

PairTimes ComparableTimes(std::span<const RunPair> pairs, int lanes) {
  const auto is_clean = [](const RunPair& p) { return !p.a.interrupted && !p.b.interrupted; };
  const bool enough = std::count_if(pairs.begin(), pairs.end(), is_clean) >= kMinPairs;
  PairTimes times;
  for (const RunPair& p : pairs) {
    if (enough && !is_clean(p)) continue;
    const bool by_cpu = !enough && lanes == 1;
    times.a_ms.push_back(by_cpu ? p.a.cpu_ms : p.a.wall_ms);
    times.b_ms.push_back(by_cpu ? p.b.cpu_ms : p.b.wall_ms);
  }
  return times;
}

Result<PairTiming> TimePair(const Program& a, const Program& b, const std::vector<Datum>& inputs,
                            const std::stop_token& stop) {
  std::array<std::unique_ptr<RunContext>, 2> runs;
  for (size_t which = 0; which < 2; ++which) {
    INFER_ASSIGN(runs[which], (which == 0 ? a : b).NewContext());
    for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(runs[which]->BindInput(i, inputs[i]));
  }
  const auto timed = [&](size_t which) -> Result<TimedRun> {
    const int64_t interruptions = Interruptions();
    const double cpu = CpuMs();
    const auto start = std::chrono::steady_clock::now();
    INFER_TRY(runs[which]->Run({.stop = stop, .leave_resident = true}));
    const double wall = MsSince(start);
    return TimedRun{wall, CpuMs() - cpu, Interruptions() > interruptions};
  };
  for (int i = 0; i < kWarmUps; ++i)
    for (const size_t which : {size_t{0}, size_t{1}}) INFER_TRY(timed(which).status());
  std::vector<RunPair> pairs;
  const auto start = std::chrono::steady_clock::now();
  for (int pair = 0; pair < kMaxPairs; ++pair) {
    if (pair >= kMinPairs && MsSince(start) > kEnoughMs) break;
    // Who goes first alternates: a slow moment hits both alike.
    const bool b_first = pair % 2 == 1;
    INFER_ASSIGN(const TimedRun one, timed(b_first ? 1 : 0));
    INFER_ASSIGN(const TimedRun other, timed(b_first ? 0 : 1));
    pairs.push_back(b_first ? RunPair{other, one} : RunPair{one, other});
  }
  const PairTimes times = ComparableTimes(pairs, LaneBudget());
  std::vector<double> ratios;
  for (size_t i = 0; i < times.a_ms.size(); ++i) ratios.push_back(times.b_ms[i] / times.a_ms[i]);
  return PairTiming{Summarize(times.a_ms), Summarize(times.b_ms), Summarize(ratios),
                    runs[0]->memory(), runs[1]->memory()};
}

Json ToJson(const PairTiming& t, const char* a, const char* b) {
  return {{a, infer::ToJson(t.a)}, {b, infer::ToJson(t.b)}, {"ratio", infer::ToJson(t.ratio)}};
}

Json ToJson(const PairTiming& t) {
  Json j = ToJson(t, "before_ms", "after_ms");
  j["memory"] = {{"before", infer::ToJson(t.memory_a)}, {"after", infer::ToJson(t.memory_b)}};
  return j;
}

}  // namespace infer
