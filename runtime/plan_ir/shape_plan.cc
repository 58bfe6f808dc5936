#include "runtime/plan_ir/shape_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "lib/support/parallel.h"
#include "lib/support/stop.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/arena.h"
#include "runtime/plan_ir/ask_kernels.h"
#include "runtime/plan_ir/groups/parts.h"
#include "runtime/plan_ir/late_steps.h"
#include "runtime/plan_ir/place_steps.h"
#include "runtime/plan_ir/plan_buffers.h"
#include "runtime/plan_ir/plan_patch.h"
#include "runtime/plan_ir/specialize.h"

namespace infer {
namespace {

class Builder {
  using Kind = PlannedBuffer::Kind;

 public:
  Builder(const Plan& plan, std::span<const StepKernels> kernels, const PlanBackends& backends,
          const ShapePlanHooks& hooks)
      : plan_(plan),
        kernels_(kernels),
        backends_(backends),
        hooks_(hooks),
        notes_(hooks.reuse ? hooks.reuse->notes : own_notes_),
        buffers_(plan, backends, hooks, *out_, *frame_, notes_) {}

  Result<std::shared_ptr<const ShapePlan>> Build(std::span<const Dims> input_dims) {
    if (!hooks_.reuse) {
      INFER_TRY(Specialize(plan_, input_dims, *out_));
    } else {
      ++hooks_.reuse->plans;
      INFER_TRY(hooks_.reuse->specializer.Run(input_dims, *out_));
      INFER_ASSIGN(const bool patched, PatchPlan(plan_, kernels_, backends_, hooks_, *out_));
      if (patched) return hooks_.reuse->last = std::move(out_);
      ++hooks_.reuse->run;
      hooks_.reuse->lanes = CurrentLanes();
      ClearPatch();
    }
    INFER_TRY(BuildWhole());
    std::shared_ptr<const ShapePlan> made = std::move(out_);
    if (KeepsAnswers(hooks_, backends_)) {
      buffers_.NoteBuffers();
      hooks_.reuse->last = made;
    }
    if (hooks_.origins) *hooks_.origins = notes_.origins;
    return made;
  }

 private:
  /// What a patch that did not come to its end has left.
  void ClearPatch() {
    notes_ = {};
    hooks_.reuse->last = nullptr;
    out_->frame = nullptr;
    out_->reports = nullptr;
    out_->buffers.clear();
    out_->code.clear();
    out_->memory = {};
  }

  Status BuildWhole() {
    notes_.steps.resize(plan_.steps.size());
    CountReaders();
    for (size_t i = 0; i < plan_.values.size(); ++i)
      if (notes_.is_read[i]) INFER_TRY(CheckSize(plan_, *out_, static_cast<int>(i)));
    buffers_.AddSources();
    for (size_t o = 0; o < plan_.outputs.size(); ++o)
      if (plan_.is_watched(o)) watched_.emplace(plan_.outputs[o], o);
    frame_->late = FindLateSteps(plan_, kernels_, *out_, needed_step_);
    for (size_t s : frame_->late.steps) late_[s] = true;
    side_ = PlaceSteps(plan_, *out_, kernels_, backends_, needed_step_);
    for (size_t i = 0; i < plan_.values.size(); ++i) buffers_.LetGo(static_cast<int>(i));
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      INFER_TRY(CheckStop());
      if (needed_step_[s] && !late_[s]) INFER_TRY(AddStep(s));
    }
    if (!frame_->late.steps.empty()) INFER_TRY(AddLate());
    INFER_TRY(AddOutputs());
    INFER_TRY(buffers_.Finish());
    frame_->Index(out_->buffers);
    out_->frame = std::move(frame_);
    out_->reports = std::move(reports_);
    PlanArena(*out_);
    out_->memory.weight_bytes += ConstantBytes(*out_);
    return {};
  }

