#pragma once
/// Walks over the elements of a result by strides, as shaders take them: few axes, neighbours that
/// every operand walks alike joined to one.
#include <vector>

#include "lib/tensor/shape.h"

namespace infer::vulkan {

struct Walk {
  Dims dims;                  ///< at least one axis
  std::vector<Dims> strides;  ///< by operand, in elements, as dims; 0 repeats
};
/// Of strides by operand for a result of extents `dims`.
Walk Joined(const Dims& dims, const std::vector<Dims>& strides);
/// Of operands that broadcast to `dims`. Pre: they do.
Walk BroadcastWalk(const Dims& dims, const std::vector<Dims>& operands);

}  // namespace infer::vulkan
