#pragma once
/// The candidates of a search and what may be done with them: measure one, judge it, rank all.
/// Screening, halving and confirmation (search.h) are written in these words.
#include "tools/infer_bench/tune/search.h"

namespace infer::bench {

struct TrialPlan {
  bool open_loop = false;
  double seconds = 1;      ///< at least so long ...
  int64_t queries = 1;     ///< ... and so many,
  double max_seconds = 1;  ///< but no longer than this, nor than the budget
};

class Trials {
 public:
  Trials(std::vector<TuneSetting> settings, TuneTarget& target, const TuneOptions& options,
         const std::function<void(const TuneResult&)>& observe);

  const TuneOptions& options() const { return options_; }
  size_t size() const { return result_.candidates.size(); }
  TuneCandidate& at(size_t i) { return result_.candidates[i]; }
  double used_s() { return target_.NowS() - start_s_; }
  double left_s() { return options_.budget_s - used_s(); }
  /// The budget is used up, or somebody stopped us.
  bool over() { return left_s() <= 0 || options_.stop.stop_requested(); }

  /// Opens candidate `i` and adds a load to `into`. A candidate that cannot be had, or whose
  /// outputs are too far off, gets that fate instead.
  Status Measure(size_t i, const TrialPlan& plan, Evidence TuneCandidate::*into);
  /// What decides about the SLO: the loop that it is about.
  const Evidence& OfSlo(const TuneCandidate& c) const { return open_loop() ? c.open : c.closed; }
  bool open_loop() const { return options_.rate > 0; }
  /// Gives a candidate that misses the SLO beyond doubt, by `e`, its fate. Whether it does.
  bool JudgeBy(TuneCandidate& c, const Evidence& e, const Slo& slo) const;
  /// Queries per second of the loop that the SLO is about.
  double QueriesPerS(const TuneCandidate& c) const;
  double Score(const TuneCandidate& c) const;
  /// Undecided candidates that were measured but not confirmed yet, the best first.
  std::vector<size_t> Ranked() const;

  /// Of all that were measured: the choice, the verdict, and why others are not chosen.
  TuneResult Finish();
  /// The first status of a candidate that cannot be had.
  const Status& first_failure() const { return first_failure_; }

 private:
  Result<OpenedSetting> Open(TuneCandidate& c);
  void Choose();
  void Explain(TuneCandidate& c) const;
  void Conclude();

  TuneTarget& target_;
  const TuneOptions& options_;
  const std::function<void(const TuneResult&)>& observe_;
  double start_s_;
  TuneResult result_;
  Status first_failure_;
};

/// The steps of a search, in this order.
Status Screen(Trials& t);
Status Halve(Trials& t);
Status Confirm(Trials& t);

}  // namespace infer::bench
