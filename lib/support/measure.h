#pragma once
/// Repeated timing of one action: warm-up until stable, then samples until both a minimum count and
/// a minimum time are reached. Knows nothing of what it times.
#include <chrono>
#include <functional>
#include <stop_token>
#include <vector>

#include "lib/support/statistics.h"
#include "lib/support/status.h"

namespace infer {

double MsSince(std::chrono::steady_clock::time_point start);

struct MeasureOptions {
  int min_runs = 20;
  int max_runs = 100'000;
  double min_time_s = 1.0;
  double max_time_s = 60.0;  ///< of the samples; ends them even below min_runs (at least one)
  double max_warmup_s = 5.0;
  int fixed_warmup_runs = -1;  ///< >= 0: exactly so many instead of "until stable"
  std::stop_token stop = {};
};

struct Measurement {
  double first_ms = 0;             ///< the very first call
  int warmup_runs = 0;             ///< calls before the samples, the first included
  bool stable = false;             ///< the warm-up ended because times had settled
  std::vector<double> samples_ms;  ///< every one, in order
  bool interrupted = false;        ///< the stop token ended it: samples are valid but few
};

/// Warm-up is over when the medians of the last two windows of five runs differ by at most 2 %.
/// A failing action ends the measurement with its status.
Result<Measurement> Measure(const std::function<Status()>& action, const MeasureOptions& options);

}  // namespace infer
