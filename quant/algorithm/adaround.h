#pragma once
/// AdaRound (Nagel et al., arXiv 2004.10568): every weight is rounded down or up, and which of the
/// two is learned: h = clip(1.2 sigmoid(v) - 0.1, 0, 1) stands for the choice, Adam moves v so that
/// the error of the layer's outputs falls, and a regulariser drives h to 0 or 1. No graph here.
///
/// The error of a linear layer is tr(D H D^T), so that its gradient over all rows of data costs one
/// product with H: each step sees all data, not a batch. Unlike the original, which compares after
/// the activation function, outputs are compared before it.
#include "quant/algorithm/gptq.h"

namespace infer {

struct AdaRoundOptions {
  int iterations = 300;
  double learning_rate = 0.01;
  double warm_up = 0.2;  ///< share of the iterations without regulariser
  double strength = 4;   ///< of the regulariser; the error counts in steps of the grid
  double first_beta = 20, last_beta = 2;  ///< exponent of the regulariser: flat, then steep
};

/// New codes for `q`, whose scales and zero points stay. Each is one of the two next to the weight.
void AdaRound(const BlockWeights& w, std::span<const float> h, const AdaRoundOptions& options,
              BlockQuantized& q);

/// Multiplications and additions that AdaRound takes.
double AdaRoundCost(int64_t rows, int64_t depth, const AdaRoundOptions& options);

}  // namespace infer
