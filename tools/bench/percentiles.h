#pragma once
/// Percentiles that the number of samples can bear, by the counts of MLPerf's LoadGen: a percentile
/// of which nothing can be said with 99 % confidence is withheld, and why is said.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace infer::bench {

/// LoadGen's smallest number of samples for quantile `q` (loadgen/early_stopping.cc, d = 0,
/// c = 0.99): the n from which at most one of them lies beyond the quantile with a probability of
/// at most 1 %. p50: 11, p90: 64, p95: 130, p99: 662, p99.9: 6636. Pre: 0 < q < 1.
int64_t LeastCount(double q);

/// The most of `n` samples beyond quantile `q` that have a probability of at most 1 %; -1: not even
/// none has. Pre: 0 < q < 1.
int64_t MostBeyond(int64_t n, double q);

/// The percentile that LoadGen reports: an upper limit of quantile `q` with 99 % confidence. With t
/// the most samples beyond the quantile that have a probability of at most 1 %, it is the largest
/// but t - 1. nullopt below LeastCount(q). Pre: `sorted` is ascending.
std::optional<double> UpperLimit(std::span<const double> sorted, double q);

struct Percentile {
  double q = 0;
  std::string name;             ///< "p99.9"
  std::optional<double> value;  ///< by interpolation; none when the count cannot support it
  std::optional<double> upper;  ///< UpperLimit
  std::string withheld;         ///< why there is no value
};

inline constexpr double kReportedQuantiles[] = {0.5, 0.9, 0.95, 0.99, 0.999};

/// Of each of `quantiles`. Pre: `sorted` is ascending.
std::vector<Percentile> Percentiles(std::span<const double> sorted,
                                    std::span<const double> quantiles = kReportedQuantiles);

/// 0.999 is "p99.9".
std::string PercentileName(double q);

}  // namespace infer::bench
