#pragma once
/// The program that the executor runs: a plan, the kernels of its steps, the backends whose they
/// are, and the shape plans made so far.
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "runtime/plan_ir/one_builder.h"
#include "runtime/plan_ir/plan_program.h"
#include "runtime/plan_ir/shape_plan.h"

namespace infer {

class ExecutorProgram;

/// The program of a subgraph; `kept`: which inputs of the subgraph are inputs of the program.
struct BodyProgram {
  std::shared_ptr<const ExecutorProgram> program;
  std::vector<size_t> kept;
};
using BodyPrograms = std::unordered_map<const Graph*, BodyProgram>;
using CompileFn = std::function<Result<std::shared_ptr<const ExecutorProgram>>(const Graph&)>;

/// Results of a backend's compilation beside the plan.
struct ExecutorParts {
  std::vector<StepKernels> kernels;  ///< by step of the plan
  PlanBackends backends;             ///< StepKernels::backends counts these; the last is the host
  BodyPrograms bodies;               ///< of the plan's subgraphs
  CompileFn compile;                 ///< what data-dependent steps become a program by
  int lanes = 1;                     ///< that a run asks for
  Priority priority = Priority::kNormal;             ///< CompileOptions::priority
  std::shared_ptr<KernelChooser> chooser = nullptr;  ///< nullptr: the first that accepts
};

class ExecutorProgram final : public PlanProgram,
                              public std::enable_shared_from_this<ExecutorProgram> {
 public:
  /// `infos` describes the steps, with the first candidate's name as kernel.
  ExecutorProgram(Plan plan, std::vector<StepInfo> infos, ExecutorParts parts);
  ~ExecutorProgram() override;
  /// Builds the shape plan of the declared input shapes, and completes the steps from it. Where
  /// extents are not known, those of a plan with 1 in their place name the kernels; costs stay 0.
  /// Where all are known no other plan will come: kernels, and constants that no launch reads, go
  /// as soon as their step is planned.
  Status Prepare(const PlanObserver& observe = {});

  Result<std::unique_ptr<RunContext>> NewContext() const override;
  std::optional<PipelineInfo> pipelines() const override {
    return parts_.backends.front()->pipelines();
  }

  int lanes() const { return parts_.lanes; }
  const PlanBackends& backends() const { return parts_.backends; }
  /// The backend whose kernels work on host memory.
  const PlanBackend& host() const { return *parts_.backends.back(); }
  /// nullptr where all steps run on host memory.
  Device* device() const override { return parts_.backends.front()->device(); }
  const BodyPrograms& bodies() const { return parts_.bodies; }
  bool HasPlan(std::span<const Dims> input_dims) const {
    return cache_.Find(input_dims) != nullptr;
  }
  /// From the cache, or made by one of the threads that want it.
  Result<std::shared_ptr<const ShapePlan>> PlanFor(std::span<const Dims> input_dims,
                                                   ShapePlanHooks hooks = {}) const;
  /// The data-dependent steps of a plan of this program; its inputs and outputs are theirs.
  Result<std::shared_ptr<const ExecutorProgram>> LateProgram(const ShapePlan& plan) const;
  /// The constant in memory of the device, where all contexts read it. Pre: there is a device.
  Result<std::shared_ptr<DeviceMemory>> OnDevice(const Tensor& constant) const;
  /// ResourceExhausted where the device has no memory for the constants of a plan that are not
  /// there yet, and `more` bytes. Nothing is allocated.
  Status CheckRoom(const ShapePlan& plan, int64_t more) const;

 private:
  /// Large constants that all their readers pack: only their sources have the elements then.
  /// Returns their bytes. Before the first shape plan.
  int64_t LetElementsGo();
  /// Where the plan that Prepare made has not run, before the first that will: it goes, and forms
  /// of weights that only it reads can go. False: there is none.
  bool DropGuess() const;
  /// Says of steps that are not on the device why, where no kernel said it.
  void TellWhyOnHost(const ShapePlan& shapes);
  /// Decisions of the shape plan: layouts and launches, then memory.
  void Show(const PlanObserver& observe, const ShapePlan& shapes,
            std::span<const BufferOrigin> origins, double ms) const;

  Result<std::shared_ptr<const ShapePlan>> MakePlan(std::span<const Dims> input_dims,
                                                    ShapePlanHooks hooks,
                                                    const std::function<void()>& has_lanes) const;
  /// The remains of the last plan, for one that makes another; nullptr: there is only one.
  std::unique_ptr<PlanReuse> TakeReuse() const;

  ExecutorParts parts_;
  std::vector<bool> runs_bodies_;  // by step
  mutable OneBuilder<std::string, ExecutorProgram> late_builder_;
  mutable std::mutex late_mutex_;
  mutable std::map<std::string, std::shared_ptr<const ExecutorProgram>> late_;
  mutable OneBuilder<std::vector<Dims>, ShapePlan> plan_builder_;
  mutable ShapePlanCache cache_;
  mutable std::mutex reuse_mutex_;
  mutable std::unique_ptr<PlanReuse> reuse_;  // of the last plan; nullptr while another has it
  mutable std::mutex guess_mutex_;
  mutable std::shared_ptr<const ShapePlan> guess_;  // Prepare's, with 1 for what is open
  struct DeviceConstant {
    Tensor host;  // whose address is the key
    std::shared_ptr<DeviceMemory> memory;
  };
  mutable std::mutex constants_mutex_;
  mutable std::map<const std::byte*, DeviceConstant> constants_;
};

}  // namespace infer
