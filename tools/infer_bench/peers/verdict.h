#pragma once
/// From the rounds of a measurement to a ratio with its interval, and what may be said of it.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace infer::peers {

/// Median of ours / peer's time with a 95 % bootstrap interval. Below 1: we are faster.
struct Ratio {
  double median = 1, low = 1, high = 1;
  int64_t rounds = 0;  ///< geometric means: models
};

/// One ratio per round. Pre: not empty.
Ratio RatioOf(std::span<const double> rounds);

/// Geometric mean over models of the medians; the interval draws rounds anew within every model.
/// Pre: none is empty.
Ratio GeometricMean(const std::vector<std::vector<double>>& models);

/// "faster", "slower", or "no difference" where the interval holds 1.
std::string WordOf(const Ratio& r);

/// Against --max-ratio: the whole interval is on one side, or nothing can be said.
enum class Gate { kPassed, kFailed, kInconclusive };
Gate GateOf(const Ratio& r, double max_ratio);
std::string NameOf(Gate g);

}  // namespace infer::peers
