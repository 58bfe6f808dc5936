#include "runtime/cpu/exec/isolated_steps.h"

#include <algorithm>

#include "runtime/cpu/backend.h"
#include "runtime/cpu/compile/compile.h"
#include "runtime/cpu/exec/small_steps.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/plan_ir/bodies.h"
#include "runtime/plan_ir/lanes.h"
#include "runtime/plan_ir/wanted_layout.h"

namespace infer {
namespace {

/// Keeps what a kernel was asked for and said, when it accepts.
class Recorder final : public Kernel {
 public:
  Recorder(std::shared_ptr<const Kernel> inner, std::string name, size_t step, StepKernel* kept)
      : inner_(std::move(inner)), name_(std::move(name)), step_(step), kept_(kept) {}
  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    INFER_ASSIGN(Prepared p, inner_->Prepare(in, out));
    *kept_ = {.step = step_,
              .name = name_,
              .in = {in.begin(), in.end()},
              .out = {out.begin(), out.end()},
              .prepared = p};
    return p;
  }
  bool checks_extents() const override { return inner_->checks_extents(); }

 private:
  std::shared_ptr<const Kernel> inner_;
  std::string name_;
  size_t step_;
  StepKernel* kept_;
};

std::vector<StepKernels> Recording(const std::vector<StepKernels>& candidates,
                                   std::vector<StepKernel>& kept) {
  std::vector<StepKernels> out(candidates.size());
  for (size_t s = 0; s < candidates.size(); ++s)
    for (size_t k = 0; k < candidates[s].kernels.size(); ++k) {
      out[s].names.push_back(candidates[s].names[k]);
      out[s].kernels.push_back(std::make_shared<Recorder>(candidates[s].kernels[k],
                                                          candidates[s].names[k], s, &kept[s]));
    }
  for (size_t s = 0; s < candidates.size(); ++s) out[s].parts = candidates[s].parts;
  return out;
}

Status Reorder(DType dtype, const Dims& dims, const Layout& from, const std::byte* source,
               const Layout& to, std::byte* target) {
  INFER_ASSIGN(const Prepared p, onednn::MakeReorder(dtype, dims, from, to));
  const auto scratch = Buffer::Allocate(static_cast<size_t>(p.scratch_bytes));
  std::byte* args[] = {const_cast<std::byte*>(source), target, scratch->mutable_data()};
  const auto state = p.launch->NewState();
  return p.launch->Run(args, state.get());
}

}  // namespace

Result<IsolatedSteps> IsolatedSteps::Make(Graph graph, std::span<const Dims> input_dims,
                                          const KernelList& kernels,
                                          const CompileOptions& options) {
  IsolatedSteps steps;
  INFER_TRY(steps.Compile(std::move(graph), input_dims, kernels, options));
  return steps;
}

Status IsolatedSteps::Compile(Graph graph, std::span<const Dims> input_dims,
                              const KernelList& kernels, const CompileOptions& options) {
  const CompileFn no_bodies = [](const Graph&) -> Result<std::shared_ptr<const ExecutorProgram>> {
    return Unsupported("bodies of control flow are not taken apart");
  };
  INFER_TRY(onednn::CapIsa());
  CompileState state(std::move(graph), kernels, options, no_bodies);
  INFER_TRY(RunCompileSteps(state));
  plan_ = std::make_unique<Plan>(*std::move(state.plan));
  infos_ = std::move(state.infos);
  candidates_ = std::move(state.chosen);
  lanes_ = options.threads > 0 ? options.threads : LaneBudget();

  chosen_.resize(plan_->steps.size());
  const std::vector<StepKernels> recording = Recording(candidates_, chosen_);
  const PlanBackends host = {CpuHost()};
  const HeldLanes lanes(*host[0], lanes_);
  StepLanes small(lanes_);
  ShapePlanHooks hooks;
  hooks.alone = [&](size_t step, const Cost& cost) {
    return !RunsBodies(plan_->steps[step]) && small.Begin(cost, candidates_[step].names.empty());
  };
  INFER_ASSIGN(shapes_, BuildShapePlan(*plan_, recording, input_dims, host, hooks));
  const auto& launches = shapes_->frame->launches;
  for (size_t l = 0; l < launches.size(); ++l)
    if (shapes_->code[l] && !launches[l].is_copy)
      chosen_[launches[l].step].alone = launches[l].alone;
  for (size_t s = 0; s < infos_.size(); ++s) {
    infos_[s].cost = shapes_->cost[s];
    infos_[s].kernel = shapes_->reports->kernel[s];
  }
  return {};
}

