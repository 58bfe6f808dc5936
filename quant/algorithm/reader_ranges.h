#pragma once
/// Ranges by what the reader does: a value that only element-wise functions read (SiLU, hard-swish,
/// Sigmoid, Clip...) need not be told apart where those functions are flat. Cutting such an end off
/// costs at most a part of one step of the function's own result, and leaves a finer grid for the
/// rest: the -50 before a SiLU is as good as -6. Own method; the function is the graph's own nodes,
/// evaluated on points of the range.
#include "quant/scheme/quantize.h"

namespace infer {

/// Narrows `model.ranges` and returns how many. `tolerance`: in steps of a 256-step grid over what
/// the functions return.
Result<int> NarrowByReaders(StaticModel& model, const Graph& original, double tolerance = 0.25);

}  // namespace infer
