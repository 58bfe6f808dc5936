#include "runtime/plan_ir/shape_plan.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "lib/support/stop.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/arena.h"
#include "runtime/plan_ir/late_steps.h"
#include "runtime/plan_ir/place_steps.h"
#include "runtime/plan_ir/specialize.h"

namespace infer {
namespace {

class Builder {
 public:
  Builder(const Plan& plan, std::span<const StepKernels> kernels, const PlanBackends& backends,
          const ShapePlanHooks& hooks)
      : plan_(plan), kernels_(kernels), backends_(backends), hooks_(hooks) {}

  Result<std::shared_ptr<const ShapePlan>> Build(std::span<const Dims> input_dims) {
    INFER_TRY(Specialize(plan_, input_dims, *out_));
    CountReaders();
    INFER_TRY(CheckSizes());
    AddSources();
    for (size_t o = 0; o < plan_.outputs.size(); ++o)
      if (plan_.is_watched(o)) watched_.emplace(plan_.outputs[o], o);
    out_->late = FindLateSteps(plan_, kernels_, *out_, needed_step_);
    for (size_t s : out_->late.steps) late_[s] = true;
    side_ = PlaceSteps(plan_, *out_, kernels_, backends_, needed_step_);
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
    out_->precision.resize(plan_.steps.size());
    out_->backend.resize(plan_.steps.size(), backends_.size() - 1);
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
    PlannedLaunch launch{.step = late.steps.front(), .is_late = true};
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
    out_->buffers.push_back({.kind = kind, .bytes = bytes, .space = layout.space});
    out_->uses_device |= layout.space == MemorySpace::kDevice;
    owners_.emplace_back();
    used_.push_back(false);
    if (owner >= 0) owners_.back().push_back(owner);
    if (hooks_.origins) hooks_.origins->push_back({owner, layout});
    return static_cast<int>(out_->buffers.size()) - 1;
  }

  void Append(PlannedLaunch launch) {
    launch.alone = alone_ && !launch.is_late && !launch.crosses &&
                   backends_[launch.backend]->space() == MemorySpace::kHost;
    for (int b : launch.args)
      if (b >= 0) used_[static_cast<size_t>(b)] = true;
    out_->launches.push_back(std::move(launch));
  }

