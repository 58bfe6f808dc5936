#include "runtime/plan_ir/shape_plan.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "lib/support/stop.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/arena.h"
#include "runtime/plan_ir/late_steps.h"
#include "runtime/plan_ir/specialize.h"

namespace infer {
namespace {

class Builder {
 public:
  Builder(const Plan& plan, std::span<const StepKernels> kernels, ReorderFn reorder,
          const ShapePlanHooks& hooks)
      : plan_(plan), kernels_(kernels), reorder_(reorder), hooks_(hooks) {}

  Result<std::shared_ptr<const ShapePlan>> Build(std::span<const Dims> input_dims,
                                                 bool group_late) {
    INFER_TRY(Specialize(plan_, input_dims, *out_));
    CountReaders();
    INFER_TRY(CheckSizes());
    AddSources();
    for (size_t o = 0; hooks_.channel_block && o < plan_.outputs.size(); ++o)
      if (plan_.is_watched(o)) watched_.emplace(plan_.outputs[o], o);
    if (group_late) out_->late = FindLateSteps(plan_, kernels_, *out_, needed_step_);
    for (size_t s : out_->late.steps) late_[s] = true;
    for (size_t i = 0; i < places_.size(); ++i) LetGo(static_cast<int>(i));
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      INFER_TRY(CheckStop());
      if (needed_step_[s] && !late_[s]) INFER_TRY(AddStep(s));
    }
    if (!out_->late.steps.empty()) INFER_TRY(AddLate());
    INFER_TRY(AddOutputs());
    KeepConstants();
    PlanArena(*out_);
    return std::shared_ptr<const ShapePlan>(std::move(out_));
  }

 private:
  /// Where a value lies: one buffer per layout in which somebody wants it.
  struct Place {
    std::vector<std::pair<Layout, int>> versions;
    int readers = 0;  // steps that still will read it, and the graph's outputs
  };
  using Kind = PlannedBuffer::Kind;

  int64_t BytesOf(int id) const { return PlannedBytes(out_->types[static_cast<size_t>(id)]); }

  const Tensor* KnownOrConstant(int id) const { return infer::KnownOrConstant(plan_, *out_, id); }

  /// Which steps must run, and how many read each value. What inference knows needs no step.
  void CountReaders() {
    places_.resize(plan_.values.size());
    needed_step_.assign(plan_.steps.size(), false);
    late_.assign(plan_.steps.size(), false);
    out_->kernel.resize(plan_.steps.size(), "reference");
    out_->refusals.resize(plan_.steps.size());
    std::vector<bool> needed(plan_.values.size(), false);
    for (int id : plan_.outputs) {
      needed[static_cast<size_t>(id)] = true;
      places_[static_cast<size_t>(id)].readers++;
    }
    for (size_t s = plan_.steps.size(); s-- > 0;) {
      const PlanStep& step = plan_.steps[s];
      needed_step_[s] = out_->declared[s];
      for (int id : step.outputs)
        if (needed[static_cast<size_t>(id)] && !KnownOrConstant(id)) needed_step_[s] = true;
      if (!needed_step_[s]) continue;
      for (int id : step.inputs) {
        needed[static_cast<size_t>(id)] = true;
        places_[static_cast<size_t>(id)].readers++;
      }
    }
  }

  /// Declared extents may be any: what no run on this machine can hold is refused before kernels
  /// make tables of it.
  Status CheckSizes() const {
    const int64_t most = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < places_.size(); ++i) {
      const int id = static_cast<int>(i);
      if (places_[i].readers == 0 || KnownOrConstant(id) || BytesOf(id) <= most) continue;
      return ResourceExhausted(
          Cat("value '", plan_.values[i]->name(), "': ", ToString(out_->types[i]), " takes ",
              HumanBytes(BytesOf(id)), ", more than the memory of this machine"));
    }
    return {};
  }

