#include "tools/infer_bench/kernels/step_check.h"

#include <algorithm>
#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/accuracy/metrics.h"

namespace infer::bench {
namespace {

constexpr double kFloats = 1e-5, kOtherRounding = 2e-5;
constexpr double kHalfUnit = 1.0 / 1024, kBFloatUnit = 1.0 / 128;
constexpr int64_t kIsolated = 1000;  // one code in so many may be off by one

/// Some result is a real number rounded to a code.
bool Quantizes(const PlanStep& step) {
  return std::any_of(step.nodes.begin(), step.nodes.end(), [](const Node* n) {
    return n->op() == "QuantizeLinear" || n->op() == "DynamicQuantizeLinear" ||
           n->op().starts_with("QLinear");
  });
}

/// "result 0: 3 codes of 12 off, by up to 2"; "" where they are near enough.
std::string CodesAreOff(const Tensor& want, const Tensor& got, StepCheck& check) {
  int64_t off = 0, worst = 0;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const int64_t d = std::abs(got.IntAt(i) - want.IntAt(i));
    off += d != 0;
    worst = std::max(worst, d);
  }
  check.unequal += off;
  if (worst <= 1 && off <= std::max<int64_t>(1, want.num_elements() / kIsolated)) return "";
  return Cat(off, " codes of ", want.num_elements(), " off, by up to ", worst);
}

/// In what `got` is wrong; "" where it is right.
Result<std::string> Difference(const Tensor& want, const Tensor& got, bool codes,
                               StepCheck& check) {
  if (ToString(want.type()) != ToString(got.type()))
    return Cat(ToString(got.type()), " instead of ", ToString(want.type()));
  if (codes && IsInteger(want.dtype())) return CodesAreOff(want, got, check);
  TensorComparer comparer;
  INFER_TRY(comparer.Add(want, got));
  const TensorMetrics m = comparer.metrics();
  check.error = std::max(check.error, m.max_error_ratio);
  check.unequal += m.unequal;
  if (m.non_finite_mismatches > 0)
    return Cat(m.non_finite_mismatches, " NaN or infinities where the other has none");
  if (m.unequal > 0) return Cat(m.unequal, " elements of ", m.elements, " differ");
  if (m.max_error_ratio > check.tolerance)
    return Cat("max|d| / max|ref| is ", Rounded(m.max_error_ratio, 3), ", at most ",
               Rounded(check.tolerance, 3), " may be");
  return std::string();
}

}  // namespace

double ToleranceOf(const PlanStep& step, const StepKernel& kernel) {
  double tolerance = kFloats;
  for (const Node* n : step.nodes) {
    tolerance = std::max(tolerance, n->def().tolerance);
    for (const Value* v : n->outputs()) {
      if (!v || !v->type().is_tensor()) continue;
      if (v->dtype() == DType::kF16) tolerance = std::max(tolerance, kHalfUnit);
      if (v->dtype() == DType::kBF16) tolerance = std::max(tolerance, kBFloatUnit);
    }
  }
  for (std::string_view name : {"winograd", "strassen"})
    if (kernel.name.find(name) != std::string::npos)
      tolerance = std::max(tolerance, kOtherRounding);
  return tolerance;
}

Result<StepCheck> CheckStep(const PlanStep& step, const StepKernel& kernel,
                            std::span<const Tensor> want, std::span<const Tensor> got) {
  StepCheck check{.tolerance = ToleranceOf(step, kernel)};
  INFER_CHECK(want.size() == got.size());
  const bool codes = Quantizes(step);
  for (size_t i = 0; i < want.size(); ++i) {
    INFER_ASSIGN(const std::string wrong, Difference(want[i], got[i], codes, check));
    if (!wrong.empty() && check.wrong.empty()) check.wrong = Cat("result ", i, ": ", wrong);
  }
  return check;
}

}  // namespace infer::bench
