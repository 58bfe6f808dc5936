#include "runtime/plan_ir/plan_patch.h"

#include <algorithm>

#include "lib/support/parallel.h"
#include "lib/support/stop.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/arena.h"
#include "runtime/plan_ir/ask_kernels.h"
#include "runtime/plan_ir/plan_buffers.h"

namespace infer {
namespace {

/// A buffer that grew gets an eighth more than it needs, and a page at least, so that the next
/// steps of a decoder find the arena as it is; what needs much less gives its room back.
int64_t RoomFor(int64_t bytes) { return bytes + std::max<int64_t>(bytes / 8, 4096); }
bool Fits(int64_t bytes, int64_t room) {
  return bytes <= room && room <= bytes + std::max<int64_t>(bytes / 4, 8192);
}

/// Whether a launch of the second takes the arguments of one of the first.
bool SameArguments(const Prepared& a, const Prepared& b) {
  return (a.launch == nullptr) == (b.launch == nullptr) && a.in_layouts == b.in_layouts &&
         a.unused == b.unused && a.on_host == b.on_host && a.out_layouts == b.out_layouts &&
         (a.scratch_bytes > 0) == (b.scratch_bytes > 0) && a.accumulate == b.accumulate &&
         a.in_place == b.in_place;
}

class Patcher {
 public:
  Patcher(const Plan& plan, std::span<const StepKernels> kernels, const PlanBackends& backends,
          const ShapePlanHooks& hooks, ShapePlan& out)
      : plan_(plan),
        kernels_(kernels),
        backends_(backends),
        hooks_(hooks),
        reuse_(*hooks.reuse),
        last_(*reuse_.last),
        out_(out) {}

  Result<bool> Run() {
    INFER_TRY(CheckStop());
    if (reuse_.lanes != CurrentLanes() || !KeepsFrame()) return false;
    for (int id : moved_ids())
      if (reuse_.notes.is_read[static_cast<size_t>(id)]) INFER_TRY(CheckSize(plan_, out_, id));
    out_.frame = last_.frame;
    out_.buffers = last_.buffers;
    out_.code = last_.code;
    out_.memory = last_.memory;
    for (int id : moved_ids()) ResizeBuffersOf(id);
    for (size_t s : reuse_.specializer.moved_steps()) {
      INFER_ASSIGN(const bool same, AskAgain(s));
      if (!same) return false;
    }
    for (NotedCopy& copy : reuse_.notes.copies) {
      if (!reuse_.specializer.moved(copy.value)) continue;
      INFER_ASSIGN(const bool same, CopyAgain(copy));
      if (!same) return false;
    }
    out_.reports = reports_ ? std::move(reports_) : last_.reports;
    PlaceBuffers();
    return true;
  }

 private:
  using Kind = PlannedBuffer::Kind;
  const std::vector<int>& moved_ids() const { return reuse_.specializer.moved_ids(); }

  /// Whether what is otherwise leaves the same values to the steps, and the same steps to the run.
  bool KeepsFrame() const {
    if (reuse_.specializer.declared_moved()) return false;
    return std::all_of(moved_ids().begin(), moved_ids().end(), [&](int id) {
      const ValueFacts &now = out_.value(id), &before = last_.value(id);
      return now.plannable == before.plannable && !now.given() == !before.given() &&
             now.type.kind() == before.type.kind() && now.type.dtype() == before.type.dtype() &&
             !IsWatched(id);
    });
  }

  bool IsWatched(int id) const {
    return std::find(plan_.outputs.end() - static_cast<int64_t>(plan_.watched), plan_.outputs.end(),
                     id) != plan_.outputs.end();
  }

  PlannedBuffer& buffer(int b) { return out_.buffers[static_cast<size_t>(b)]; }

