#include "runtime/plan_ir/executor_program.h"

#include <algorithm>
#include <set>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "lib/support/parallel.h"
#include "lib/support/stop.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/bodies.h"
#include "runtime/plan_ir/executor.h"
#include "runtime/plan_ir/groups/parts.h"
#include "runtime/plan_ir/lanes.h"
#include "runtime/plan_ir/late_graph.h"
#include "runtime/plan_ir/plan_reuse.h"
#include "runtime/plan_ir/plan_view.h"

namespace infer {
namespace {

/// They hold packed weights; another is made where what is known of shapes differs.
constexpr size_t kMostLatePrograms = 8;
/// Smaller constants are not worth letting go.
constexpr int64_t kLargeConstant = 16 << 10;

}  // namespace

ExecutorProgram::ExecutorProgram(Plan plan, std::vector<StepInfo> infos, ExecutorParts parts)
    : PlanProgram(std::move(plan), std::move(infos)),
      parts_(std::move(parts)),
      cache_(PlansKept(plan_.steps.size())) {
  for (const PlanStep& step : plan_.steps) runs_bodies_.push_back(RunsBodies(step));
}

ExecutorProgram::~ExecutorProgram() = default;

Status ExecutorProgram::Prepare(const PlanObserver& observe) {
  std::vector<Dims> dims;
  bool is_static = true;
  for (const Value* v : plan_.graph.inputs()) {
    dims.emplace_back();
    if (!v->type().is_tensor()) continue;
    if (!v->shape().has_rank()) return {};
    is_static &= v->tensor_type().is_static();
    for (const Dim& d : v->shape().dims()) dims.back().push_back(d.is_static() ? d.value() : 1);
  }
  int64_t dropped = 0;
  std::vector<BufferOrigin> origins;
  ShapePlanHooks hooks;
  hooks.priority = parts_.priority;
  if (observe) hooks.origins = &origins;
  if (is_static) {
    hooks.step_done = [&](size_t step) {
      parts_.kernels[step].kernels.clear();
      parts_.kernels[step].parts.clear();
      for (const int id : plan_.steps[step].inputs) plan_.sources->Drop(id);
    };
    hooks.constant_unread = [&](int value) {
      const Tensor* c = plan_.constant(plan_.values[static_cast<size_t>(value)]);
      if (!c || c->byte_size() < kLargeConstant) return;
      plan_.DropElements(value);
      dropped += c->byte_size();
    };
  }
  if (!is_static) dropped = LetElementsGo();
  const double begin = NowMs();
  const auto made = PlanFor(dims, hooks);
  if (!made.ok()) return is_static ? made.status() : Status();
  if (!is_static) guess_ = *made;
  if (parts_.chooser) INFER_TRY(parts_.chooser->Save());
#ifdef __GLIBC__
  if (dropped > 0) malloc_trim(0);  // small ones lie in the heap, between what stays
#endif
  const ShapePlan& shape_plan = **made;
  if (is_static) INFER_TRY(CheckRoom(shape_plan, shape_plan.memory.device_bytes));
  if (device()) TellWhyOnHost(shape_plan);
  if (observe) Show(observe, shape_plan, origins, NowMs() - begin);
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (runs_bodies_[s]) continue;
    steps_[s].kernel = shape_plan.reports->kernel[s];
    auto& refusals = steps_[s].refusals;
    for (const std::string& r : shape_plan.reports->refusals[s])
      refusals.insert(r.starts_with(kInParts) ? refusals.begin() : refusals.end(), r);
    if (!shape_plan.reports->precision[s].empty())
      steps_[s].precision = shape_plan.reports->precision[s];
    if (shape_plan.reports->kernel[s] == "reference") steps_[s].precision = "f32";
    if (is_static) steps_[s].cost = shape_plan.cost[s];
  }
  return {};
}

