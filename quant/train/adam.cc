#include "quant/train/adam.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/support/parallel.h"

namespace infer {
namespace {

constexpr float kMeanDecay = 0.9f, kSquareDecay = 0.999f, kEpsilon = 1e-8f;
/// The product of two scales is one, too.
constexpr float kLeastScale = 1e-18f, kMostScale = 1e18f;
constexpr int64_t kGrain = 16384, kMostWarmUp = 50;

}  // namespace

void AdamStep(std::span<float> weights, std::span<const float> gradient, AdamState& state,
              std::span<const uint8_t> keep, double rate, int64_t step) {
  const auto t = static_cast<double>(step);
  const auto mean_left = static_cast<float>(1 - std::pow(static_cast<double>(kMeanDecay), t));
  const auto square_left = static_cast<float>(1 - std::pow(static_cast<double>(kSquareDecay), t));
  const auto size = static_cast<float>(rate);
  ParallelFor(static_cast<int64_t>(weights.size()), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (!keep.empty() && keep[i] == 0) continue;
      const float g = gradient[i];
      float& m = state.mean[i];
      float& v = state.square[i];
      m = kMeanDecay * m + (1 - kMeanDecay) * g;
      v = kSquareDecay * v + (1 - kSquareDecay) * g * g;
      weights[i] -= size * (m / mean_left) / (std::sqrt(v / square_left) + kEpsilon);
    }
  });
}

void PacedStep(std::span<float> weights, std::span<const float> gradient, AdamState& state,
               std::span<const uint8_t> keep, std::span<const float> pace, double rate,
               int64_t step) {
  if (pace.size() == 1)
    return AdamStep(weights, gradient, state, keep, rate * static_cast<double>(pace[0]), step);
  std::vector<float> change(weights.size());
  AdamStep(change, gradient, state, keep, rate, step);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] += change[i] * pace[i];
}

void ScaleStep(std::span<float> scales, std::span<const float> gradient, AdamState& state,
               std::span<const uint8_t> keep, std::span<const float> pace, double rate,
               int64_t step) {
  // d loss / d ln s = s d loss / d s.
  std::vector<float> of_logarithm(scales.size()), change(scales.size());
  for (size_t i = 0; i < scales.size(); ++i) of_logarithm[i] = scales[i] * gradient[i];
  PacedStep(change, of_logarithm, state, keep, pace, rate, step);
  for (size_t i = 0; i < scales.size(); ++i)
    scales[i] = std::clamp(scales[i] * std::exp(std::clamp(change[i], -1.0f, 1.0f)), kLeastScale,
                           kMostScale);
}

double ScheduledRate(double rate, int64_t step, int64_t steps) {
  const int64_t warm_up = std::min(steps / 20, kMostWarmUp);
  if (step < warm_up) return rate * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  const double done = static_cast<double>(step - warm_up) /
                      static_cast<double>(std::max<int64_t>(1, steps - warm_up));
  return rate * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace infer
