#pragma once
/// From the starts of a measurement to a ratio with its interval, and what may be said of it.
#include <string>
#include <vector>

namespace infer::peers {

/// Ours / peer's time: a ratio for each round of each start. Processes of one program differ for as
/// long as they live, so that only starts are independent values (docs/adr/0015).
using StartRatios = std::vector<std::vector<double>>;

/// Below 1: we are faster.
struct Ratio {
  double median = 1;         ///< of a start's rounds; over starts the geometric mean of these
  double low = 1, high = 1;  ///< 95 % interval by Student's t over the starts' logarithms
};

/// Pre: at least two starts, none of them empty.
Ratio RatioOf(const StartRatios& starts);

/// Geometric mean over models, each of which has the scatter of its own starts.
/// Pre: there is a model; each as for RatioOf.
Ratio GeometricMean(const std::vector<StartRatios>& models);

/// Equal engines whose starts scatter by 2 % have six starts' intervals of about 2 % either way.
inline constexpr double kSameWithin = 0.03;

/// "faster", "slower"; where the interval holds 1, "same" if it reaches no further than
/// kSameWithin, else "inconclusive".
std::string WordOf(const Ratio& r);

/// Against --max-ratio: the whole interval is on one side, or nothing can be said.
enum class Gate { kPassed, kFailed, kInconclusive };
Gate GateOf(const Ratio& r, double max_ratio);
std::string NameOf(Gate g);

}  // namespace infer::peers
