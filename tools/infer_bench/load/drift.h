#pragma once
/// Whether a series creeps: the slope of Theil and Sen with its 95 % interval (Sen 1968), and a
/// verdict against a limit.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace infer::bench {

enum class DriftVerdict {
  kDrifts,        ///< the whole interval lies above the limit
  kSteady,        ///< the whole interval lies within the limit, or below
  kInconclusive,  ///< the limit lies in the interval, or there are too few points
};
std::string_view Name(DriftVerdict v);
/// Of several series: drifts before inconclusive before steady.
DriftVerdict Worst(DriftVerdict a, DriftVerdict b);

struct Drift {
  int64_t points = 0, blocks = 0;
  double level = 0;                        ///< median of all points
  std::optional<double> slope, low, high;  ///< per hour; none with too few points
  DriftVerdict verdict = DriftVerdict::kInconclusive;
  std::string reason;
};

/// Points near each other are alike, which would make the interval too narrow: at most 40 blocks of
/// neighbours are looked at, each by its medians. `limit` is per hour. Pre: sizes agree.
Drift FindDrift(std::span<const double> hours, std::span<const double> values, double limit);

}  // namespace infer::bench