  /// Tells where constant `id` will not be read any more, and never was by a launch.
  void LetGo(int id) {
    const Place& place = places_[static_cast<size_t>(id)];
    if (!hooks_.constant_unread || place.readers > 0 || place.versions.empty()) return;
    const bool is_read = std::any_of(
        place.versions.begin(), place.versions.end(),
        [&](const auto& version) { return used_[static_cast<size_t>(version.second)]; });
    const auto b = static_cast<size_t>(place.versions[0].second);
    if (out_->buffers[b].kind == Kind::kConstant && !is_read) hooks_.constant_unread(id);
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

  /// As a kernel finds them that works in `space`.
  std::vector<Operand> Operands(const std::vector<int>& ids, MemorySpace space) const {
    std::vector<Operand> list;
    for (int id : ids) {
      const auto i = static_cast<size_t>(id);
      const TensorType& t = out_->types[i].tensor();
      Operand& o = list.emplace_back();
      o.value = plan_.values[i];
      o.dtype = t.dtype;
      o.dims = t.shape.static_dims();
      o.constant = KnownOrConstant(id);
      o.layout.space = space;
      for (const auto& [layout, b] : places_[i].versions)
        if (layout.space == space) {
          o.layout = layout;
          break;
        }
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
      for (const size_t k : OrderOf(s)) {
        INFER_ASSIGN(done, TryKernel(s, k));
        if (done) break;
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

  /// Whether candidate k takes the step.
  Result<bool> TryKernel(size_t s, size_t k) {
    const PlanStep& step = plan_.steps[s];
    const StepKernels& list = kernels_[s];
    const auto refuse = [&](std::string_view why) {
      out_->refusals[s].push_back(Cat(list.names[k], ": ", why));
      return false;
    };
    if (out_->declared[s] && !list.kernels[k]->checks_extents())
      return refuse("the extents of the result are nothing but declared");
    const size_t backend = list.backend(k);
    const MemorySpace space = backends_[backend]->space();
    auto prepared =
        list.kernels[k]->Prepare(Operands(step.inputs, space), Operands(step.outputs, space));
    if (prepared.status().code() == Code::kUnsupported) return refuse(prepared.status().message());
    if (!prepared.ok()) return prepared.status();
    INFER_TRY(AddKernel(s, *prepared, backend));
    out_->kernel[s] = prepared->name.empty() ? list.names[k] : prepared->name;
    out_->precision[s] = prepared->precision;
    out_->backend[s] = backend;
    return true;
  }

  /// The candidates as they are asked: those of the backend where the step was placed first, and
  /// among them one that is known to be faster.
  std::vector<size_t> OrderOf(size_t s) {
    const StepKernels& list = kernels_[s];
    std::vector<size_t> order(list.kernels.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_partition(order.begin(), order.end(),
                          [&](size_t k) { return list.backend(k) == side_[s]; });
    // What is timed runs on these extents, which have to be right then.
    const size_t first = out_->declared[s] ? 0 : FirstToAsk(s);
    if (first == 0) return order;
    for (size_t k = 0; k < first; ++k)
      out_->refusals[s].push_back(
          Cat(list.names[k], ": passed over, ", list.names[first], " was measured fastest"));
    std::erase(order, first);
    order.insert(order.begin(), first);
    return order;
  }

  /// Which candidate: the first of the list, unless a faster one is known.
  size_t FirstToAsk(size_t s) const {
    const PlanStep& step = plan_.steps[s];
    const StepKernels& list = kernels_[s];
    if (!hooks_.chooser || list.kernels.size() < 2 || !list.backends.empty()) return 0;
    const auto in = Operands(step.inputs, MemorySpace::kHost),
               out = Operands(step.outputs, MemorySpace::kHost);
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

  /// The backend whose layouts a memory space has.
  size_t BackendIn(MemorySpace space) const {
    return space == MemorySpace::kHost ? backends_.size() - 1 : 0;
  }

  /// The buffer that holds value `id` in `layout`; a copy is launched where there is none.
  Result<int> Version(size_t s, int id, const Layout& layout) {
    Place& place = places_[static_cast<size_t>(id)];
    for (const auto& [l, b] : place.versions)
      if (l == layout) return b;
    INFER_CHECK(!place.versions.empty());
    const auto near = std::find_if(place.versions.begin(), place.versions.end(),
                                   [&](const auto& v) { return v.first.space == layout.space; });
    if (near == place.versions.end()) return Crossed(s, id, layout);
    const auto [from, source] = *near;
    const TensorType& t = out_->types[static_cast<size_t>(id)].tensor();
    const size_t backend = BackendIn(layout.space);
    INFER_ASSIGN(Prepared p,
                 backends_[backend]->Reorder(t.dtype, t.shape.static_dims(), from, layout));
    const int b = NewBuffer(Kind::kArena, layout.plain() ? BytesOf(id) : layout.bytes, id, layout);
    Push(s, p, {source, b}, backend, true);
    place.versions.emplace_back(layout, b);
    return b;
  }

  /// From the other memory space, between which bytes move in row-major order. A constant comes
  /// there when the program is bound.
  Result<int> Crossed(size_t s, int id, const Layout& layout) {
    Place& place = places_[static_cast<size_t>(id)];
    const Layout plain{.space = place.versions[0].first.space}, there{.space = layout.space};
    INFER_ASSIGN(const int source, Version(s, id, plain));
    const bool constant = out_->buffers[static_cast<size_t>(source)].kind == Kind::kConstant;
    const int b = NewBuffer(constant ? Kind::kConstant : Kind::kArena, BytesOf(id), id, there);
    if (!constant) Append({.step = s, .args = {source, b}, .is_copy = true, .crosses = true});
    place.versions.emplace_back(there, b);
    return Version(s, id, layout);
  }

  void Push(size_t s, const Prepared& p, std::vector<int> args, size_t backend,
            bool is_copy = false) {
    if (p.scratch_bytes > 0)
      args.push_back(
          NewBuffer(Kind::kArena, p.scratch_bytes, -1, {.space = backends_[backend]->space()}));
    Append({.step = s,
            .launch = p.launch,
            .args = std::move(args),
            .is_copy = is_copy,
            .backend = backend});
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

  Status AddKernel(size_t s, const Prepared& p, size_t backend) {
    const PlanStep& step = plan_.steps[s];
    const MemorySpace space = backends_[backend]->space();
    const auto at = [space](const std::vector<Layout>& layouts, size_t i) {
      Layout layout = i < layouts.size() ? layouts[i] : Layout();
      layout.space = space;
      return layout;
    };
    if (!p.launch) {  // a view
      INFER_ASSIGN(const int b, Version(s, step.inputs[0], at({}, 0)));
      used_[static_cast<size_t>(b)] = true;
      Place& place = places_[static_cast<size_t>(step.outputs[0])];
      place.versions = {{at({}, 0), b}};
      owners_[static_cast<size_t>(b)].push_back(step.outputs[0]);
      return {};
    }
    std::vector<int> args;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (i < p.unused.size() && p.unused[i]) {
        args.push_back(-1);
        continue;
      }
      INFER_ASSIGN(const int b, Version(s, step.inputs[i], at(p.in_layouts, i)));
      args.push_back(b);
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const int id = step.outputs[i];
      const Layout layout = at(p.out_layouts, i);
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
    Push(s, p, std::move(args), backend);
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
    const size_t backend = BackendIn(layout.space);
    INFER_ASSIGN(Prepared copy,
                 backends_[backend]->Reorder(t.dtype, t.shape.static_dims(), layout, layout));
    Push(s, copy, {from, to}, backend, true);
    return {};
  }

  Status AddReference(size_t s) {
    const PlanStep& step = plan_.steps[s];
    PlannedLaunch launch{.step = s, .backend = backends_.size() - 1};
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
      auto block = layout.space == MemorySpace::kHost
                       ? backends_.back()->ChannelBlock(t.dtype, t.shape.static_dims(), layout)
                       : std::nullopt;
      if (!block) {
        INFER_ASSIGN(b, Version(s, id, Layout()));
        block = 0;
      }
      PlannedLaunch launch{.step = s, .args = {b}, .backend = backends_.size() - 1};
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
      if (plan_.is_watched(o)) {  // what no step made, or late ones
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
        if (layout == Layout()) out_->plain[i] = b;
    return {};
  }

  const Plan& plan_;
  std::span<const StepKernels> kernels_;
  const PlanBackends& backends_;
  const ShapePlanHooks& hooks_;
  std::shared_ptr<ShapePlan> out_ = std::make_shared<ShapePlan>();
  std::vector<Place> places_;             // by value id
  std::vector<std::vector<int>> owners_;  // by buffer: values in it that somebody still will read
  std::vector<bool> needed_step_, late_;
  std::vector<size_t> side_;            // by step: the backend where it was placed
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
                                                        const PlanBackends& backends,
                                                        const ShapePlanHooks& hooks) {
  return Builder(plan, kernels, backends, hooks).Build(input_dims);
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
