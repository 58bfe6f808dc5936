#pragma once
/// The CPU program: a plan, the kernels of its steps, and the shape plans made so far.
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "runtime/cpu/tune.h"
#include "runtime/plan_ir/plan_program.h"

namespace infer {

class CpuProgram;

/// The program of a subgraph; `kept`: which inputs of the subgraph are inputs of the program.
struct CpuBody {
  std::shared_ptr<const CpuProgram> program;
  std::vector<size_t> kept;
};
using CpuBodies = std::unordered_map<const Graph*, CpuBody>;
using CompileFn = std::function<Result<std::shared_ptr<const CpuProgram>>(const Graph&)>;

class CpuProgram final : public PlanProgram, public std::enable_shared_from_this<CpuProgram> {
 public:
  /// `infos` describes the steps, with the first candidate's name as kernel.
  /// `bodies`: of the plan's subgraphs. `compile`: what late steps become a program by.
  CpuProgram(Plan plan, std::vector<StepKernels> kernels, std::vector<StepInfo> infos,
             CpuBodies bodies, CompileFn compile, int lanes, std::shared_ptr<Tuner> tuner)
      : PlanProgram(std::move(plan), std::move(infos)),
        kernels_(std::move(kernels)),
        bodies_(std::move(bodies)),
        compile_(std::move(compile)),
        lanes_(lanes),
        tuner_(std::move(tuner)) {}
  /// Builds the shape plan of the declared input shapes, and completes the steps from it. Where
  /// extents are not known, those of a plan with 1 in their place name the kernels; costs stay 0.
  /// Where all are known no other plan will come: kernels, and constants that no launch reads, go
  /// as soon as their step is planned.
  Status Prepare(const PlanObserver& observe = {});

  Result<std::unique_ptr<RunContext>> NewContext() const override;

  int lanes() const { return lanes_; }
  const CpuBodies& bodies() const { return bodies_; }
  bool HasPlan(std::span<const Dims> input_dims) const {
    return cache_.Find(input_dims) != nullptr;
  }
  Result<std::shared_ptr<const ShapePlan>> PlanFor(std::span<const Dims> input_dims,
                                                   ShapePlanHooks hooks = {}) const;
  /// The late steps of a plan of this program; its inputs and outputs are theirs.
  Result<std::shared_ptr<const CpuProgram>> LateProgram(const ShapePlan& plan) const;

 private:
  /// What the shape plan decides: layouts and launches, then memory.
  void Show(const PlanObserver& observe, const ShapePlan& shapes,
            std::span<const BufferOrigin> origins, double ms) const;

  std::vector<StepKernels> kernels_;
  CpuBodies bodies_;
  CompileFn compile_;
  mutable std::mutex late_mutex_;
  mutable std::map<std::string, std::shared_ptr<const CpuProgram>> late_;
  int lanes_;
  std::shared_ptr<Tuner> tuner_;  // nullptr: the first kernel that accepts
  mutable ShapePlanCache cache_;
};

}  // namespace infer
