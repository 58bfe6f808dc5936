#pragma once
/// Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", arXiv:1412.6980, algorithm
/// 1).
#include <cstdint>
#include <span>
#include <vector>

namespace infer {

/// Moving averages of the gradient and of its square, one of each per number.
struct AdamState {
  std::vector<float> mean, square;
  explicit AdamState(size_t size = 0) : mean(size), square(size) {}
};

/// One step: `step` counts from 1. Numbers with keep[i] == 0 stay as they are; an empty `keep`:
/// none do. Element by element, so the bits do not depend on the lanes. Pre: equally many of all.
void AdamStep(std::span<float> weights, std::span<const float> gradient, AdamState& state,
              std::span<const uint8_t> keep, double rate, int64_t step);

/// The same at a rate by number: `rate` times pace[i], or times pace[0] where it is one.
void PacedStep(std::span<float> weights, std::span<const float> gradient, AdamState& state,
               std::span<const uint8_t> keep, std::span<const float> pace, double rate,
               int64_t step);

/// The same of numbers above 0 by their logarithms: a step changes them by a factor of about
/// 1 +- rate (at most e), and they stay between 1e-18 and 1e18.
void ScaleStep(std::span<float> scales, std::span<const float> gradient, AdamState& state,
               std::span<const uint8_t> keep, std::span<const float> pace, double rate,
               int64_t step);

/// The learning rate of step 0 .. steps - 1: up to `rate` over the first twentieth (at most 50
/// steps), then down to 0 along a half cosine (Loshchilov and Hutter, arXiv:1608.03983).
double ScheduledRate(double rate, int64_t step, int64_t steps);

}  // namespace infer
