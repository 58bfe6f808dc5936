#pragma once
/// What a kernel made of a step beside what the reference kernels make of it, by the rules of the
/// backend suites (tests/suites).
#include <span>
#include <string>
#include <vector>

#include "runtime/cpu/exec/isolated_steps.h"

namespace infer::bench {

struct StepCheck {
  double error = 0;      ///< floats: the worst max|d| / max|ref| of the results
  double tolerance = 0;  ///< that it may be
  int64_t unequal = 0;   ///< elements of other results that differ
  std::string wrong;     ///< "" where the kernel is right; else in what
  bool ok() const { return wrong.empty(); }
};

/// The largest tolerance of the step's operators, at least 1e-5 where it computes floats; 2e-5 for
/// kernels that change rounding (Winograd's, Strassen's); one unit of the last place of the
/// coarsest type that is rounded to.
double ToleranceOf(const PlanStep& step, const StepKernel& kernel);

/// Codes of a quantization may be off by one in one element of 1000, since its real number may lie
/// on a border; what is no float is else equal, and NaN and infinity stand where the reference has
/// them. InvalidModel: other types or extents.
Result<StepCheck> CheckStep(const PlanStep& step, const StepKernel& kernel,
                            std::span<const Tensor> want, std::span<const Tensor> got);

}  // namespace infer::bench
