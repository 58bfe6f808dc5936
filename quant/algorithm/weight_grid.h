#pragma once
/// How the weights of layers will be stored. Algorithms that change weights before they are rounded
/// (pruning) round them on the way, so that what is still to come makes up for it.
#include <functional>
#include <map>
#include <string>

#include "lib/ir/graph.h"
#include "quant/calibrate/samples.h"
#include "quant/weight_only/block.h"

namespace infer {

struct WeightGrid {
  BlockGrid blocks;
  /// A row's scale is its largest |w| over the highest code, and the lowest code is not used: the
  /// f32 weights alone tell the codes. Of symmetric grids of one block.
  bool from_largest = false;
  bool one_scale = false;  ///< for all rows; with from_largest
  /// Codes on either side of the zero point; with from_largest.
  int top() const { return blocks.middle() - 1; }
};
/// Of integers of 8 bits, or 7 where the range is reduced: -127 to 127, -63 to 63.
inline WeightGrid IntegerGrid(bool reduce_range, bool one_scale) {
  return {{reduce_range ? 7 : 8, 0, /*symmetric=*/true, /*positive=*/true}, true, one_scale};
}

/// By the name of the constant. Weights that are not among them stay f32, or are rounded later.
using WeightGrids = std::map<std::string, WeightGrid>;

/// Changes weights of a graph that is prepared for quantization, in place; `original` is the graph
/// before that.
using WeightChange =
    std::function<Status(Graph& prepared, const Graph& original, const WeightGrids& grids)>;
/// The same, fitted to these samples and to no others.
using FittedChange = std::function<Status(Graph& prepared, const Graph& original,
                                          const WeightGrids& grids, const Samples& fit)>;

}  // namespace infer
