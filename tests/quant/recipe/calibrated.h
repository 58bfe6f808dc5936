#pragma once
/// Models of random weights, and calibrated ones.
#include "lib/support/strings.h"
#include "quant/calibrate/calibrate.h"
#include "quant/scheme/quantize.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {

inline std::string Weights(int64_t n, uint64_t seed, double scale = 0.3) {
  Random random(seed);
  std::string text;
  for (int64_t i = 0; i < n; ++i) text += Cat(i ? ", " : "", scale * random.Normal());
  return text;
}

/// `g` with the ranges that the values to quantize have on `samples`.
inline StaticModel Calibrated(const Graph& g, const Samples& samples, const Backend& backend) {
  StaticModel m{g.Clone(), {}, {}};
  const auto plan = PlanQuantization(m.graph, g, m.scheme);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (!plan.ok()) return m;
  auto ranges = Calibrate(m.graph, ObservedValues(*plan), samples, backend);
  EXPECT_TRUE(ranges.ok()) << ranges.status().message();
  if (ranges.ok()) m.ranges = *std::move(ranges);
  return m;
}

}  // namespace infer