  Status AddLate() {
    const LateSteps& late = out_->late;
    PlannedLaunch launch{late.steps.front(), nullptr, {}, false, true, false};
    for (int id : late.inputs) {
      int b = -1;
      if (!places_[static_cast<size_t>(id)].versions.empty()) {
        INFER_ASSIGN(b, Version(late.steps.front(), id, Layout()));
      }
      launch.args.push_back(b);
    }
    AddResults(late.outputs, launch);
    Append(std::move(launch));
    for (size_t s : late.steps)
      if (!kernels_[s].names.empty()) out_->kernel[s] = kernels_[s].names[0];
    return {};
  }

  int NewBuffer(Kind kind, int64_t bytes, int owner, const Layout& layout = {}) {
    out_->buffers.push_back({kind, 0, {}, bytes, 0});
    owners_.emplace_back();
    used_.push_back(false);
    if (owner >= 0) owners_.back().push_back(owner);
    if (hooks_.origins) hooks_.origins->push_back({owner, layout});
    return static_cast<int>(out_->buffers.size()) - 1;
  }

  void Append(PlannedLaunch launch) {
    launch.alone = alone_ && !launch.is_late;
    for (int b : launch.args)
      if (b >= 0) used_[static_cast<size_t>(b)] = true;
    out_->launches.push_back(std::move(launch));
  }

  /// Tells where constant `id` will not be read any more, and never was by a launch.
  void LetGo(int id) {
    const Place& place = places_[static_cast<size_t>(id)];
    if (!hooks_.constant_unread || place.readers > 0 || place.versions.empty()) return;
    const auto b = static_cast<size_t>(place.versions[0].second);
    if (out_->buffers[b].kind == Kind::kConstant && !used_[b]) hooks_.constant_unread(id);
  }

  void KeepConstants() {
    for (size_t i = 0; i < places_.size(); ++i)
      for (const auto& [layout, at] : places_[i].versions) {
        const auto b = static_cast<size_t>(at);
        if (out_->buffers[b].kind != Kind::kConstant || !used_[b]) continue;
        if (const Tensor* c = KnownOrConstant(static_cast<int>(i))) out_->buffers[b].constant = *c;
      }
  }

