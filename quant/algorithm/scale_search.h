#pragma once
/// Scales chosen by what they do to a layer's outputs, which the second moments H of its operand
/// tell without running it: clipped block scales, and scales of the inputs that make the inputs
/// which matter easier to round (AWQ, Lin et al., arXiv 2306.00978). Every choice is compared with
/// plain rounding by the same error, and nothing is chosen that loses. No graph here.
#include <functional>

#include "quant/algorithm/gptq.h"

namespace infer {

/// Rounds to nearest with, for each block, the clipped scale whose error is least under the block's
/// own part of `h`. A symmetric block may also take the opposite sign, which gives its largest
/// element the other end of the range.
BlockQuantized SearchClip(const BlockWeights& w, const BlockGrid& grid, std::span<const float> h);

/// Weights of one layer of those that read the same operand, [rows, depth].
struct ScaleReader {
  BlockWeights w;
  BlockGrid grid;
};

struct InputScales {
  std::vector<float> scale;  ///< [depth], the weights' factors; empty: nothing gained
  double exponent = 0;       ///< of the inputs' magnitudes
  double plain_error = 0;    ///< without scales, held out, summed over the readers
  double error = 0;          ///< with `scale`; at most plain_error
};

/// Rounds `w` knowing `h` from `rows` rows of data.
using ScaleRounder = std::function<BlockQuantized(const BlockWeights& w, const BlockGrid& grid,
                                                  std::span<const float> h, int64_t rows)>;

/// Tries scale[k] = rms(x_k)^a for a in (0, 1], normalised so that the largest times the smallest
/// is 1. Chosen on h.fit with plain rounding; kept where `round` errs less with it on h.held_out
/// than it and plain rounding do without. Pre: one group.
InputScales SearchInputScales(std::span<const ScaleReader> readers, const HessianPair& h,
                              const ScaleRounder& round);

/// Weights times `scale` along the depth.
std::vector<float> ScaleWeights(const BlockWeights& w, std::span<const float> scale);
/// H of the operand divided by `scale`.
std::vector<float> ScaleMoments(std::span<const float> h, std::span<const float> scale);

}  // namespace infer