int64_t ExecutorProgram::LetElementsGo() {
  if (parts_.backends.size() > 1) return 0;
  const auto packs = [](const StepKernels& list, int operand) {
    return !list.kernels.empty() &&
           std::all_of(list.kernels.begin(), list.kernels.end(),
                       [=](const auto& kernel) { return kernel->packs(operand); });
  };
  const auto at = [](const PlanStep& step, int id) {
    return static_cast<int>(std::find(step.inputs.begin(), step.inputs.end(), id) -
                            step.inputs.begin());
  };
  // As weights, and not again as what is added to the product.
  const auto reads_once = [this](const PlanStep& step, int id) {
    const Value* const v = plan_.values[static_cast<size_t>(id)];
    int64_t times = 0;
    for (const Node* n : step.nodes) times += std::count(n->inputs().begin(), n->inputs().end(), v);
    return times == 1;
  };
  std::vector<bool> is_read(plan_.values.size()), stays(plan_.values.size());
  for (const int id : plan_.outputs) stays[static_cast<size_t>(id)] = true;
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    for (const int id : step.inputs) {
      const auto i = static_cast<size_t>(id);
      is_read[i] = true;
      if (!plan_.constant(id) || plan_.constant(id)->byte_size() < kLargeConstant) stays[i] = true;
      if (stays[i]) continue;
      // Parts that the step may run in have the elements made again.
      stays[i] = !packs(parts_.kernels[s], at(step, id)) || !reads_once(step, id);
    }
  }
  int64_t gone = 0;
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    const auto source = plan_.sources->Find(static_cast<int>(i));
    if (!is_read[i] || stays[i] || !source) continue;
    plan_.DropElements(static_cast<int>(i));
    source->LetElementsGo();
    gone += plan_.constant(static_cast<int>(i))->byte_size();
  }
  return gone;
}

void ExecutorProgram::TellWhyOnHost(const ShapePlan& shapes) {
  std::vector<bool> runs(steps_.size());
  for (const PlannedLaunch& l : shapes.frame->launches)
    if (!l.is_copy && !l.crosses) runs[l.step] = true;
  for (size_t s : shapes.frame->late.steps) runs[s] = true;
  const std::string name = Cat(parts_.backends.front()->name(), ":");
  const auto tells = [&](const std::string& r) { return r.find(name) != std::string::npos; };
  for (size_t s = 0; s < steps_.size(); ++s) {
    std::vector<std::string>& told = steps_[s].refusals;
    const auto& planned = shapes.reports->refusals[s];
    const auto& candidates = parts_.kernels[s].backends;
    const bool has_shader = std::find(candidates.begin(), candidates.end(), 0) != candidates.end();
    if (runs_bodies_[s] || shapes.reports->kernel[s] == "view") continue;
    if (!runs[s]) {
      told.insert(told.begin(), name + " does not run, its results are known before");
      continue;
    }
    if (!has_shader || shapes.reports->backend[s] == 0 ||
        std::any_of(told.begin(), told.end(), tells) ||
        std::any_of(planned.begin(), planned.end(), tells))
      continue;
    told.insert(told.begin(),
                name + " placed on the CPU, copies to the device and back would take longer");
  }
}

void ExecutorProgram::Show(const PlanObserver& observe, const ShapePlan& shapes,
                           std::span<const BufferOrigin> origins, double ms) const {
  PlanView layouts = ViewOf(plan_);
  layouts.name = "layouts";
  layouts.ms = ms;
  AddKernels(layouts, parts_.kernels, steps_);
  AddLayouts(layouts, plan_, shapes, origins, parts_.backends);
  observe(layouts);
  PlanView launches;
  launches.name = "launches";
  AddLaunches(launches, shapes);
  observe(launches);
  PlanView memory;
  memory.name = "memory";
  AddMemory(memory, plan_, shapes, origins, parts_.backends);
  observe(memory);
}

Result<std::shared_ptr<const ShapePlan>> ExecutorProgram::PlanFor(std::span<const Dims> input_dims,
                                                                  ShapePlanHooks hooks) const {
  if (auto found = cache_.Find(input_dims)) {
    const std::lock_guard lock(guess_mutex_);
    if (found == guess_) guess_ = nullptr;
    return found;
  }
  return plan_builder_.Get(
      {input_dims.begin(), input_dims.end()}, [&] { return cache_.Find(input_dims); },
      [&](const std::function<void()>& has_lanes) {
        return MakePlan(input_dims, hooks, has_lanes);
      });
}

