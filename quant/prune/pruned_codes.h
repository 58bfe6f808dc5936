#pragma once
/// Codes for the weights that pruning has left of a layer; zeros stay zero points. No graph here.
#include "quant/algorithm/weight_grid.h"
#include "quant/prune/second_order.h"

namespace infer {

/// How codes are found, given weights whose zeros and scales are known.
enum class CodeWay : uint8_t {
  kNearest,  ///< each by itself
  kSweep,    ///< GPTQ's sweep over the weights that stay
  kJoint,    ///< a sweep that chooses zeros and codes together (mask_sweep.h)
};
std::string_view Name(CodeWay way);

struct PrunedCodes {
  PrunedMatrix matrix;   ///< the numbers that the codes stand for
  BlockQuantized codes;  ///< [all_rows, depth]
};

struct CodesRequest {
  const WeightPlane& plane;
  std::span<const float> dense;  ///< what is 0 there stays 0
  const WeightGrid& grid;
  const PrunedMatrix& pruned;  ///< gives the scales, and but for kJoint the zeros
  CodeWay way = CodeWay::kNearest;
};

/// Scales from the pruned weights (of blocks clipped by H), then codes; but for kNearest coordinate
/// descent over them (gptq.h) towards what `moments` aims for. `moments`: nullptr without any, for
/// kNearest alone. The shift is that of the request's weights. Unsupported: H cannot be factorised.
Result<PrunedCodes> FindCodes(const CodesRequest& request, SecondOrder* moments);

}  // namespace infer
