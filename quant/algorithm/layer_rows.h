#pragma once
/// The rows that a weighted layer multiplies its weights with, read from the value that it reads:
/// what every sum over calibration data is made of.
#include "lib/support/function_ref.h"
#include "quant/algorithm/hessian.h"

namespace infer {

/// Told `count` rows [count, source.depth] of `group`. Groups come in order, 0 first.
using SeeRows = FunctionRef<void(const float* rows, int64_t count, int64_t group)>;

/// Calls `see` with the rows of `source` in its value `x`. Of windows and positions at most `most`
/// are taken of each image, evenly spaced, and shifted by `run` so that every one gets its turn:
/// two values of the same extents give the same places. InvalidModel: `x` has no such rows.
Status ForRows(const RowSource& source, const Tensor& x, int64_t run, int64_t most, SeeRows see);

/// Whether sample `index` of many is kept to judge what was fitted to the others.
inline bool IsHeldOutSample(int64_t index) { return index % 4 == 3; }

}  // namespace infer
