#pragma once
/// Kernels timed by Google Benchmark, the library. Kernels take from 0.1 us on: it reads the clock
/// once for as many runs as fill the time, where bench::Sample, which keeps every run, reads two
/// clocks for each. Its JSON is written by its own reporter. The only door to the library.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/support/status.h"
#include "runtime/api/program.h"

namespace infer::bench {

struct TimerOptions {
  double min_time_s = 0.05;  ///< of one repetition
  int repetitions = 5;
};

/// Microseconds of one run, the mean of each repetition.
struct KernelTime {
  std::vector<double> real_us, cpu_us;
  int64_t iterations = 0;  ///< of a repetition
};

class KernelTimer {
 public:
  explicit KernelTimer(const TimerOptions& options);
  ~KernelTimer();
  KernelTimer(KernelTimer&&) noexcept;
  /// `name` is new, and stands in the JSON. FLOPs and bytes per second are said of `cost`. A
  /// failing action ends it with its status; then the JSON lacks the name.
  Result<KernelTime> Time(const std::string& name, const Cost& cost,
                          const std::function<Status()>& action);
  /// What was timed so far, but for names that `counters` lacks, as Google Benchmark writes it; the
  /// counters are added to each repetition.
  std::string Json(const std::map<std::string, std::map<std::string, double>>& counters) const;

 private:
  struct Kept;
  TimerOptions options_;
  std::unique_ptr<Kept> kept_;
};

}  // namespace infer::bench