  /// Which steps must run, and how many read each value. What inference knows needs no step.
  void CountReaders() {
    needed_step_.assign(plan_.steps.size(), false);
    late_.assign(plan_.steps.size(), false);
    reports_->kernel.resize(plan_.steps.size(), "reference");
    reports_->precision.resize(plan_.steps.size());
    reports_->backend.resize(plan_.steps.size(), backends_.size() - 1);
    reports_->refusals.resize(plan_.steps.size());
    std::vector<bool> needed(plan_.values.size(), false);
    for (int id : plan_.outputs) {
      needed[static_cast<size_t>(id)] = true;
      buffers_.place(id).readers++;
    }
    for (size_t s = plan_.steps.size(); s-- > 0;) {
      const PlanStep& step = plan_.steps[s];
      needed_step_[s] = out_->declared[s];
      for (int id : step.outputs)
        if (needed[static_cast<size_t>(id)] && !Given(*out_, id)) needed_step_[s] = true;
      if (!needed_step_[s]) continue;
      for (int id : step.inputs) {
        needed[static_cast<size_t>(id)] = true;
        buffers_.place(id).readers++;
      }
    }
    for (size_t i = 0; i < plan_.values.size(); ++i)
      notes_.is_read.push_back(buffers_.place(static_cast<int>(i)).readers > 0);
  }

  Status AddLate() {
    const LateSteps& late = frame_->late;
    PlannedLaunch launch{.step = late.steps.front(), .is_late = true};
    INFER_TRY(buffers_.AddPlainArguments(launch.step, late.inputs, late.outputs, launch));
    buffers_.Append(std::move(launch));
    for (size_t s : late.steps)
      if (!kernels_[s].names.empty()) reports_->kernel[s] = kernels_[s].names[0];
    return {};
  }

  Status AddStep(size_t s) {
    const PlanStep& step = plan_.steps[s];
    const StepKernels& list = kernels_[s];
    bool done = false, in_parts = false;
    NotedStep& noted = notes_.steps[s];
    noted.alone = hooks_.alone && hooks_.alone(s, out_->cost[s]);
    buffers_.set_alone(noted.alone);
    if (!list.kernels.empty() && AllPlannable(*out_, step.inputs) &&
        AllPlannable(*out_, step.outputs)) {
      INFER_ASSIGN(done, AddAsBefore(s));
      if (!done) {
        NoteQuestion(s);
        INFER_ASSIGN(done, TryKernels({s, step, list}));
      }
    } else if (!list.kernels.empty()) {
      reports_->refusals[s].push_back(Cat(list.names[0], ": shapes depend on data"));
    }
    if (!done) {
      INFER_ASSIGN(in_parts, AddParts(s));
    }
    if (!done && !in_parts) INFER_TRY(AddReference({s, step, list}));
    noted.by = done       ? NotedStep::By::kKernel
               : in_parts ? NotedStep::By::kParts
                          : NotedStep::By::kReference;
    if (hooks_.step_done) hooks_.step_done(s);
    for (int id : step.outputs) INFER_TRY(ShowResult(s, id));
    if (in_parts) return {};
    for (int id : step.inputs) buffers_.Release(id);
    return {};
  }

  /// Whether a group that no kernel takes whole runs in parts, each as long as some kernel takes
  /// it; then its operands are released.
  Result<bool> AddParts(size_t s) {
    const PlanStep& step = plan_.steps[s];
    const StepKernels& list = kernels_[s];
    if (step.parts.empty() || list.parts.size() != step.parts.size() || out_->declared[s])
      return false;
    for (const PlanStep& part : step.parts)
      if (!AllPlannable(*out_, part.inputs) || !AllPlannable(*out_, part.outputs)) return false;
    const std::string whole = reports_->refusals[s].empty() ? "" : reports_->refusals[s].back();
    std::vector<size_t> taken;
    std::vector<std::string> names;
    std::string precision;
    size_t backend = backends_.size() - 1;
    for (size_t at = 0; at < step.nodes.size();) {
      INFER_ASSIGN(const size_t p, AddPart(s, at));
      at += step.parts[p].nodes.size();
      taken.push_back(p);
      if (names.empty() || names.back() != reports_->kernel[s])
        names.push_back(reports_->kernel[s]);
      if (step.parts[p].main != step.main) continue;
      precision = reports_->precision[s];
      backend = reports_->backend[s];
    }
    reports_->kernel[s] = Join(names, " + ");
    reports_->precision[s] = precision;
    reports_->backend[s] = backend;
    const std::string why = whole.empty() ? "" : Cat(" (", whole, ")");
    reports_->refusals[s].push_back(Cat(kInParts, OperatorsOf(step, taken), why));
    return true;
  }

