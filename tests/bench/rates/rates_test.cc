/// Error rates of the rule of `infer-bench compare`, drawing starts from recorded ones again and
/// again (tests/bench/traces/equal_sides.txt): 10,000 comparisons of equal sides in all, and
/// slowdowns of 3 and 10 %.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "lib/support/random.h"
#include "lib/support/readable.h"
#include "tools/infer_bench/compare/decision.h"

namespace infer {
namespace {

struct Trace {
  std::string model;
  double seconds_per_start = 0;
  std::vector<double> log_ratios;
};

std::vector<Trace> Traces() {
  std::vector<Trace> traces;
  std::ifstream in(INFER_SOURCE_DIR "/tests/bench/traces/equal_sides.txt");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream words(line);
    Trace t;
    double ms = 0, load = 0;
    words >> t.model >> ms >> t.seconds_per_start >> load;
    for (double v = 0; words >> v;) t.log_ratios.push_back(v / 1e5);
    traces.push_back(std::move(t));
  }
  return traces;
}

struct Outcome {
  Verdict verdict = Verdict::kInconclusive;
  double seconds = 0;
};

/// As live: no start begins that would end later than the budget, or than twice the budget while a
/// suspicion is followed up. Which side is which was arbitrary when it was recorded.
Outcome Compare(const Trace& t, double effect, double budget_s, Random& random) {
  Decision d({});
  Outcome o;
  while (!d.exhausted()) {
    const double most = budget_s * (d.suspecting() ? 2 : 1);
    if (o.seconds > 0 && o.seconds + t.seconds_per_start > most) break;
    const double drawn = t.log_ratios[random.Below(static_cast<uint32_t>(t.log_ratios.size()))];
    d.Add((random.Below(2) ? drawn : -drawn) + std::log1p(effect));
    o.seconds += t.seconds_per_start;
  }
  o.verdict = d.verdict();
  return o;
}

/// The rate that would give so few as `found` of n with a chance of 5 % (Clopper & Pearson 1934).
double UpperBound(int found, int n) {
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double p = (low + high) / 2;
    double term = std::exp(n * std::log1p(-p)), sum = term;
    for (int k = 1; k <= found; ++k) sum += term *= p / (1 - p) * (n - k + 1) / k;
    (sum > 0.05 ? low : high) = p;
  }
  return high;
}

TEST(Rates, EqualSidesAreCalledDifferentInLessThanOnePercent) {
  const auto traces = Traces();
  ASSERT_GE(traces.size(), 4u);
  Random random(1);
  for (const double budget : {10.0, 60.0}) {
    int alarms = 0, same = 0, all = 0;
    for (const Trace& t : traces)
      for (size_t i = 0; i < 10'000 / traces.size() + 1; ++i, ++all) {
        const Verdict v = Compare(t, 0, budget, random).verdict;
        alarms += v == Verdict::kSlower || v == Verdict::kFaster;
        same += v == Verdict::kSame;
      }
    const double bound = UpperBound(alarms, all);
    std::cout << "budget " << budget << " s: " << alarms << " alarms of " << all << ", at most "
              << Fixed(100 * bound, 3) << " % (95 %); same: " << Fixed(100.0 * same / all, 1)
              << " %\n";
    EXPECT_LE(bound, 0.01);
  }
}

void ExpectFound(double effect, double budget) {
  Random random(2);
  for (const Trace& t : Traces()) {
    constexpr int kDraws = 1000;
    int found = 0, in_time = 0;
    double seconds = 0;
    for (int i = 0; i < kDraws; ++i) {
      const Outcome o = Compare(t, effect, budget, random);
      found += o.verdict == Verdict::kSlower;
      in_time += o.verdict == Verdict::kSlower && o.seconds <= budget;
      seconds += o.seconds / kDraws;
    }
    std::cout << t.model << ": " << 100 * effect << " % found in "
              << Fixed(100.0 * found / kDraws, 1) << " % at a budget of " << budget << " s ("
              << Fixed(100.0 * in_time / kDraws, 1) << " % before it was used up), "
              << Fixed(seconds, 1) << " s on average\n";
    EXPECT_GE(found, 0.95 * kDraws) << t.model;
  }
}

TEST(Rates, ThreePercentAreFoundWithinAMinute) { ExpectFound(0.03, 60); }
TEST(Rates, TenPercentAreFoundWithinTenSeconds) { ExpectFound(0.10, 10); }

}  // namespace
}  // namespace infer
