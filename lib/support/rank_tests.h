#pragma once
/// Rank tests and the estimates that belong to them: what can be said of two sets of measured
/// values without assuming how they are distributed.
#include <span>

#include "lib/support/student.h"

namespace infer {

/// Two-sided p value of the Mann-Whitney U test that neither of `a` and `b` tends to be larger
/// (Mann & Whitney 1947, doi 10.1214/aoms/1177730491): exact where both have at most 25 values and
/// none is tied, else the normal approximation with corrections for ties and continuity.
/// 1 where one is empty.
double MannWhitneyP(std::span<const double> a, std::span<const double> b);

/// Two-sided p value of the Kolmogorov-Smirnov test that both come from one distribution: the limit
/// for many values with the correction for few of Stephens 1970 (doi
/// 10.1111/j.2517-6161.1970.tb00821.x); too large, never too small, where values are tied. 1 where
/// one is empty. Pre: no NaN.
double KolmogorovSmirnovP(std::span<const double> a, std::span<const double> b);

/// Two-sided p value of Wilcoxon's signed-rank test that `d` is symmetric about 0 (Wilcoxon 1945,
/// doi 10.2307/3001968). Zeros are left out; exact up to 50 values without ties, else normal.
double SignedRankP(std::span<const double> d);

/// Hodges-Lehmann estimate of the centre of `d`: the median of all averages of two of them, each
/// with itself too; the interval inverts the signed-rank test (Hodges & Lehmann 1963, doi
/// 10.1214/aoms/1177704172). Few values may not support the confidence: then the interval is
/// infinite. Pre: not empty, 0 < confidence < 1.
Estimate HodgesLehmann(std::span<const double> d, double confidence);

/// Hodges-Lehmann estimate of how far `b` lies above `a`: the median of all differences; the
/// interval inverts the Mann-Whitney test. More than 1,000 values of a side are thinned evenly.
/// Pre: neither is empty, 0 < confidence < 1.
Estimate HodgesLehmannShift(std::span<const double> a, std::span<const double> b,
                            double confidence);

}  // namespace infer