  /// Which part begins with node `at` and runs.
  Result<size_t> AddPart(size_t s, size_t at) {
    const PlanStep& step = plan_.steps[s];
    const auto [first, last] = PartsFrom(step, at);
    for (size_t p = first; p < last; ++p) {
      const PlanStep& part = step.parts[p];
      const Candidate candidate{s, part, kernels_[s].parts[p], static_cast<int>(p)};
      INFER_ASSIGN(const bool done, TryKernels(candidate));
      if (!done && p + 1 < last) continue;
      if (!done) INFER_TRY(AddReference(candidate));
      for (int id : part.inputs) buffers_.Release(id);
      return p;
    }
    return Internal("a group without parts");
  }

  /// Counts the nodes of the group behind part p as one reader of what it reads and makes, as the
  /// whole step was counted as one of its operands.
  void HoldForRest(const PlanStep& group, const PlanStep& part) {
    const auto rest = std::find(group.nodes.begin(), group.nodes.end(), part.nodes.back()) + 1;
    const auto reads = [&](int id) {
      const Value* v = plan_.values[static_cast<size_t>(id)];
      return std::any_of(rest, group.nodes.end(), [&](const Node* n) {
        return std::find(n->inputs().begin(), n->inputs().end(), v) != n->inputs().end();
      });
    };
    for (const auto* ids : {&part.inputs, &part.outputs})
      for (int id : *ids)
        if (reads(id)) ++buffers_.place(id).readers;
  }

  /// Whether one of its kernels takes it.
  Result<bool> TryKernels(const Candidate& c) {
    if (c.kernels.kernels.empty()) return false;
    for (const size_t k : OrderOf(c)) {
      INFER_ASSIGN(const bool done, TryKernel(c, k));
      if (done) return true;
    }
    return false;
  }

  /// Whether candidate k takes the step.
  Result<bool> TryKernel(const Candidate& c, size_t k) {
    const auto& [s, step, list, part] = c;
    const auto refuse = [this, &c, k](std::string_view why) {
      const std::string op = c.part < 0 ? "" : Cat(OperatorOf(c.step), " by ");
      reports_->refusals[c.s].push_back(Cat(op, c.kernels.names[k], ": ", why));
      return false;
    };
    const MemorySpace space = backends_[list.backend(k)]->space();
    auto prepared = AskKernel(plan_, *out_, c, k, buffers_.Operands(step.inputs, space),
                              buffers_.Operands(step.outputs, space));
    if (prepared.status().code() == Code::kUnsupported) return refuse(prepared.status().message());
    if (!prepared.ok()) return prepared.status();
    if (part >= 0) HoldForRest(plan_.steps[s], step);
    INFER_TRY(AddPrepared(c, k, *prepared));
    if (part < 0 && KeepsAnswers(hooks_, backends_)) {
      StepAnswer& answer = hooks_.reuse->answers[s];
      answer.by_kernel = true;
      answer.kernel = k;
      answer.prepared = *std::move(prepared);
      answer.refusals = reports_->refusals[s];
    }
    return true;
  }

  /// The kernels of this step are asked with operands as they lie now.
  void NoteQuestion(size_t s) {
    if (!KeepsAnswers(hooks_, backends_)) return;
    hooks_.reuse->answers[s] = {.run = hooks_.reuse->run,
                                .lanes = CurrentLanes(),
                                .layouts = buffers_.LayoutsOf(plan_.steps[s].inputs)};
  }

