#pragma once
/// Kernels of the mock device: few, plain, and of every kind that the executor has to serve: a
/// layout of blocks of four channels, results in the memory of operands, weights of the kernel's.
#include "runtime/plan_ir/kernel.h"

namespace infer::mock {

/// Conv of two spatial axes, unary operators, Add; all f32.
KernelList Kernels();

/// [N, ceil(C / 4), spatial.., 4] of f32 [N, C, spatial..]; what fills the last block up is 0.
Layout BlockedBy4(const Dims& dims);
/// Between row-major and BlockedBy4.
Result<Prepared> Reorder(DType dtype, const Dims& dims, const Layout& from, const Layout& to);

}  // namespace infer::mock
