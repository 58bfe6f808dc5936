#pragma once
/// Groups DQ -> Conv | MatMul | Gemm [-> Relu, Clip] [-> Q, with a residual] on our own products of
/// bytes: what these take, and what makes a result of a sum.
#include "runtime/cpu/kernels/int8/int8_product.h"
#include "runtime/cpu/simd/bytes.h"

namespace infer {

/// "" where RefuseProductGroup says so and simd::ByteFinish has the activations.
std::string RefuseByteFinish(const StepCall& call);

/// A zero point among unsigned bytes.
int32_t UnsignedZero(const QuantParams8& p);

/// Rounds as kernel_int8.cc does, bit for bit. Pre: RefuseByteFinish said "".
simd::ByteFinish ByteFinishOf(const QuantGroup& group, const ProductScales& scales);

}  // namespace infer