  void ResizeBuffersOf(int id) {
    for (int b : reuse_.notes.buffers[static_cast<size_t>(id)]) {
      PlannedBuffer& own = buffer(b);
      const int64_t before = own.bytes;
      const Tensor* given = out_.value(id).given();
      own.bytes = own.kind == Kind::kConstant && given ? given->byte_size() : out_.value(id).bytes;
      if (own.kind != Kind::kConstant) continue;
      if (own.constant.defined() && given) own.constant = *given;
      if (last_.frame->lives[static_cast<size_t>(b)].second >= 0)
        out_.memory.weight_bytes += own.bytes - before;
    }
  }

  /// Whether step s, of which something is otherwise, runs as before.
  Result<bool> AskAgain(size_t s) {
    const NotedStep& noted = reuse_.notes.steps[s];
    if (noted.by == NotedStep::By::kNothing) return true;  // known, or late
    if (noted.by == NotedStep::By::kParts) return false;
    if ((hooks_.alone && hooks_.alone(s, out_.cost[s])) != noted.alone) return false;
    StepAnswer& answer = reuse_.answers[s];
    if (answer.run != reuse_.run) return true;  // no kernel was asked, or could have been
    const PlanStep& step = plan_.steps[s];
    // Layouts with padding say their bytes, which only whoever places them anew would know.
    if (!MovedArePlain(step.inputs, answer.layouts)) return false;
    const Candidate c{s, step, kernels_[s]};
    const std::vector<Operand> in = Operands(step.inputs, answer.layouts),
                               out = Operands(step.outputs, {});
    std::vector<std::string> refusals;
    for (size_t k = 0; k < c.kernels.kernels.size(); ++k) {
      auto prepared = AskKernel(plan_, out_, c, k, in, out);
      if (prepared.status().code() == Code::kUnsupported) {
        refusals.push_back(Cat(c.kernels.names[k], ": ", prepared.status().message()));
        continue;
      }
      if (!prepared.ok()) return prepared.status();
      if (!answer.by_kernel || answer.kernel != k) {
        Keep(answer, k, *std::move(prepared), std::move(refusals));
        return false;
      }
      Report(s, *prepared, refusals);
      return Replace(s, *std::move(prepared), std::move(refusals));
    }
    if (answer.by_kernel) return false;
    Report(s, {}, refusals);
    return true;
  }

  std::vector<Operand> Operands(const std::vector<int>& ids, const std::vector<Layout>& layouts) {
    std::vector<Operand> list;
    list.reserve(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      const TensorType& t = out_.type(ids[i]).tensor();
      Operand& o = list.emplace_back();
      o.value = plan_.values[static_cast<size_t>(ids[i])];
      o.dtype = t.dtype;
      o.dims = t.shape.static_dims();
      o.constant = out_.value(ids[i]).given();
      if (i < layouts.size()) o.layout = layouts[i];
    }
    return list;
  }

  /// Candidate k has answered in this plan: a whole one need not ask again.
  void Keep(StepAnswer& answer, size_t k, Prepared prepared, std::vector<std::string> refusals) {
    answer.plan = reuse_.plans;
    answer.lanes = CurrentLanes();
    answer.by_kernel = true;
    answer.kernel = k;
    answer.prepared = std::move(prepared);
    answer.refusals = std::move(refusals);
  }

  /// The kernel that has step s runs it by `now`; false: with other arguments.
  Result<bool> Replace(size_t s, Prepared made, std::vector<std::string> refusals) {
    StepAnswer& answer = reuse_.answers[s];
    const NotedStep& noted = reuse_.notes.steps[s];
    const Prepared before = std::move(answer.prepared);
    Keep(answer, answer.kernel, std::move(made), std::move(refusals));
    const Prepared& now = answer.prepared;
    const PlanStep& step = plan_.steps[s];
    if (!SameArguments(before, now) || !MovedArePlain(step.inputs, now.in_layouts) ||
        !MovedArePlain(step.outputs, now.out_layouts))
      return false;
    out_.memory.weight_bytes += now.weight_bytes - before.weight_bytes;
    if (noted.launch >= 0) {
      const auto l = static_cast<size_t>(noted.launch);
      const std::vector<int>& args = last_.frame->launches[l].args;
      if (now.scratch_bytes > 0) buffer(args.back()).bytes = now.scratch_bytes;
      const Layout* layout = now.out_layouts.empty() ? nullptr : &now.out_layouts[0];
      const int64_t bytes =
          layout && !layout->plain() ? layout->bytes : out_.value(step.outputs[0]).bytes;
      if (FirstOfSize(out_, noted.may_take, bytes) != noted.taken) return false;
      out_.code[l] = now.launch;
    }
    return true;
  }

