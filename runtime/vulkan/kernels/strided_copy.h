#pragma once
/// Copies by strides (shaders/move.comp), as dispatches of a launch.
#include "runtime/vulkan/kernels/shader_kernel.h"

namespace infer::vulkan {

/// `extents` of the part that moves, strides and first elements on both sides.
struct StridedCopy {
  Dims extents, from_strides, to_strides;
  int64_t from = 0, to = 0;
};

/// Elements of `bytes` each from `x` to `y`; nothing where there are none. Unsupported: too many
/// axes.
Status AddCopy(LaunchBuilder& b, LaunchBuilder::Arg x, LaunchBuilder::Arg y, const StridedCopy& c,
               int64_t bytes);

}  // namespace infer::vulkan
