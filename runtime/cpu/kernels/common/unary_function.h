#pragma once
/// Which loop computes a unary f32 operator: as a kernel of its own, or behind a product.
#include "runtime/cpu/simd/loops.h"
#include "runtime/plan_ir/kernel.h"

namespace infer {

struct UnaryFunction {
  simd::Unary kind = simd::Unary::kAbs;
  float a = 1, b = 0;       ///< the loop's parameters
  bool keeps_zero = false;  ///< f(0) = 0: padding of a blocked layout stays zero
};

/// Of `node` in the step of `call`. Unsupported: no such operator, or a bound or bias that only a
/// run knows.
Result<UnaryFunction> UnaryFunctionOf(const StepCall& call, const Node& node);

/// (operator, domain) of all that UnaryFunctionOf may know.
std::vector<std::pair<std::string_view, std::string_view>> UnaryOperators();

}  // namespace infer
