#pragma once
/// Paired statistics of two classifiers on the same labelled samples: who lost, who gained, and
/// whether the difference can be chance.
#include <cstdint>

#include "quant/scheme/quant_params.h"

namespace infer {

/// Exact two-sided McNemar test: with `lost` + `gained` discordant samples, the chance under equal
/// odds of a split at least this uneven, min(1, 2 P(X <= min(lost, gained))), X ~ Bin(n, 1/2).
/// McNemar 1947, Psychometrika 12:153; exact form: Fagerland et al. 2013,
/// doi 10.1186/1471-2288-13-91.
double McNemarExact(int64_t lost, int64_t gained);

/// Exact (Clopper-Pearson 1934) interval of a binomial proportion. [0, 1] for no trials.
/// Pre: 0 <= successes <= trials, 0 < confidence < 1.
Interval ClopperPearson(int64_t successes, int64_t trials, double confidence = 0.95);

/// What labels say. Correct counts are of samples.
struct PairedAccuracy {
  int64_t samples = 0;
  int64_t golden_top1 = 0, candidate_top1 = 0;
  int64_t golden_top5 = 0, candidate_top5 = 0;
  int64_t lost = 0;    ///< golden right, candidate wrong (top-1)
  int64_t gained = 0;  ///< golden wrong, candidate right

  /// Adds one sample's row of scores from both sides. Pre: label within the rows.
  void Add(std::span<const float> golden, std::span<const float> candidate, int64_t label);
  double golden_accuracy() const;
  double candidate_accuracy() const;
  double drop() const;     ///< (lost - gained) / samples; negative when the candidate is better
  double p_value() const;  ///< McNemarExact
  /// Of drop(), given the number of discordant samples: (2 CP(lost, lost+gained) - 1) * n /
  /// samples.
  Interval DropInterval(double confidence = 0.95) const;
  /// Of the drop over all data that the samples were drawn from: the score interval of paired
  /// proportions (Tango 1998, Statistics in Medicine 17:891). No sample changed, of n: z^2 / (n +
  /// z^2) either way. [-1, 1] for no samples.
  Interval PopulationDropInterval() const;
};

}  // namespace infer
