#pragma once
/// The kernels of the Vulkan backend, one list per family.
#include "runtime/vulkan/kernels/shader_kernel.h"

namespace infer::vulkan {

KernelList ElementwiseKernels(const Facts& facts);  ///< functions of one, two, three operands

/// All of them, in order of preference for one operator.
KernelList AllKernels(const Facts& facts);
/// The launch that copies an operand to a result of the same size.
Prepared MakeCopy();

}  // namespace infer::vulkan
