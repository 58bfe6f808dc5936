#pragma once
/// Whether side B of a comparison takes longer than side A, decided while measuring.
///
/// The unit is a start: both sides anew, each in a process of its own, timed in turns. Two
/// processes of the same program differ by up to a few percent for as long as they live (where
/// their memory lies); runs inside one process say nothing of that, so they are no independent
/// values. The starts' log ratios are looked at at fixed numbers of starts: below eight through
/// Student's t, which can do with few, from eight on through signed ranks (Hodges-Lehmann), which
/// some wild starts do not spoil. What looks like a difference is measured once more on starts that
/// had no part in the suspicion, and counts only where both agree. Every attempt is kept.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/support/student.h"

namespace infer {

enum class Verdict { kSame, kFaster, kSlower, kInconclusive };
std::string_view Name(Verdict v);  ///< "same", "faster", "slower", "inconclusive"

struct DecisionOptions {
  /// The least difference that counts, as a share; smaller ones are "same" once they are known to
  /// be smaller.
  double min_effect = 0.015;
  double confidence = 0.99;       ///< of the interval that leaves out 0: a suspicion
  double same_confidence = 0.95;  ///< of the interval that lies within min_effect
  double confirm_confidence = 0.9;
  /// Three starts to suspect a difference and three to confirm it: with fewer nothing but "same"
  /// could be relied on.
  static constexpr int kLeastMaxStarts = 6;
  int max_starts = 64;
};

/// What was concluded from a number of starts.
struct Attempt {
  int starts = 0;           ///< that it looked at
  bool confirming = false;  ///< on fresh starts, after a suspicion
  Estimate effect;          ///< B's time over A's - 1, with the interval that decided
  std::string outcome;      ///< "go on", "suspected", "confirmed", "not confirmed", "same"
};

class Decision {
 public:
  explicit Decision(const DecisionOptions& options) : options_(options) {}
  /// log(B's time / A's time) of one start, in the order of measuring. Pre: finite, not decided().
  void Add(double log_ratio);
  bool decided() const { return verdict_ != Verdict::kInconclusive; }
  Verdict verdict() const { return verdict_; }
  /// No further start can change anything.
  bool exhausted() const { return decided() || starts() >= options_.max_starts; }
  /// Something was suspected, and the starts that may confirm it are under way.
  bool suspecting() const { return suspected_at_ > 0 && !decided(); }
  int starts() const { return static_cast<int>(log_ratios_.size()); }
  /// Over all starts, at `confidence`. Pre: at least one start.
  Estimate Effect(double confidence = 0.95) const;
  const std::vector<double>& log_ratios() const { return log_ratios_; }
  const std::vector<Attempt>& attempts() const { return attempts_; }

 private:
  void Look();
  void Confirm();
  Attempt Record(std::span<const double> values, double confidence, bool confirming);

  DecisionOptions options_;
  std::vector<double> log_ratios_;
  std::vector<Attempt> attempts_;
  Verdict verdict_ = Verdict::kInconclusive;
  int suspected_at_ = 0;  // starts when the suspicion arose; 0: there is none
  bool suspect_slower_ = false;
};

}  // namespace infer
