#pragma once
/// A Kernel from a function that prepares it.
#include <algorithm>
#include <utility>

#include "runtime/plan_ir/kernel.h"

namespace infer {

/// No operand or result has zero elements. Fast kernels leave such tensors to the reference.
inline bool NoneEmpty(std::span<const Operand> in, std::span<const Operand> out) {
  auto full = [](const Operand& o) { return NumElements(o.dims) > 0; };
  return std::all_of(out.begin(), out.end(), full) &&
         std::all_of(in.begin(), in.end(), [&](const Operand& o) { return o.constant || full(o); });
}

template <typename F>
class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(F f) : f_(std::move(f)) {}
  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    return f_(in, out);
  }

 private:
  F f_;
};
template <typename F>
std::unique_ptr<Kernel> KernelOf(F f) {
  return std::make_unique<FunctionKernel<F>>(std::move(f));
}

}  // namespace infer
