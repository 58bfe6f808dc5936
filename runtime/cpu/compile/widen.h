#pragma once
/// f16 and bf16 on f32 kernels: casts around every node that has no kernel of its own for them.
/// Each result is rounded to its type, as the reference kernels round it, unless values stay wide.
#include "runtime/plan_ir/kernel.h"

namespace infer {

/// Puts casts around the nodes that some kernel of the list computes in f32. `stay_wide`: what such
/// a node reads of another one it reads in f32, before it is rounded; moves between them are of
/// f32.
Status WidenHalves(Graph& g, const KernelList& kernels, bool stay_wide);

}  // namespace infer
