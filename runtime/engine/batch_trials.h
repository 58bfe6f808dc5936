#pragma once
/// How many rows a run has at most, by trials in turns with what runs have otherwise: values in, a
/// number out. No threads, no clock.
///
/// Runs begin as the rules say. Now and then a few runs in a row have fewer rows (1, 2, 4, ...),
/// and their time for a row is divided by that of as many rows just before, so that a machine that
/// becomes slower makes both slower. Where the median of such ratios says that fewer rows are
/// faster, runs have no more from then on, until trials of the others, which go on, say something
/// else.
#include <cstdint>
#include <deque>
#include <limits>
#include <map>

#include "runtime/engine/batch_curve.h"
#include "runtime/engine/batch_rules.h"

namespace infer::engine {

class BatchTrials {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  /// `most`: rows of a run by the rules. Pre: most >= 1.
  explicit BatchTrials(int64_t most) : window_(kWindow * most) {}

  /// Rows that runs have at most, by what was found so far; kNoLimit: those of the rules.
  int64_t limit() const { return limit_; }
  /// The limit that the next run should try; 0: none. `rows`: that could be in it. A trial goes on
  /// until it has seen enough, whatever waits.
  int64_t Wanted(int64_t rows) const;
  /// A run begins that tries it. Pre: it was wanted.
  void Begin(int64_t limit);
  bool trying() const { return trial_ > 0; }
  /// A run that nothing but the rules and the limit formed. `ns`: that it kept an instance;
  /// `tried`: its limit, where it was a trial, else 0.
  void Ran(int64_t rows, int64_t ns, int64_t tried);

 private:
  /// Runs one behind the other.
  struct Runs {
    int64_t rows = 0;
    double ns = 0;
    double per_row() const { return ns / static_cast<double>(rows); }
  };
  struct Candidate {
    std::deque<double> ratios = {};  // of the last trials: time for a row, to that of usual runs
    int64_t last = 0;                // its last trial
    bool known() const;
    bool promises() const;  // the last trial was faster
  };
  void RanUsual(int64_t rows, double ns);
  void EndTrial();

  static constexpr int64_t kWindow = 3;  // full runs, whose rows are compared
  static constexpr size_t kRatios = 5;   // trials that decide

  int64_t window_;  // rows
  int64_t limit_ = kNoLimit, trial_ = 0, trials_ = 0;
  std::map<int64_t, Candidate> candidates_;  // by limit
  // Since a trial began or ended, without the first run, which plans, and warms caches.
  std::deque<Runs> usual_runs_;  // the last window_ rows
  Runs usual_, tried_;
  bool first_ = true;
  double since_ns_ = 0;  // time that pays for trials
};

/// How many rows the next run of these requests should have at most.
struct BatchAdvice {
  int64_t rows = 1;
  enum class By : uint8_t { kRules, kMeasured, kTrial, kDeadline, kMemory } by = By::kRules;
  int64_t tries = 0;   ///< kTrial: the limit
  int64_t run_ns = 0;  ///< of a run of those that wait; 0: not known
};

/// What is known of runs of one shape.
struct BatchTimes {
  explicit BatchTimes(int64_t most) : trials(most) {}
  BatchCurve curve;
  BatchTrials trials;
};

/// By the trials, and so few that the earliest deadline is met, where any number does. A trial
/// begins only with requests that could begin now by the rules.
BatchAdvice Advise(const BatchTimes& times, const BatchRules& rules, const Waiters& waiters,
                   int64_t now_ns, bool draining);

}  // namespace infer::engine
