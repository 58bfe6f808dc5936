#pragma once
/// Latencies of a load: raw while they are few, by a histogram where they are many.
#include "runtime/engine/histogram.h"
#include "tools/bench/percentiles.h"
#include "tools/bench/samples.h"
#include "tools/common/report.h"

namespace infer::bench {

inline constexpr double kNsPerMs = 1e6;

class Latencies {
 public:
  /// Keeps the first `keep` samples as they are; figures are exact as long as these are all.
  explicit Latencies(int64_t keep) : keep_(keep) {}
  Latencies() = default;
  void Add(double at_ms, double ms);
  int64_t count() const { return ns_.count(); }
  bool exact() const { return count() == static_cast<int64_t>(first_.size()); }
  double min() const { return count() > 0 ? min_ : 0; }
  double max() const { return count() > 0 ? max_ : 0; }
  double mean() const { return count() > 0 ? sum_ / static_cast<double>(count()) : 0; }
  int64_t CountAbove(double ms) const;
  /// The smallest sample that at least a share `q` of them does not exceed, however few there are.
  double Quantile(double q) const;
  /// With the counts of LoadGen as guard (tools/bench/percentiles.h).
  std::vector<Percentile> Percentiles() const;
  Percentile AtQuantile(double q) const;
  const RunSamples& first() const { return first_; }

 private:
  std::vector<double> Sorted() const;
  double ValueAt(const std::vector<double>& sorted, int64_t k) const;
  Percentile At(const std::vector<double>& sorted, double q) const;

  int64_t keep_ = 100'000;
  RunSamples first_;
  engine::Histogram ns_;
  double min_ = 0, max_ = 0, sum_ = 0;
};

/// {"count", "exact", "min", "mean", "max", "p50", ..., "upper_99", "withheld"}.
Json ToJson(const Latencies& l);

}  // namespace infer::bench
