#pragma once
/// The steps of a compiled graph one by one: each by the kernel, the layouts and the lanes that it
/// has in the whole program, so that kernels can be checked and timed on the shapes of real models.
#include "runtime/cpu/backend.h"
#include "runtime/plan_ir/lanes.h"
#include "runtime/plan_ir/shape_plan.h"

namespace infer {

/// A kernel that takes a step.
struct StepKernel {
  size_t step = 0;   ///< of the plan
  std::string name;  ///< in the list of kernels, under the operator of the step's main node
  bool chosen = true;
  bool alone = false;  ///< the program runs it on the calling thread only
  std::vector<Operand> in, out;
  Prepared prepared;
  /// "onednn:jit:avx512_core", or the name in the list.
  const std::string& implementation() const { return prepared.name.empty() ? name : prepared.name; }
};

class IsolatedSteps {
 public:
  /// Compiles `graph` as the cpu backend does with these kernels, for inputs of these extents
  /// (empty for one that is no tensor), and keeps its constants. Bodies of control flow stay on
  /// reference kernels.
  static Result<IsolatedSteps> Make(Graph graph, std::span<const Dims> input_dims,
                                    const KernelList& kernels, const CompileOptions& options);

  const Plan& plan() const { return *plan_; }
  const ShapePlan& shapes() const { return *shapes_; }
  /// With the cost of these shapes.
  const StepInfo& info(size_t step) const { return infos_[step]; }
  /// What the program runs; nullptr: reference kernels, or nothing, as the values are known before.
  const StepKernel* kernel(size_t step) const {
    return chosen_[step].out.empty() ? nullptr : &chosen_[step];
  }
  /// A run executes it, now or as a late step.
  bool IsRun(size_t step) const;
  int lanes() const { return lanes_; }  ///< of a run
  /// The other kernels of the list that accept the step as it stands in the program.
  std::vector<StepKernel> Others(size_t step) const;

 private:
  IsolatedSteps() = default;
  Status Compile(Graph graph, std::span<const Dims> input_dims, const KernelList& kernels,
                 const CompileOptions& options);

  std::unique_ptr<Plan> plan_;  // operands point into it
  std::vector<StepInfo> infos_;
  std::vector<StepKernels> candidates_;  // by step
  std::vector<StepKernel> chosen_;       // by step
  std::shared_ptr<const ShapePlan> shapes_;
  int lanes_ = 1;
};

/// A kernel on memory of its own. Results do not take the memory of operands, as they may in a
/// program.
class StepRun {
 public:
  /// `operands`: by step input, row-major. The kernel's constants outlive the run.
  static Result<StepRun> Make(const StepKernel& kernel, std::span<const Tensor> operands);
  /// Nothing runs: result 0 is operand 0 under other extents.
  bool is_view() const { return !launch_; }
  /// The kernel alone, without copies into other layouts. A result that the kernel adds to grows
  /// from run to run. Pre: the caller holds Lanes. Allocates nothing.
  Status Run() { return launch_ ? launch_->Run(args_.data(), state_.get()) : Status(); }
  /// What the last run made, row-major.
  Result<std::vector<Tensor>> Results() const;

  /// The lanes on which a step runs, held as long as this lives.
  class Lanes {
   public:
    explicit Lanes(const StepKernel& kernel, int lanes)
        : held_(*CpuHost(), kernel.alone ? 1 : lanes) {}
    int lanes() const { return held_.lanes(); }

   private:
    HeldLanes held_;
  };

 private:
  struct Made {
    DType dtype;
    Dims dims;
    Layout layout;
    const std::byte* data;
  };
  std::byte* New(int64_t bytes);

  std::shared_ptr<const Launch> launch_;
  std::unique_ptr<LaunchState> state_;
  std::vector<std::byte*> args_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::vector<Made> results_;
};

}  // namespace infer