Result<std::shared_ptr<const ShapePlan>> ExecutorProgram::MakePlan(
    std::span<const Dims> input_dims, ShapePlanHooks hooks,
    const std::function<void()>& has_lanes) const {
  hooks.chooser = parts_.chooser.get();
  // Weights are packed by all of them, and kernels are cut for as many.
  const HeldLanes lanes(host(), parts_.lanes, hooks.priority);
  has_lanes();
  INFER_TRY(CheckStop());
  const PlanBackend::AloneFn alone = host().ChooseLanes(parts_.lanes);
  if (alone)
    hooks.alone = [&](size_t step, const Cost& cost) {
      // Bodies have contexts of their own, which choose for themselves.
      return !runs_bodies_[step] && alone(cost, parts_.kernels[step].names.empty());
    };
  std::unique_ptr<PlanReuse> reuse = TakeReuse();
  hooks.reuse = reuse.get();
  if (DropGuess()) {
    if (reuse) reuse->last = nullptr;
    hooks.step_done = [this](size_t step) {
      for (const int id : plan_.steps[step].inputs)
        if (const auto source = plan_.sources->Find(id)) source->ForgetForms();
    };
  }
  INFER_ASSIGN(auto made,
               BuildShapePlan(plan_, parts_.kernels, input_dims, parts_.backends, hooks));
  cache_.Add(made);
  if (reuse && reuse->specializer.may_go_on()) {
    const std::lock_guard lock(reuse_mutex_);
    reuse_ = std::move(reuse);
  }
  return made;
}

bool ExecutorProgram::DropGuess() const {
  const std::lock_guard lock(guess_mutex_);
  if (!guess_) return false;
  cache_.Drop(guess_.get());
  guess_ = nullptr;
  plan_.sources->ForgetForms();  // from now on those count that are asked for
  return true;
}

std::unique_ptr<PlanReuse> ExecutorProgram::TakeReuse() const {
  const auto& inputs = plan_.graph.inputs();
  if (std::all_of(inputs.begin(), inputs.end(), [](const Value* v) {
        return !v->type().is_tensor() || v->type().tensor().is_static();
      }))
    return nullptr;  // no other plan will come
  {
    const std::lock_guard lock(reuse_mutex_);
    if (reuse_) return std::move(reuse_);
  }
  return std::make_unique<PlanReuse>(plan_);
}

Result<std::shared_ptr<const ExecutorProgram>> ExecutorProgram::LateProgram(
    const ShapePlan& plan) const {
  const std::string key = LateKey(plan_, plan);
  const auto find = [&]() -> std::shared_ptr<const ExecutorProgram> {
    const std::lock_guard lock(late_mutex_);
    const auto it = late_.find(key);
    return it == late_.end() ? nullptr : it->second;
  };
  return late_builder_.Get(
      key, find,
      [&](const std::function<void()>&) -> Result<std::shared_ptr<const ExecutorProgram>> {
        INFER_ASSIGN(const Graph g, LateGraph(plan_, plan));
        INFER_ASSIGN(auto made, parts_.compile(g));
        const std::lock_guard lock(late_mutex_);
        if (late_.size() >= kMostLatePrograms) late_.clear();
        return late_[key] = std::move(made);
      });
}

Result<std::shared_ptr<DeviceMemory>> ExecutorProgram::OnDevice(const Tensor& constant) const {
  std::lock_guard lock(constants_mutex_);
  DeviceConstant& kept = constants_[constant.raw()];
  if (kept.memory && kept.memory->bytes() >= constant.byte_size()) return kept.memory;
  INFER_ASSIGN(auto memory, device()->Allocate(constant.byte_size()));
  INFER_ASSIGN(const auto encoder, device()->NewEncoder());
  INFER_TRY(encoder->Upload({memory.get(), 0, constant.byte_size()}, constant.raw()));
  INFER_ASSIGN(const auto done, encoder->Submit());
  INFER_TRY(done->Wait());
  kept = {constant, memory};
  return memory;
}

Status ExecutorProgram::CheckRoom(const ShapePlan& plan, int64_t more) const {
  if (!plan.frame->uses_device) return {};
  const std::lock_guard lock(constants_mutex_);
  std::set<const std::byte*> counted;
  for (const PlannedBuffer& b : plan.buffers) {
    if (b.space != MemorySpace::kDevice || !b.constant.defined()) continue;
    const auto there = constants_.find(b.constant.raw());
    if (there != constants_.end() && there->second.memory) continue;
    if (counted.insert(b.constant.raw()).second) more += b.constant.byte_size();
  }
  return device()->CheckRoom(more);
}

Result<std::unique_ptr<RunContext>> ExecutorProgram::NewContext() const {
  return std::unique_ptr<RunContext>(new Executor(shared_from_this()));
}

}  // namespace infer
