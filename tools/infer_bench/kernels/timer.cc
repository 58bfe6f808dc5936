#include "tools/infer_bench/kernels/timer.h"

#include <benchmark/benchmark.h>

#include <sstream>

namespace infer::bench {
namespace {

using Run = benchmark::BenchmarkReporter::Run;

/// Keeps what the library would print.
class Collector final : public benchmark::BenchmarkReporter {
 public:
  explicit Collector(std::vector<Run>& runs) : runs_(runs) {}
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& report) override {
    runs_.insert(runs_.end(), report.begin(), report.end());
  }

 private:
  std::vector<Run>& runs_;
};

void SetRates(benchmark::State& state, const Cost& cost) {
  using benchmark::Counter;
  if (cost.flops > 0)
    state.counters["FLOPS"] =
        Counter(static_cast<double>(cost.flops), Counter::kIsIterationInvariantRate);
  state.SetBytesProcessed(state.iterations() * (cost.bytes_read + cost.bytes_written));
}

}  // namespace

struct KernelTimer::Kept {
  std::vector<std::vector<Run>> runs;  // by what was timed: repetitions, then aggregates
};

KernelTimer::KernelTimer(const TimerOptions& options)
    : options_(options), kept_(std::make_unique<Kept>()) {}

KernelTimer::~KernelTimer() = default;
KernelTimer::KernelTimer(KernelTimer&&) noexcept = default;

Result<KernelTime> KernelTimer::Time(const std::string& name, const Cost& cost,
                                     const std::function<Status()>& action) {
  Status failure;
  const auto measured = [&](benchmark::State& state) {
    // After a failure it goes on without work: the library's statistics want as many iterations of
    // every repetition, and end the process where one has fewer.
    for (auto _ : state)
      if (failure.ok()) failure = action();
    SetRates(state, cost);
  };
  benchmark::RegisterBenchmark(name.c_str(), measured)
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime()
      ->MinTime(options_.min_time_s)
      ->Repetitions(options_.repetitions);
  std::vector<Run> runs;
  Collector collector(runs);
  benchmark::RunSpecifiedBenchmarks(&collector, ".");
  benchmark::ClearRegisteredBenchmarks();
  INFER_TRY(std::move(failure));
  KernelTime time;
  for (Run& r : runs) {
    // The name as it is: the library adds "/min_time:0.050/repeats:5/real_time".
    r.run_name = benchmark::BenchmarkName();
    r.run_name.function_name = name;
    r.family_index = static_cast<int64_t>(kept_->runs.size());
    if (r.run_type != Run::RT_Iteration) continue;
    time.real_us.push_back(r.GetAdjustedRealTime());
    time.cpu_us.push_back(r.GetAdjustedCPUTime());
    time.iterations = r.iterations;
  }
  INFER_CHECK(!time.real_us.empty());
  kept_->runs.push_back(std::move(runs));
  return time;
}

std::string KernelTimer::Json(
    const std::map<std::string, std::map<std::string, double>>& counters) const {
  std::ostringstream out;
  benchmark::JSONReporter json;
  json.SetOutputStream(&out);
  json.SetErrorStream(&out);
  json.ReportContext(benchmark::BenchmarkReporter::Context());
  for (std::vector<Run> runs : kept_->runs) {
    const auto found = counters.find(runs.front().run_name.function_name);
    if (found == counters.end()) continue;
    for (Run& r : runs)
      for (const auto& [name, value] : found->second)
        if (r.run_type == Run::RT_Iteration) r.counters[name] = benchmark::Counter(value);
    json.ReportRuns(runs);
  }
  json.Finalize();
  return out.str();
}

}  // namespace infer::bench
