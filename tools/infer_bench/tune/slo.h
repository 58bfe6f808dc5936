#pragma once
/// A service-level objective: percentiles of the latency and what they must not exceed; and what a
/// measurement says about it.
#include <cstdint>
#include <string>
#include <vector>

#include "tools/infer_bench/load/drive.h"

namespace infer::bench {

struct SloLimit {
  double q = 0.99;
  std::string name;  ///< "p99"
  double ms = 0;
};
using Slo = std::vector<SloLimit>;

/// Of "p99=80ms", "p50=0.5s", "p99.9=900us". InvalidArgument: not of that form, or a percentile
/// twice.
Result<Slo> ParseSlo(const std::vector<std::string>& texts);

/// What was measured of one setting; further measurements add to it.
class Evidence {
 public:
  /// `r` of queries of `batch` samples each, `in_flight` of them at once (open loop: 0).
  void Add(const LoadResult& r, int64_t batch, int in_flight);
  int64_t queries() const { return latency_.count(); }
  double seconds() const { return seconds_; }
  const Latencies& latency() const { return latency_; }
  /// Answers while queries came. Few queries of a closed loop say more by their latency: queries in
  /// flight / mean latency (Little's law), which what is cut off at the end does not bend.
  double samples_per_s() const;

 private:
  Latencies latency_{kMostQueries};
  double seconds_ = 0, samples_ = 0;
  int64_t batch_ = 1;
  int in_flight_ = 0;

 public:
  /// Of all measurements of a setting together: no more samples are kept.
  static constexpr int64_t kMostQueries = 1'000'000;
};

/// Whether a setting meets the SLO beyond doubt is decided with 99 % confidence for each test, the
/// confidence of LoadGen's counts (tools/bench/percentiles.h).
inline constexpr double kSloDoubt = 0.01;

/// The probability that `beyond` or more of `n` samples lie beyond quantile `q`: of what was seen,
/// if the percentile were just met. 1 for none. Pre: 0 < q < 1.
double TailProbability(int64_t n, int64_t beyond, double q);

/// The least TailProbability over the limits, each less `gather_ms`: 1 says nothing against the
/// SLO, up to kSloDoubt says that it is missed beyond doubt.
double Plausibility(const Slo& slo, const Evidence& e, double gather_ms = 0);

/// Every percentile's upper limit (99 % confidence) is within its limit less `gather_ms`. False
/// with fewer samples than QueriesFor asks for.
bool Meets(const Slo& slo, const Evidence& e, double gather_ms = 0);

/// LeastCount of the highest percentile.
int64_t QueriesFor(const Slo& slo);

/// How long the first of `batch` samples that come one by one, as a Poisson process of `rate` per
/// second, waits for the last: the highest quantile of the SLO of this time, in ms.
double GatherMs(const Slo& slo, int64_t batch, double rate);

}  // namespace infer::bench
