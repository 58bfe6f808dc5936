#pragma once
/// What every part of the search measures through: the store, the deadline and the counts.
#include <limits>

#include "quant/search/search.h"

namespace infer {

/// Whatever the time.
inline constexpr double kAlways = std::numeric_limits<double>::infinity();

class Measuring {
 public:
  Measuring(const MixedModel& model, const Judge& judge, const SearchOptions& options,
            MeasurementStore& store, SearchResult& result)
      : model(model), judge(judge), options(options), result_(result), store_(store) {}

  /// From the store, or measured now; nullopt when this share of the time is up.
  Result<std::optional<Numbers>> Measured(const std::string& key, double until,
                                          const std::function<Result<Numbers>()>& measure);
  /// The same whatever the time.
  Result<Numbers> Always(const std::string& key, const std::function<Result<Numbers>()>& measure);
  Result<std::optional<Score>> ScoreOf(const std::string& key, const Policy& policy,
                                       int64_t samples, double until);
  /// Seconds that are left of this share of the time; infinite without a deadline.
  double SecondsUntil(double share) const;
  void Plan(int64_t more) { planned_ += more; }
  bool Has(Precision p) const;  ///< among those that are searched

  const MixedModel& model;
  const Judge& judge;
  const SearchOptions& options;

 private:
  SearchResult& result_;
  MeasurementStore& store_;
  Instant start_ = options.now();
  int64_t planned_ = 0, done_ = 0;
};

/// The same for the same precision in every layer.
std::string PolicyKey(const Policy& policy);

}  // namespace infer