bool IsolatedSteps::IsRun(size_t step) const {
  const auto& late = shapes_->frame->late.steps;
  return std::any_of(shapes_->frame->launches.begin(), shapes_->frame->launches.end(),
                     [&](const PlannedLaunch& l) { return l.step == step && !l.is_copy; }) ||
         std::find(late.begin(), late.end(), step) != late.end();
}

std::vector<StepKernel> IsolatedSteps::Others(size_t step) const {
  const StepKernel* taken = kernel(step);
  std::vector<StepKernel> others;
  if (!taken) return others;
  const StepRun::Lanes lanes(*taken, lanes_);
  for (size_t k = 0; k < candidates_[step].kernels.size(); ++k) {
    if (candidates_[step].names[k] == taken->name) continue;
    auto prepared = candidates_[step].kernels[k]->Prepare(taken->in, taken->out);
    if (!prepared.ok()) continue;
    StepKernel& other = others.emplace_back(*taken);
    other.name = candidates_[step].names[k];
    other.chosen = false;
    other.prepared = *std::move(prepared);
  }
  return others;
}

std::byte* StepRun::New(int64_t bytes) {
  buffers_.push_back(Buffer::Allocate(static_cast<size_t>(bytes)));
  return buffers_.back()->mutable_data();
}

Result<StepRun> StepRun::Make(const StepKernel& kernel, std::span<const Tensor> operands) {
  const Prepared& p = kernel.prepared;
  INFER_CHECK(operands.size() == kernel.in.size());
  StepRun run;
  run.launch_ = p.launch;
  for (size_t i = 0; i < kernel.in.size(); ++i) {
    const Operand& o = kernel.in[i];
    const Layout layout = LayoutAt(p.in_layouts, i);
    const bool read = !(i < p.unused.size() && p.unused[i]) && static_cast<int>(i) != p.accumulate;
    run.args_.push_back(!read ? nullptr : run.New(BytesIn(layout, o)));
    if (read) INFER_TRY(Reorder(o.dtype, o.dims, {}, operands[i].raw(), layout, run.args_.back()));
  }
  for (size_t i = 0; i < kernel.out.size(); ++i) {
    const Operand& o = kernel.out[i];
    const Layout layout = LayoutAt(p.out_layouts, i);
    run.args_.push_back(run.New(BytesIn(layout, o)));
    run.results_.push_back({o.dtype, o.dims, layout, run.args_.back()});
  }
  if (!run.launch_) {  // a view
    run.results_[0].data = run.args_[0];
    return run;
  }
  if (p.accumulate >= 0) {
    const auto a = static_cast<size_t>(p.accumulate);
    INFER_TRY(Reorder(kernel.in[a].dtype, kernel.in[a].dims, {}, operands[a].raw(),
                      LayoutAt(p.out_layouts, 0), run.args_[kernel.in.size()]));
  }
  run.args_.push_back(run.New(p.scratch_bytes));
  run.state_ = run.launch_->NewState();
  return run;
}

Result<std::vector<Tensor>> StepRun::Results() const {
  std::vector<Tensor> tensors;
  for (const Made& r : results_) {
    Tensor& t = tensors.emplace_back(r.dtype, r.dims);
    INFER_TRY(Reorder(r.dtype, r.dims, r.layout, r.data, {}, t.mutable_raw()));
  }
  return tensors;
}

}  // namespace infer
