#pragma once
/// The numbers of a convolution or pooling window, as oneDNN wants them.
#include "lib/ops/conv/conv_geometry.h"
#include "runtime/plan_ir/kernel.h"

namespace infer {

struct Spatial {
  Dims kernel, strides, dilations, pads_begin, pads_end;
};

/// Of `node` for extents `src` [N, C, i...] and `dst` [N, C, o...]. The end paddings are those with
/// which exactly `dst` results (ceil_mode, output_padding). Unsupported when there are none.
Result<Spatial> SpatialOf(const Node& node, const Dims& kernel, const Dims& src, const Dims& dst,
                          bool transposed);

}  // namespace infer
