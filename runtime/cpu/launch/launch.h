#pragma once
/// Launches of our own kernels: a function over the argument pointers.
#include <utility>

#include "lib/support/parallel.h"
#include "runtime/plan_ir/function_kernel.h"

namespace infer {

template <typename F>
class FunctionLaunch final : public Launch {
 public:
  explicit FunctionLaunch(F f) : f_(std::move(f)) {}
  Status Run(std::byte* const* args, LaunchState*) const override {
    f_(args);
    return {};
  }

 private:
  F f_;
};

/// `f(args)` with std::byte* const* args; it neither fails nor allocates.
template <typename F>
std::shared_ptr<const Launch> LaunchOf(F f) {
  return std::make_shared<FunctionLaunch<F>>(std::move(f));
}

template <typename T>
const T* As(const std::byte* p) {
  return reinterpret_cast<const T*>(p);
}
template <typename T>
T* As(std::byte* p) {
  return reinterpret_cast<T*>(p);
}

/// Element type of a tensor; kUndefined where the value is missing or none.
inline DType ElementTypeOf(const Value* v) {
  return v && v->type().is_tensor() ? v->dtype() : DType::kUndefined;
}

/// ParallelFor without its cost where one lane takes everything.
template <typename F>
void ForRange(int64_t n, int64_t grain, const F& f) {
  if (n <= grain)
    f(int64_t{0}, n);
  else
    ParallelFor(n, grain, [&f](int64_t begin, int64_t end) { f(begin, end); });
}

/// Copies `bytes` from operand 0 to result 0.
Prepared MakeCopy(int64_t bytes);

}  // namespace infer
