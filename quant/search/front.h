#pragma once
/// Solves for the Pareto front of a layer database, and verifies points of it by running them.
#include "quant/search/database.h"

namespace infer {

class FrontSearch {
 public:
  FrontSearch(Measuring& measuring, DatabaseBuilder& timer, const LayerDatabase& database,
              SearchResult& result)
      : m_(measuring), o_(measuring.options), timer_(timer), db_(database), result_(result) {}

  /// Every precision alone: what the others are held against.
  Status Uniform();
  Status Choose();
  /// Why layers of the chosen policy are not INT8.
  void Explain();

 private:
  void Solve();
  Status AddCut(std::vector<Assignment> ranked);
  Status Grow();
  Status AddOthers();
  std::vector<const Assignment*> AgainstUniform() const;
  Status Take();
  void Compare();
  /// Fills bytes, score, verified, within_limits and ms.
  Status Verify(FrontPoint& point, double until);
  Status Add(const Assignment& a, double until, FrontPoint** added);
  FrontPoint PointOf(const Assignment& a) const;
  bool Fits(int64_t bytes) const { return !o_.max_bytes || bytes <= *o_.max_bytes; }
  bool IsWithin(const FrontPoint& p) const;
  std::string WhyNotInt8(const LayerRecord& layer) const;
  double Goal(const LayerCost& c) const {
    return o_.goal == SearchGoal::kLatency ? c.ms : static_cast<double>(c.bytes);
  }
  double Goal(const FrontPoint& p) const {
    return o_.goal == SearchGoal::kLatency ? p.ms.value_or(p.predicted.ms)
                                           : static_cast<double>(p.bytes);
  }

  Measuring& m_;
  const SearchOptions& o_;
  DatabaseBuilder& timer_;
  const LayerDatabase& db_;
  SearchResult& result_;
  std::vector<Assignment> assignments_;  // totals of the whole model, by bytes
  std::optional<double> int8_error_;
  int64_t samples_ = 0;  ///< that verify a point; 0: all
};

}  // namespace infer
