#pragma once
/// A sum or product of bytes whose extents broadcast, by loops over contiguous bytes.
#include "runtime/cpu/simd/loops.h"
#include "runtime/plan_ir/kernel.h"

namespace infer {

struct ByteBinary {
  simd::Loops::Int8Fn loop = nullptr;
  simd::Int8Params params;
  int a = -1, b = -1;  ///< operands of the step that the loop reads
};

/// Of 8-bit operands that broadcast to `out`. An operand of the result's extents keeps its layout
/// where that is channels last (or any other, where both have these extents); the other one is
/// repeated in tiles that stay in L1. How lanes cut the work does not change a bit.
Result<Prepared> PrepareByteBinary(const ByteBinary& op, std::span<const Operand> in,
                                   const Operand& out);

}  // namespace infer