  /// Candidate k runs the step.
  Status AddPrepared(const Candidate& c, size_t k, const Prepared& prepared) {
    const auto& [s, step, list, part] = c;
    buffers_.set_part(part);
    INFER_TRY(buffers_.AddKernel(s, step, prepared, list.backend(k)));
    buffers_.set_part(-1);
    reports_->kernel[s] = prepared.name.empty() ? list.names[k] : prepared.name;
    reports_->precision[s] = prepared.precision;
    reports_->backend[s] = list.backend(k);
    return {};
  }

  /// Whether the step is as in the plan before, or a patch has just asked for this one, and the
  /// kernel that answered takes it.
  Result<bool> AddAsBefore(size_t s) {
    if (!KeepsAnswers(hooks_, backends_)) return false;
    PlanReuse& reuse = *hooks_.reuse;
    const PlanStep& step = plan_.steps[s];
    StepAnswer& answer = reuse.answers[s];
    const auto moved = [&](int id) { return reuse.specializer.moved(id); };
    const bool is_new = answer.plan == reuse.plans;
    if (!answer.by_kernel || (!is_new && answer.run + 1 != reuse.run) ||
        answer.lanes != CurrentLanes() ||
        (!is_new && (std::any_of(step.inputs.begin(), step.inputs.end(), moved) ||
                     std::any_of(step.outputs.begin(), step.outputs.end(), moved))) ||
        answer.layouts != buffers_.LayoutsOf(step.inputs))
      return false;
    answer.run = reuse.run;
    reports_->refusals[s] = answer.refusals;
    INFER_TRY(AddPrepared({s, step, kernels_[s]}, answer.kernel, answer.prepared));
    return true;
  }

