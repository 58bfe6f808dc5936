#pragma once
/// The CPU program: a plan, the kernels of its steps, and the shape plans made so far.
#include <memory>

#include "runtime/plan_ir/plan_program.h"
#include "runtime/plan_ir/shape_plan.h"

namespace infer {

class CpuProgram final : public PlanProgram, public std::enable_shared_from_this<CpuProgram> {
 public:
  /// `infos` describes the steps, with the first candidate's name as kernel.
  CpuProgram(Plan plan, std::vector<StepKernels> kernels, std::vector<StepInfo> infos, int lanes)
      : PlanProgram(std::move(plan), std::move(infos)),
        kernels_(std::move(kernels)),
        lanes_(lanes) {}
  /// Builds the shape plan of the declared input shapes, and completes the steps from it. Where
  /// extents are not known, those of a plan with 1 in their place name the kernels; costs stay 0.
  Status Prepare();

  Result<std::unique_ptr<RunContext>> NewContext() const override;

  int lanes() const { return lanes_; }
  Result<std::shared_ptr<const ShapePlan>> PlanFor(std::span<const Dims> input_dims) const;

 private:
  std::vector<StepKernels> kernels_;
  int lanes_;
  mutable ShapePlanCache cache_;
};

}  // namespace infer
