#pragma once
/// Ways of rounding weights that need no data. Each keeps round to nearest for a block where it
/// finds nothing better in its own measure.
///
///   nearest  one rounding; what ONNX Runtime's default does.
///   mse      the scale (and sign, zero point) of each block of least squared error: shrunk ranges,
///            then least squares of the scale for the codes found.
///   hqq      half-quadratic quantization (Badri and Shaji 2023, mobiusml.github.io/hqq_blog): the
///            error is measured as sum |e|^0.7, so that a few large weights may err; a proximal
///            step takes the outliers out, and the rest is solved for. Unlike the original, whose
///            zero points are real numbers, zero points here are integers as file formats hold
///            them; so the scale is solved for too. Errors count in steps of the first scale.
#include "quant/weight_only/block.h"

namespace infer {

BlockRounder NearestRounder();
BlockRounder MseRounder();
BlockRounder HqqRounder();

/// One of the above by name. InvalidArgument, with the names, for others.
Result<BlockRounder> RounderNamed(std::string_view name);
std::vector<std::string> RounderNames();

/// The two by block, for rounders that need more: parameters of least squared error, weighted by
/// `importance` (as long as the block, or empty), at most that of ChooseBlockParams().
BlockParams SearchBlockParams(std::span<const float> block, const BlockGrid& grid,
                              std::span<const float> importance = {});

}  // namespace infer
