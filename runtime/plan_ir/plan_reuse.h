#pragma once
/// PlanReuse: what one shape plan of a program leaves for the next. Where only some extents differ,
/// as between two steps of a decoder whose caches grow, most steps are as they were. Internal to
/// runtime/plan_ir.
#include <unordered_map>

#include "runtime/plan_ir/specialize.h"

namespace infer {

/// What each kernel said when it was asked last. Not thread-safe.
class PreparedKernels {
 public:
  /// As kernel.Prepare(in, out), which is asked only where operands, results or the lanes of the
  /// calling thread are others than the time before. The kernel outlives it.
  Result<Prepared> Prepare(const Kernel& kernel, std::span<const Operand> in,
                           std::span<const Operand> out);

 private:
  struct Seen {
    Operand operand;
    Tensor constant;  // keeps the elements, so that their address tells them
  };
  struct Answer {
    int lanes = 0;
    std::vector<Seen> in, out;
    Result<Prepared> prepared = Prepared();
  };
  static bool Same(const std::vector<Seen>& seen, std::span<const Operand> now);
  static std::vector<Seen> Keep(std::span<const Operand> now);

  std::unordered_map<const Kernel*, Answer> answers_;
};

struct PlanReuse {
  explicit PlanReuse(const Plan& plan) : specializer(plan) {}
  Specializer specializer;
  PreparedKernels kernels;
};

}  // namespace infer
