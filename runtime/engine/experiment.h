#pragma once
/// Whether one variant succeeds more often than another, told at any moment: values in, a verdict
/// out. A test that is made for one look at the end names a winner among equals far too often when
/// it is looked at again and again; these may be looked at after every request.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/support/status.h"

namespace infer::engine {

struct ExperimentRules {
  double alpha = 0.05;          ///< share of experiments between equals that may ever name a winner
  double effect = 0.01;         ///< a difference of success rates that is worth finding
  int64_t least_samples = 100;  ///< of each variant, before a winner is named
  /// A success is what Engine::RecordOutcome says; else a request that succeeded.
  bool by_labels = false;
};
Status Check(const ExperimentRules& rules);

/// Requests of one variant whose result is known.
struct Trials {
  int64_t count = 0, successes = 0;
  double rate() const {
    return count > 0 ? static_cast<double>(successes) / static_cast<double>(count) : 0;
  }
};

/// How much likelier these trials are if the two rates differ by a normal amount of deviation
/// `effect` than if they are equal (mixture sequential probability ratio test: Robbins 1970;
/// Johari, Koomen, Pekelis and Walsh, "Peeking at A/B Tests", KDD 2017). It ever exceeds 1 / alpha
/// in a share alpha of experiments between equals. 1 while both together have too few successes or
/// failures (10) for their difference to be about normal. Pre: both have trials.
double LikelihoodRatio(const Trials& a, const Trials& b, double effect);

/// Whether keys reach the variants in the shares that were asked for: the odds against it, by a
/// multinomial test that may be looked at any time (Lindon and Malek, "Anytime-Valid Inference for
/// Multinomial Count Data", NeurIPS 2022). Counted keys must be drawn independently: a key that
/// stays with its variant counts once.
class SampleRatio {
 public:
  /// Pre: shares > 0; they need not sum to 1.
  explicit SampleRatio(const std::vector<double>& shares);
  void Count(size_t variant);
  bool broken() const { return broken_; }  ///< once it was, it stays
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  std::vector<double> shares_;
  std::vector<int64_t> counts_;
  int64_t total_ = 0;
  double log_odds_ = 0;
  bool broken_ = false;
};

struct ExperimentVerdict {
  enum class Kind : uint8_t {
    kOpen,         ///< nothing can be said yet
    kWinner,       ///< `variant` differs from the first; of the two, `winner` is better
    kSampleRatio,  ///< shares are not as asked for: no rate can be trusted
  };
  Kind kind = Kind::kOpen;
  size_t variant = 0, winner = 0;
  double p_value = 1;  ///< smallest so far, of all comparisons, corrected for their number
};
std::string_view Name(ExperimentVerdict::Kind kind);

/// The first variant against each other one.
class Experiment {
 public:
  /// Pre: Check(rules) and SampleRatio's.
  Experiment(ExperimentRules rules, const std::vector<double>& shares);
  /// A key, or a request without one, was given to the variant.
  void Assigned(size_t variant);
  void Ended(size_t variant, bool success);
  /// A winner stays the winner; broken shares overrule it.
  ExperimentVerdict verdict() const;
  const std::vector<Trials>& trials() const { return trials_; }
  const ExperimentRules& rules() const { return rules_; }

 private:
  void Look(size_t variant);

  ExperimentRules rules_;
  SampleRatio ratio_;
  std::vector<Trials> trials_;
  ExperimentVerdict found_;
};

}  // namespace infer::engine
