#pragma once
/// The weights to which the inputs of an interpolating Resize come, for kernels that run it.
#include <utility>
#include <vector>

#include "lib/ops/op_def.h"

namespace infer {

/// Weighted input indices of one output index; `outside`: the value is extrapolation_value.
struct ResizeTaps {
  std::vector<std::pair<int64_t, double>> taps;
  bool outside = false;
};

/// One axis that is resized, in the order in which the reference kernel goes over them.
struct ResizedAxis {
  int axis = 0;
  int64_t in = 0, out = 0;
  std::vector<ResizeTaps> results;
};

/// Of an operand of extents `dims`; axes that stay as they are are left out. Errors: see Resize.
Result<std::vector<ResizedAxis>> ResizedAxes(const OpCall& call, const Dims& dims,
                                             const Tensor* roi, const Tensor* scales,
                                             const Tensor* sizes);

}  // namespace infer