  bool MovedArePlain(const std::vector<int>& ids, const std::vector<Layout>& layouts) const {
    for (size_t i = 0; i < ids.size() && i < layouts.size(); ++i)
      if (reuse_.specializer.moved(ids[i]) && !layouts[i].plain()) return false;
    return true;
  }

  /// What reports say of step s; those of the last plan stay where all says the same.
  void Report(size_t s, const Prepared& p, const std::vector<std::string>& refusals) {
    const StepReports& before = reports_ ? *reports_ : *last_.reports;
    const bool by_kernel = reuse_.answers[s].by_kernel;
    const std::string& listed = kernels_[s].names[reuse_.answers[s].kernel];
    const std::string& kernel = !by_kernel ? before.kernel[s] : p.name.empty() ? listed : p.name;
    if (before.kernel[s] == kernel && before.precision[s] == p.precision &&
        before.refusals[s] == refusals)
      return;
    if (!reports_) reports_ = std::make_shared<StepReports>(before);
    reports_->kernel[s] = kernel;
    reports_->precision[s] = p.precision;
    reports_->refusals[s] = refusals;
  }

  Result<bool> CopyAgain(NotedCopy& copy) {
    const int64_t bytes = out_.value(copy.value).bytes;
    const size_t s = last_.frame->launches[copy.launch].step;
    const Cost cost = copy.is_last ? Cost{0, bytes, bytes} : out_.cost[s];
    // A plan without steps hands inputs over.
    const bool alone = hooks_.alone && !plan_.steps.empty() && hooks_.alone(s, cost);
    if (!copy.is_plain || alone != copy.alone) return false;
    const TensorType& t = out_.type(copy.value).tensor();
    INFER_ASSIGN(const Prepared p,
                 backends_.back()->Reorder(t.dtype, t.shape.static_dims(), {}, {}));
    if (p.scratch_bytes != copy.scratch_bytes) return false;
    out_.memory.weight_bytes += p.weight_bytes - copy.weight_bytes;
    copy.weight_bytes = p.weight_bytes;
    out_.code[copy.launch] = p.launch;
    return true;
  }

  /// Where the arena has room for all buffers it stays as it is.
  void PlaceBuffers() {
    bool fits = true;
    for (size_t b = 0; b < out_.buffers.size(); ++b) {
      const PlannedBuffer& now = out_.buffers[b];
      if (now.bytes != last_.buffers[b].bytes && now.kind == Kind::kArena)
        fits &= Fits(now.bytes, now.room);
    }
    if (fits) return;
    for (size_t b = 0; b < out_.buffers.size(); ++b)
      if (PlannedBuffer& now = out_.buffers[b]; now.bytes != last_.buffers[b].bytes)
        now.room = RoomFor(now.bytes);
    PlanArena(out_);
  }

  const Plan& plan_;
  std::span<const StepKernels> kernels_;
  const PlanBackends& backends_;
  const ShapePlanHooks& hooks_;
  PlanReuse& reuse_;
  const ShapePlan& last_;
  ShapePlan& out_;
  std::shared_ptr<StepReports> reports_;  // once a step reports something else
};

}  // namespace

Result<bool> PatchPlan(const Plan& plan, std::span<const StepKernels> kernels,
                       const PlanBackends& backends, const ShapePlanHooks& hooks, ShapePlan& out) {
  if (!KeepsAnswers(hooks, backends) || !hooks.reuse->last || hooks.origins || hooks.step_done ||
      hooks.constant_unread)
    return false;
  return Patcher(plan, kernels, backends, hooks, out).Run();
}

}  // namespace infer
