#include "tools/infer_bench/load/drift.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/support/readable.h"
#include "lib/support/status.h"
#include "lib/support/strings.h"
#include "tools/bench/distribution.h"

namespace infer::bench {
namespace {

constexpr size_t kMostBlocks = 40;
constexpr size_t kLeastBlocks = 8;
constexpr double kZ95 = 1.959963984540054;

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return QuantileOfSorted(v, 0.5);
}

struct Blocks {
  std::vector<double> hours, values;
};

Blocks InBlocks(std::span<const double> hours, std::span<const double> values) {
  const size_t n = hours.size(), count = std::min(n, kMostBlocks);
  Blocks out;
  for (size_t b = 0; b < count; ++b) {
    const size_t from = b * n / count, to = (b + 1) * n / count;
    const auto middle = [&](std::span<const double> all) {
      return Median({all.begin() + static_cast<std::ptrdiff_t>(from),
                     all.begin() + static_cast<std::ptrdiff_t>(to)});
    };
    out.hours.push_back(middle(hours));
    out.values.push_back(middle(values));
  }
  return out;
}

std::vector<double> Slopes(const Blocks& b) {
  std::vector<double> out;
  for (size_t i = 0; i < b.hours.size(); ++i)
    for (size_t j = i + 1; j < b.hours.size(); ++j)
      if (b.hours[j] > b.hours[i])
        out.push_back((b.values[j] - b.values[i]) / (b.hours[j] - b.hours[i]));
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::string_view Name(DriftVerdict v) {
  switch (v) {
    case DriftVerdict::kDrifts: return "drifts";
    case DriftVerdict::kSteady: return "steady";
    case DriftVerdict::kInconclusive: return "inconclusive";
  }
  return "";
}

DriftVerdict Worst(DriftVerdict a, DriftVerdict b) {
  for (DriftVerdict v : {DriftVerdict::kDrifts, DriftVerdict::kInconclusive})
    if (a == v || b == v) return v;
  return DriftVerdict::kSteady;
}

Drift FindDrift(std::span<const double> hours, std::span<const double> values, double limit) {
  INFER_CHECK(hours.size() == values.size());
  Drift d;
  d.points = static_cast<int64_t>(values.size());
  if (!values.empty()) d.level = Median({values.begin(), values.end()});
  const Blocks blocks = InBlocks(hours, values);
  d.blocks = static_cast<int64_t>(blocks.hours.size());
  const std::vector<double> slopes = Slopes(blocks);
  if (blocks.hours.size() < kLeastBlocks || slopes.empty()) {
    d.reason = Cat("needs ", kLeastBlocks, " windows, there are ", d.blocks);
    return d;
  }
  // Kendall's S of n points without a trend has this variance; the interval's ends are slopes so
  // many places from the middle.
  const auto n = static_cast<double>(d.blocks), pairs = static_cast<double>(slopes.size());
  const double spread = kZ95 * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const auto at = [&](double rank) {
    const double last = pairs - 1;
    return slopes[static_cast<size_t>(std::clamp(rank, 0.0, last))];
  };
  d.slope = QuantileOfSorted(slopes, 0.5);
  d.low = at(std::floor((pairs - spread) / 2) - 1);
  d.high = at(std::ceil((pairs + spread) / 2));
  if (*d.low > limit)
    d.verdict = DriftVerdict::kDrifts;
  else if (*d.high <= limit)
    d.verdict = DriftVerdict::kSteady;
  else
    d.reason = "the interval holds the limit";
  return d;
}

}  // namespace infer::bench