  /// The candidates as they are asked: those of the backend where the step was placed first, and
  /// among them one that is known to be faster.
  std::vector<size_t> OrderOf(const Candidate& c) {
    const auto& [s, step, list, part] = c;
    std::vector<size_t> order(list.kernels.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_partition(order.begin(), order.end(),
                          [&](size_t k) { return list.backend(k) == side_[s]; });
    // What is timed runs on these extents, which have to be right then.
    const size_t first = out_->declared[s] ? order[0] : FirstToAsk(c, order);
    const auto at = std::find(order.begin(), order.end(), first);
    for (auto before = order.begin(); before != at; ++before)
      reports_->refusals[s].push_back(
          Cat(list.names[*before], ": passed over, ", list.names[first], " was measured fastest"));
    std::rotate(order.begin(), at, at + 1);
    return order;
  }

  /// Which candidate: the first of `order`, unless a faster one is known among those of the first
  /// backend, whose the chooser is.
  size_t FirstToAsk(const Candidate& c, const std::vector<size_t>& order) const {
    const auto& [s, step, all, part] = c;
    if (!hooks_.chooser || all.backend(order[0]) != 0) return order[0];
    const MemorySpace space = backends_[0]->space();
    return MeasuredFirst(plan_, *hooks_.chooser, c, buffers_.Operands(step.inputs, space),
                         buffers_.Operands(step.outputs, space))
        .value_or(order[0]);
  }

  Status AddReference(const Candidate& c) {
    PlannedLaunch launch{.step = c.s, .part = c.part, .backend = backends_.size() - 1};
    if (c.part >= 0) HoldForRest(plan_.steps[c.s], c.step);
    INFER_TRY(buffers_.AddPlainArguments(c.s, c.step.inputs, c.step.outputs, launch));
    buffers_.Append(std::move(launch));
    reports_->kernel[c.s] = "reference";
    reports_->precision[c.s] = "";
    reports_->backend[c.s] = backends_.size() - 1;
    return {};
  }

  /// Where a value is watched it is shown right behind the step that makes it, while it lies in the
  /// cache, in the layout that it has, and its memory may be used again.
  Status ShowResult(size_t s, int id) {
    const auto [begin, end] = watched_.equal_range(id);
    const PlanBuffers::Place& place = buffers_.place(id);
    if (begin == end || place.versions.empty()) return {};
    for (auto it = begin; it != end; ++it) {
      const TensorType& t = out_->type(id).tensor();
      auto [layout, b] = place.versions[0];
      auto block = layout.space == MemorySpace::kHost
                       ? backends_.back()->ChannelBlock(t.dtype, t.shape.static_dims(), layout)
                       : std::nullopt;
      if (!block) {
        INFER_ASSIGN(b, buffers_.Version(s, id, Layout()));
        block = 0;
      }
      PlannedLaunch launch{.step = s, .args = {b}, .backend = backends_.size() - 1};
      launch.watch = static_cast<int>(it->second);
      launch.channel_block = *block;
      buffers_.Append(std::move(launch));
      buffers_.Release(id);
    }
    watched_.erase(begin, end);
    return {};
  }

  Status AddOutputs() {
    buffers_.BeginOutputs();
    for (size_t o = 0; o < plan_.outputs.size(); ++o) {
      const int id = plan_.outputs[o];
      if (plan_.is_watched(o)) {  // what no step made, or late ones
        INFER_TRY(ShowResult(plan_.steps.empty() ? 0 : plan_.steps.size() - 1, id));
        frame_->outputs.push_back(-1);
        continue;
      }
      if (buffers_.place(id).versions.empty()) {
        frame_->outputs.push_back(-1);
        continue;
      }
      const size_t s = plan_.steps.empty() ? 0 : plan_.steps.size() - 1;
      const int64_t bytes = buffers_.BytesOf(id);
      buffers_.set_alone(hooks_.alone && !plan_.steps.empty() &&
                         hooks_.alone(s, {0, bytes, bytes}));
      Layout layout;
      if (plan_.is_resident_output(o)) layout.space = MemorySpace::kDevice;
      INFER_ASSIGN(int b, buffers_.Version(s, id, layout));
      if (out_->buffers[static_cast<size_t>(b)].kind != Kind::kArena) {
        const int copy = buffers_.NewBuffer(Kind::kArena, bytes, id, layout);
        INFER_TRY(buffers_.AddCopy(s, id, layout, b, copy));
        b = copy;
      }
      out_->buffers[static_cast<size_t>(b)].kind = Kind::kOutput;
      out_->buffers[static_cast<size_t>(b)].index = static_cast<int>(o);
      frame_->outputs.push_back(b);
    }
    return {};
  }

  const Plan& plan_;
  std::span<const StepKernels> kernels_;
  const PlanBackends& backends_;
  const ShapePlanHooks& hooks_;
  std::shared_ptr<ShapePlan> out_ = std::make_shared<ShapePlan>();
  std::shared_ptr<PlanFrame> frame_ = std::make_shared<PlanFrame>();
  std::shared_ptr<StepReports> reports_ = std::make_shared<StepReports>();
  PlanNotes own_notes_;
  PlanNotes& notes_;  // where the next plan finds them, or own ones
  PlanBuffers buffers_;
  std::vector<bool> needed_step_, late_;
  std::vector<size_t> side_;            // by step: the backend where it was placed
  std::multimap<int, size_t> watched_;  // outputs still to be shown, by value
};

}  // namespace

int StepCall::operand(const Value* v) const {
  const int id = v ? plan.id(v) : -1;
  const auto it = std::find(step.inputs.begin(), step.inputs.end(), id);
  return v && it != step.inputs.end() ? static_cast<int>(it - step.inputs.begin()) : -1;
}

Result<std::shared_ptr<const ShapePlan>> BuildShapePlan(const Plan& plan,
                                                        std::span<const StepKernels> kernels,
                                                        std::span<const Dims> input_dims,
                                                        const PlanBackends& backends,
                                                        const ShapePlanHooks& hooks) {
  return Builder(plan, kernels, backends, hooks).Build(input_dims);
}

}  // namespace infer
