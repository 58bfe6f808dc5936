#pragma once
/// What the CPU's integer kernels ask of a product beside runtime/plan_ir/groups/quant_product.h.
#include "runtime/plan_ir/groups/quant_product.h"

namespace infer {

/// 255 (|w1| + |w2|) <= 32767 for any two weights of one channel: no pair that an instruction may
/// add in 16 bits overflows.
bool PairsFit16Bits(const Tensor& w, int64_t channels, bool channels_first);

/// What the step must be for any of these kernels; "" when it is.
std::string RefuseProductGroup(const StepCall& call);

/// A convolution of several groups that Int8PairKernels take: they multiply the image where it
/// lies, also on instruction sets on which oneDNN has exact products, where that gathers windows.
bool PairsGatherNothing(const StepCall& call);

}  // namespace infer
