#pragma once
/// Repeated timing of one action: warm-up until stable, then samples until there are enough runs
/// and enough seconds of them. Knows nothing of what it times.
#include <functional>
#include <stop_token>
#include <string>

#include "lib/support/status.h"
#include "tools/bench/samples.h"

namespace infer::bench {

struct SamplingOptions {
  int min_runs = 20;
  int max_runs = 100'000;
  int runs = 0;  ///< > 0: exactly so many, whatever the others say
  double min_time_s = 1.0;
  double max_time_s = 60.0;  ///< of the samples; ends them even below min_runs (at least one)
  double max_warmup_s = 5.0;
  int fixed_warmup_runs = -1;  ///< >= 0: exactly so many instead of "until stable"
  std::stop_token stop = {};
};

enum class WarmUpEnd {
  kSettled,  ///< two windows in turn have the same median, within 2 %
  kNoisy,    ///< three times in turn they differed by more, but less than runs within them do
  kTime,     ///< max_warmup_s was over
  kCount,    ///< as many as were asked for
  kStopped,
};
std::string_view Name(WarmUpEnd end);

struct WarmUp {
  RunSamples samples;  ///< the first run of all included
  WarmUpEnd ended = WarmUpEnd::kCount;
  /// Medians of the last two windows of runs; 0 where there were none.
  double before_ms = 0, last_ms = 0;
  bool stable() const { return ended == WarmUpEnd::kSettled || ended == WarmUpEnd::kNoisy; }
  /// "12 runs, settled: 1.01 ms, then 1.00 ms".
  std::string ToString() const;
};

/// Decides when a warm-up is over. A window is at least five runs and 25 ms.
class WarmUpJudge {
 public:
  /// Takes one run; whether times have settled.
  bool Add(double ms);
  WarmUpEnd verdict() const { return verdict_; }
  double before_ms() const { return before_; }
  double last_ms() const { return last_; }

 private:
  std::vector<double> window_, previous_;
  double window_ms_ = 0, before_ = 0, last_ = 0;
  int noisy_ = 0;
  WarmUpEnd verdict_ = WarmUpEnd::kTime;
};

struct Sampled {
  WarmUp warmup;
  RunSamples samples;
  double first_ms = 0;       ///< the very first call
  std::string ended;         ///< "runs and time", "runs", "max runs", "max time" or "stopped"
  int64_t migrations = 0;    ///< runs that ended on another processor than the one before
  bool interrupted = false;  ///< the stop token ended it: samples are valid but few
};

/// A failing action ends the measurement with its status. Once `stop` is requested no further run
/// begins, and a Cancelled run counts as none.
Result<Sampled> Sample(const std::function<Status()>& action, const SamplingOptions& options);

}  // namespace infer::bench
