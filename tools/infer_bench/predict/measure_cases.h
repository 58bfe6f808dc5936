#pragma once
/// Runs generated programs and keeps what their steps took.
#include <functional>
#include <stop_token>

#include "tools/infer_bench/predict/fit.h"

namespace infer::bench {

struct CaseOptions {
  int threads = 1;
  double budget_s = 60;  ///< no program is begun after it
  uint64_t first = 0;    ///< index of the first program
  int64_t programs = 0;  ///< at most so many; 0: as many as the budget allows
  std::stop_token stop = {};
  std::function<void(double share)> progress = {};
};

struct MeasuredCases {
  std::vector<FitCase> cases;
  std::vector<FitRun> runs;
  uint64_t next = 0;                  ///< index of the first program that was not measured
  std::vector<std::string> failures;  ///< programs that could not be run, and why
};

/// With the lane budget set to `threads`. Steps below the clock's grain are left out.
MeasuredCases MeasureCases(const OpRegistry& ops, const Roofline& machine,
                           const CaseOptions& options);

}  // namespace infer::bench
