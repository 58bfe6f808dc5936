#pragma once
/// What `infer-bench machine` knows of a machine: its peaks, and what each kernel family costs.
#include <map>
#include <string>
#include <vector>

#include "tools/common/report.h"
#include "tools/infer_bench/predict/features.h"

namespace infer::bench {

/// Prices of a family: its time is the sum of price * amount over the columns.
struct Family {
  Features price{};  ///< microseconds per unit of a column, >= 0
  Features most{};   ///< the largest amount among the cases; more is extrapolated
  int cases = 0;
  /// |predicted / measured - 1| of cases whose programs were left out of the fit.
  double regret_median = 0, regret_p90 = 0;
  int held_out = 0;
};

/// For one number of threads.
struct LaneProfile {
  int lanes = 1;
  Roofline roofline;
  int programs = 0, steps = 0;  ///< that were measured
  double run_us = 0;            ///< of a run beside its steps
  double step_profile_us = 0;   ///< by which profiling lengthens a step
  std::map<std::string, Family> families;
};

struct Profile {
  std::string isa, cpu, revision, date;  ///< of the machine and the build that measured
  double spin_ms = 0;                    ///< fixed arithmetic (SpinMs) took then
  std::vector<LaneProfile> lanes;        ///< by number of threads, ascending
  /// Of so many threads, or nullptr.
  const LaneProfile* For(int threads) const;
};

Json ToJson(const LaneProfile& p);

/// A report of `infer-bench machine`. Io: it cannot be read; InvalidModel: it is none, or holds
/// what no machine has (a price below 0, a bandwidth of 0, no family).
Result<Profile> ReadProfile(const std::string& path);

}  // namespace infer::bench
