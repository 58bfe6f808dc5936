#pragma once
/// Products in bf16 (Compute::kBF16): which steps they are of, and their rounding alone where the
/// processor has no instructions for them.
#include <memory>

#include "runtime/cpu/onednn/onednn.h"

namespace infer {

/// What a product multiplies. All sum in f32.
enum class Numbers : uint8_t {
  kF32,
  kBf16,     ///< by instructions for bf16
  kRounded,  ///< operands rounded to bf16, multiplied as f32
};
/// kBf16 or kRounded, as this processor can.
Numbers Bf16Numbers();

/// With fewer multiplications, or fewer for each element of the operand, conversions take longer
/// than bf16 gains. The same on every processor, so that the same layers are rounded
/// (docs/adr/0036-bf16-products.md).
inline constexpr int64_t kLeastForBf16 = 500'000, kLeastPerElement = 16;
/// Of a product of `x` by constant weights `w` with the result `y`.
int64_t MultiplicationsOf(const Node& node, const Dims& x, const Dims& w, const Dims& y);
/// "" where a product by weights may be multiplied in bf16, as far as is known before its extents
/// are; else why not. Whether oneDNN's kernel takes it, the kernel says.
std::string RefuseBf16(const StepCall& call);
/// The same of extents.
Status CheckPaysInBf16(const Node& node, const Dims& x, const Dims& w, const Dims& y);

/// Each element rounded to bf16, to nearest, halves to even.
Tensor RoundedToBf16(const Tensor& t);

/// Numbers::kRounded: `p`, made in f32 for rounded weights, with operand `x` of `x_bytes` rounded
/// before each run, and its result, of `y_bytes`, after it where that would lie in bf16
/// (`y_bytes` > 0).
Prepared WithRounding(Prepared p, int operands, int x, int64_t x_bytes, int64_t y_bytes);

}  // namespace infer
