#pragma once
/// From measured steps to the prices of their families.
#include "tools/infer_bench/predict/profile.h"

namespace infer::bench {

/// One step of one generated program.
struct FitCase {
  size_t program = 0;  ///< which: those of one program are left out together
  StepFeatures features;
  double us = 0;  ///< measured, with the cost of measuring it
};

/// One generated program as a whole.
struct FitRun {
  int launches = 0;
  double unprofiled_us = 0, profiled_us = 0;
  double steps_us = 0;  ///< sum of its steps, profiled
};

/// Prices that make the relative error of the cases small: squares of (predicted - measured) /
/// sqrt(predicted * measured), reweighted until far cases count as in a sum of absolute errors.
/// Pre: not empty, all us > 0.
Features FitPrices(const std::vector<const FitCase*>& cases);

/// Families with at least kLeastCases cases. A fifth of the programs is left out first to learn the
/// regret, then all are fitted.
inline constexpr size_t kLeastCases = 8;
std::map<std::string, Family> FitFamilies(const std::vector<FitCase>& cases);

/// Fills run_us and step_profile_us.
void FitOverheads(const std::vector<FitRun>& runs, LaneProfile& profile);

double Priced(const Features& price, const Features& amount);

}  // namespace infer::bench
