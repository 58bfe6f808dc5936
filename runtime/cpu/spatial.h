#pragma once
/// Strides, dilations and explicit paddings of a convolution or pooling node for given extents.
#include "runtime/plan_ir/kernel.h"

namespace infer {

struct Window {
  Dims kernel, strides, dilations, pads_begin, pads_end;
};

/// `src` and `dst` are [N, C, spatial...]. Resolves auto_pad; dst decides SAME_*. Unsupported for
/// negative padding.
Result<Window> WindowOf(const Node& node, const Dims& kernel, const Dims& src, const Dims& dst);

}  // namespace infer
