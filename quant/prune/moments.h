#pragma once
/// What calibration data say of a layer whose model is being pruned: the rows X' that it reads in
/// the pruned model, and what it makes of the rows X that it reads in the dense one, Y = X W^T.
/// With the sums H = X'^T X' and C = X'^T Y the squared error of any weights V is known without the
/// rows: |X' V^T - Y|^2 = tr(V H V^T) - 2 tr(V C) + |Y|^2. Fitted so, a layer makes up for what the
/// layers before it have lost (asymmetric calibration, as in GPTAQ, arXiv 2504.02692).
///
/// The depth runs as in WeightPlane: [taps, channels].
#include "quant/prune/layers.h"

namespace infer {

/// Sums over rows of one group of one layer, depth d, r outputs.
struct LayerMoments {
  int64_t rows = 0;
  std::vector<float> h;              ///< [d, d], symmetric; empty: only `squares` were summed
  std::vector<float> c;              ///< [d, r]; empty with h
  std::vector<double> squares;       ///< [d]: of X'
  std::vector<double> sum_x, sum_y;  ///< [d] of X', [r] of Y
  double energy = 0;                 ///< |Y|^2
  bool finite() const;
  void Add(const LayerMoments& o);
};

/// Disjoint rows: `fit` chooses masks and weights, `held_out` judges them. By group.
struct MomentsPair {
  std::vector<LayerMoments> fit, held_out;
};

/// A layer to sum for, and its dense weights [all_rows, depth].
struct MomentsRequest {
  const PrunableWeights* layer = nullptr;
  std::span<const float> dense;
  bool squares_only = false;  ///< of layers whose depth is too large for H
};

struct MomentsOptions {
  int64_t conv_windows = 64;  ///< as HessianOptions
  int threads = 0;
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// In one pass over `samples`; rows are held out as by SumHessians. `golden` is the graph that the
/// layers were found in, `pruned` the same with other weights, nullptr: not yet. Layers without
/// sources are left out (empty pairs). Errors as SumHessians.
Result<std::vector<MomentsPair>> SumMoments(const Graph& golden, const Graph* pruned,
                                            std::span<const MomentsRequest> requests,
                                            const Samples& samples, const Backend& backend,
                                            const MomentsOptions& options);

/// Bytes that the pair of a request takes.
int64_t MomentsBytes(const MomentsRequest& request);

}  // namespace infer
