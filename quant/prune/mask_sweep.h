#pragma once
/// The sweep of SparseGPT over a layer (input_sweep.h), with codes on the way where weights are
/// rounded, too: in one pass over the inputs weights become zero or take a code, and the inputs
/// still to come make up for both. No graph here.
///
/// Source: Frantar and Alistarh, SparseGPT (arXiv 2301.00774), section 3.5 for the joint form.
#include "quant/algorithm/input_sweep.h"
#include "quant/prune/pattern.h"
#include "quant/weight_only/block.h"

namespace infer {

/// A layer after pruning.
struct PrunedMatrix {
  std::vector<float> weights;  ///< [all_rows, depth]; 0 where `keep` is 0, and where they were 0
  std::vector<double> shift;   ///< by row, added to the result; empty: none
  KeepMask keep;
};

struct MaskSweepRequest {
  const WeightPlane& plane;
  const SparsityPattern& pattern;
  std::span<const float> dense;       ///< [all_rows, depth]: what is 0 there stays 0
  int64_t units = 0;                  ///< that become zero
  const KeepMask* decided = nullptr;  ///< which weights stay; nullptr: the sweep chooses
  /// Scales and zero points, [all_rows, depth] in blocks: weights that stay are rounded with them;
  /// nullptr: they are not rounded.
  const BlockQuantized* grid = nullptr;
  int least = 0;  ///< lower codes are not used
};

/// `sweeps`: one for each group, of the weights that are aimed for. N:M chooses where a group
/// begins; else a block of inputs gives up its part of `units`.
PrunedMatrix SweepMask(const MaskSweepRequest& request, std::vector<InputSweep> sweeps);

}  // namespace infer