  void AddSources() {
    out_->plain.assign(plan_.values.size(), -1);
    for (size_t i = 0; i < plan_.values.size(); ++i) {
      const int id = static_cast<int>(i);
      const Tensor* c = KnownOrConstant(id);
      if (!c || c->dtype() == DType::kString) continue;
      places_[i].versions = {{Layout(), NewBuffer(Kind::kConstant, c->byte_size(), id)}};
    }
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const int id = plan_.inputs[i];
      if (!IsPlannable(out_->types[static_cast<size_t>(id)])) continue;
      const int b = NewBuffer(Kind::kInput, BytesOf(id), id);
      out_->buffers[static_cast<size_t>(b)].index = static_cast<int>(i);
      places_[static_cast<size_t>(id)].versions = {{Layout(), b}};
    }
  }

  std::vector<Operand> Operands(const std::vector<int>& ids) const {
    std::vector<Operand> list;
    for (int id : ids) {
      const auto i = static_cast<size_t>(id);
      const TensorType& t = out_->types[i].tensor();
      Operand& o = list.emplace_back();
      o.value = plan_.values[i];
      o.dtype = t.dtype;
      o.dims = t.shape.static_dims();
      o.constant = KnownOrConstant(id);
      if (!places_[i].versions.empty()) o.layout = places_[i].versions[0].first;
    }
    return list;
  }

  bool AllPlannable(const std::vector<int>& ids) const {
    return std::all_of(ids.begin(), ids.end(),
                       [&](int id) { return IsPlannable(out_->types[static_cast<size_t>(id)]); });
  }

  Status AddStep(size_t s) {
    const PlanStep& step = plan_.steps[s];
    const StepKernels& list = kernels_[s];
    bool done = false;
    alone_ = hooks_.alone && hooks_.alone(s, out_->cost[s]);
    if (!list.kernels.empty() && AllPlannable(step.inputs) && AllPlannable(step.outputs)) {
      const auto in = Operands(step.inputs), out = Operands(step.outputs);
      // What is timed runs on these extents, which have to be right then.
      const size_t first = out_->declared[s] ? 0 : FirstToAsk(step, list, in, out);
      for (size_t k = 0; k < first; ++k)
        out_->refusals[s].push_back(
            Cat(list.names[k], ": passed over, ", list.names[first], " was measured fastest"));
      for (size_t i = 0; i < list.kernels.size() && !done; ++i) {
        const size_t k = i == 0 ? first : i <= first ? i - 1 : i;
        if (out_->declared[s] && !list.kernels[k]->checks_extents()) {
          out_->refusals[s].push_back(
              Cat(list.names[k], ": the extents of the result are nothing but declared"));
          continue;
        }
        auto prepared = list.kernels[k]->Prepare(in, out);
        if (prepared.ok()) {
          INFER_TRY(AddKernel(s, *prepared));
          out_->kernel[s] = prepared->name.empty() ? list.names[k] : prepared->name;
          done = true;
        } else if (prepared.status().code() == Code::kUnsupported) {
          out_->refusals[s].push_back(Cat(list.names[k], ": ", prepared.status().message()));
        } else {
          return prepared.status();
        }
      }
    } else if (!list.kernels.empty()) {
      out_->refusals[s].push_back(Cat(list.names[0], ": shapes depend on data"));
    }
    if (!done) INFER_TRY(AddReference(s));
    if (hooks_.step_done) hooks_.step_done(s);
    for (int id : step.outputs) INFER_TRY(ShowResult(s, id));
    for (int id : step.inputs) {
      Place& place = places_[static_cast<size_t>(id)];
      if (--place.readers > 0) continue;
      LetGo(id);
      // Along a chain in place one buffer holds every value; only the living ones count.
      for (const auto& [layout, b] : place.versions)
        std::erase(owners_[static_cast<size_t>(b)], id);
    }
    return {};
  }

  /// Which candidate: the first of the list, unless a faster one is known.
  size_t FirstToAsk(const PlanStep& step, const StepKernels& list, std::span<const Operand> in,
                    std::span<const Operand> out) const {
    if (!hooks_.chooser || list.kernels.size() < 2) return 0;
    if (const auto known = hooks_.chooser->Known(step, in, out, list)) return *known;
    if (!hooks_.chooser->measures()) return 0;
    std::vector<std::optional<Prepared>> prepared;
    for (const auto& kernel : list.kernels) {
      auto p = kernel->Prepare(in, out);
      prepared.push_back(p.ok() ? std::optional(*std::move(p)) : std::nullopt);
    }
    const auto accept = std::count_if(prepared.begin(), prepared.end(),
                                      [](const auto& p) { return p.has_value(); });
    if (accept < 2) return 0;
    return hooks_.chooser->Fastest(step, in, out, list, prepared).value_or(0);
  }

  /// The buffer that holds value `id` in `layout`; a reorder is launched where there is none.
  Result<int> Version(size_t s, int id, const Layout& layout) {
    Place& place = places_[static_cast<size_t>(id)];
    for (const auto& [l, b] : place.versions)
      if (l == layout) return b;
    INFER_CHECK(!place.versions.empty());
    const TensorType& t = out_->types[static_cast<size_t>(id)].tensor();
    const auto [from, source] = place.versions[0];
    INFER_ASSIGN(Prepared p, reorder_(t.dtype, t.shape.static_dims(), from, layout));
    const int b = NewBuffer(Kind::kArena, layout.plain() ? BytesOf(id) : layout.bytes, id, layout);
    Push(s, p, {source, b}, true);
    place.versions.emplace_back(layout, b);
    return b;
  }

  void Push(size_t s, const Prepared& p, std::vector<int> args, bool is_copy = false) {
    if (p.scratch_bytes > 0) args.push_back(NewBuffer(Kind::kArena, p.scratch_bytes, -1));
    Append({s, p.launch, std::move(args), is_copy});
    out_->memory.weight_bytes += p.weight_bytes;
  }

  /// After this step, which reads buffer b, nobody reads any value in it.
  bool Dying(const PlanStep& step, int b) const {
    const auto& owners = owners_[static_cast<size_t>(b)];
    return out_->buffers[static_cast<size_t>(b)].kind == Kind::kArena && !owners.empty() &&
           std::all_of(owners.begin(), owners.end(), [&](int id) {
             const bool reads =
                 std::find(step.inputs.begin(), step.inputs.end(), id) != step.inputs.end();
             return places_[static_cast<size_t>(id)].readers == (reads ? 1 : 0);
           });
  }

  Status AddKernel(size_t s, const Prepared& p) {
    const PlanStep& step = plan_.steps[s];
    if (!p.launch) {  // a view
      INFER_ASSIGN(const int b, Version(s, step.inputs[0], Layout()));
      used_[static_cast<size_t>(b)] = true;
      Place& place = places_[static_cast<size_t>(step.outputs[0])];
      place.versions = {{Layout(), b}};
      owners_[static_cast<size_t>(b)].push_back(step.outputs[0]);
      return {};
    }
    std::vector<int> args;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (i < p.unused.size() && p.unused[i]) {
        args.push_back(-1);
        continue;
      }
      INFER_ASSIGN(const int b, Version(s, step.inputs[i],
                                        i < p.in_layouts.size() ? p.in_layouts[i] : Layout()));
      args.push_back(b);
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const int id = step.outputs[i];
      const Layout layout = i < p.out_layouts.size() ? p.out_layouts[i] : Layout();
      const int64_t bytes = layout.plain() ? BytesOf(id) : layout.bytes;
      int b = i == 0 ? Reused(step, p, args, bytes) : -1;
      if (b < 0) b = NewBuffer(Kind::kArena, bytes, id, layout);
      if (i == 0 && p.accumulate >= 0) {
        const auto a = static_cast<size_t>(p.accumulate);
        if (b != args[a]) INFER_TRY(AddCopy(s, step.inputs[a], layout, args[a], b));
        args[a] = -1;
      }
      auto& owners = owners_[static_cast<size_t>(b)];
      if (std::find(owners.begin(), owners.end(), id) == owners.end()) owners.push_back(id);
      places_[static_cast<size_t>(id)].versions = {{layout, b}};
      args.push_back(b);
    }
    Push(s, p, std::move(args));
    return {};
  }

  /// An operand's buffer that result 0 may take over; -1: none.
  int Reused(const PlanStep& step, const Prepared& p, const std::vector<int>& args,
             int64_t bytes) const {
    for (size_t i = 0; i < args.size(); ++i) {
      const bool wanted = p.accumulate >= 0 ? static_cast<size_t>(p.accumulate) == i : p.in_place;
      if (!wanted || args[i] < 0) continue;
      if (out_->buffers[static_cast<size_t>(args[i])].bytes != bytes || !Dying(step, args[i]))
        continue;
      if (p.accumulate >= 0 && std::count(args.begin(), args.end(), args[i]) > 1) continue;
      return args[i];
    }
    return -1;
  }

  Status AddCopy(size_t s, int id, const Layout& layout, int from, int to) {
    const TensorType& t = out_->types[static_cast<size_t>(id)].tensor();
    INFER_ASSIGN(Prepared copy, reorder_(t.dtype, t.shape.static_dims(), layout, layout));
    Push(s, copy, {from, to}, true);
    return {};
  }

  Status AddReference(size_t s) {
    const PlanStep& step = plan_.steps[s];
    PlannedLaunch launch{s, nullptr, {}, false};
    for (int id : step.inputs) {
      int b = -1;
      if (!places_[static_cast<size_t>(id)].versions.empty()) {
        INFER_ASSIGN(b, Version(s, id, Layout()));
      }
      launch.args.push_back(b);
    }
    AddResults(step.outputs, launch);
    Append(std::move(launch));
    return {};
  }

  /// Plain buffers, where they can be planned.
  void AddResults(const std::vector<int>& ids, PlannedLaunch& launch) {
    for (int id : ids) {
      int b = -1;
      if (IsPlannable(out_->types[static_cast<size_t>(id)]) && !KnownOrConstant(id)) {
        b = NewBuffer(Kind::kArena, BytesOf(id), id);
        places_[static_cast<size_t>(id)].versions = {{Layout(), b}};
      }
      launch.args.push_back(b);
    }
  }

  /// Where a value is watched it is shown right behind the step that makes it, while it lies in the
  /// cache, in the layout that it has, and its memory may be used again.
  Status ShowResult(size_t s, int id) {
    const auto [begin, end] = watched_.equal_range(id);
    Place& place = places_[static_cast<size_t>(id)];
    if (begin == end || place.versions.empty()) return {};
    for (auto it = begin; it != end; ++it) {
      const TensorType& t = out_->types[static_cast<size_t>(id)].tensor();
      auto [layout, b] = place.versions[0];
      auto block = hooks_.channel_block(t.dtype, t.shape.static_dims(), layout);
      if (!block) {
        INFER_ASSIGN(b, Version(s, id, Layout()));
        block = 0;
      }
      PlannedLaunch launch{s, nullptr, {b}};
      launch.watch = static_cast<int>(it->second);
      launch.channel_block = *block;
      Append(std::move(launch));
      if (--place.readers > 0) continue;
      for (const auto& [l, version] : place.versions)
        std::erase(owners_[static_cast<size_t>(version)], id);
    }
    watched_.erase(begin, end);
    return {};
  }

  Status AddOutputs() {
    for (size_t o = 0; o < plan_.outputs.size(); ++o) {
      const int id = plan_.outputs[o];
      if (hooks_.channel_block && plan_.is_watched(o)) {  // what no step made, or late ones
        INFER_TRY(ShowResult(plan_.steps.empty() ? 0 : plan_.steps.size() - 1, id));
        out_->outputs.push_back(-1);
        continue;
      }
      if (places_[static_cast<size_t>(id)].versions.empty()) {
        out_->outputs.push_back(-1);
        continue;
      }
      const size_t s = plan_.steps.empty() ? 0 : plan_.steps.size() - 1;
      alone_ =
          hooks_.alone && !plan_.steps.empty() && hooks_.alone(s, {0, BytesOf(id), BytesOf(id)});
      INFER_ASSIGN(int b, Version(s, id, Layout()));
      if (out_->buffers[static_cast<size_t>(b)].kind != Kind::kArena) {
        const int copy = NewBuffer(Kind::kArena, BytesOf(id), id);
        INFER_TRY(AddCopy(s, id, Layout(), b, copy));
        b = copy;
      }
      out_->buffers[static_cast<size_t>(b)].kind = Kind::kOutput;
      out_->buffers[static_cast<size_t>(b)].index = static_cast<int>(o);
      out_->outputs.push_back(b);
    }
    for (size_t i = 0; i < places_.size(); ++i)
      for (const auto& [layout, b] : places_[i].versions)
        if (layout.plain()) out_->plain[i] = b;
    return {};
  }

  const Plan& plan_;
  std::span<const StepKernels> kernels_;
  ReorderFn reorder_;
  const ShapePlanHooks& hooks_;
  std::shared_ptr<ShapePlan> out_ = std::make_shared<ShapePlan>();
  std::vector<Place> places_;             // by value id
  std::vector<std::vector<int>> owners_;  // by buffer: values in it that somebody still will read
  std::vector<bool> needed_step_, late_;
  std::multimap<int, size_t> watched_;  // outputs still to be shown, by value
  bool alone_ = false;                  // the launches of the step that is being planned
  std::vector<bool> used_;              // by buffer: by a launch, or another value lies in it
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
                                                        ReorderFn reorder, bool group_late,
                                                        const ShapePlanHooks& hooks) {
  return Builder(plan, kernels, reorder, hooks).Build(input_dims, group_late);
}

std::shared_ptr<const ShapePlan> ShapePlanCache::Find(std::span<const Dims> input_dims) {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < plans_.size(); ++i)
    if (std::equal(input_dims.begin(), input_dims.end(), plans_[i]->input_dims.begin(),
                   plans_[i]->input_dims.end())) {
      std::rotate(plans_.begin(), plans_.begin() + static_cast<int64_t>(i),
                  plans_.begin() + static_cast<int64_t>(i) + 1);
      return plans_[0];
    }
  return nullptr;
}

void ShapePlanCache::Add(std::shared_ptr<const ShapePlan> plan) {
  std::lock_guard lock(mutex_);
  plans_.insert(plans_.begin(), std::move(plan));
  if (plans_.size() > capacity_) plans_.pop_back();
}

}  // namespace infer
