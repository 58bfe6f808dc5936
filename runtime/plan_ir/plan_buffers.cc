#include "runtime/plan_ir/plan_buffers.h"

#include <algorithm>

#include "runtime/plan_ir/specialize.h"

namespace infer {

int FirstOfSize(const ShapePlan& shapes, const std::vector<int>& buffers, int64_t bytes) {
  for (int b : buffers)
    if (shapes.buffers[static_cast<size_t>(b)].bytes == bytes) return b;
  return -1;
}

int64_t PlanBuffers::BytesOf(int id) const { return out_.value(id).bytes; }

void PlanBuffers::AddSources() {
  frame_.plain.assign(plan_.values.size(), -1);
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    const int id = static_cast<int>(i);
    const Tensor* c = Given(out_, id);
    if (!c || c->dtype() == DType::kString) continue;
    places_[i].versions = {{Layout(), NewBuffer(Kind::kConstant, c->byte_size(), id)}};
  }
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    const int id = plan_.inputs[i];
    if (!out_.value(id).plannable) continue;
    Layout layout;
    if (plan_.is_resident_input(i)) layout.space = MemorySpace::kDevice;
    const int b = NewBuffer(Kind::kInput, BytesOf(id), id, layout);
    out_.buffers[static_cast<size_t>(b)].index = static_cast<int>(i);
    places_[static_cast<size_t>(id)].versions = {{layout, b}};
  }
}

int PlanBuffers::NewBuffer(Kind kind, int64_t bytes, int owner, const Layout& layout) {
  out_.buffers.push_back({.kind = kind, .bytes = bytes, .space = layout.space});
  frame_.uses_device |= layout.space == MemorySpace::kDevice;
  owners_.emplace_back();
  used_.push_back(false);
  if (owner >= 0) owners_.back().push_back(owner);
  notes_.origins.push_back({owner, layout});
  return static_cast<int>(out_.buffers.size()) - 1;
}

void PlanBuffers::Append(PlannedLaunch launch, std::shared_ptr<const Launch> code) {
  launch.alone = alone_ && !launch.is_late && !launch.crosses &&
                 backends_[launch.backend]->space() == MemorySpace::kHost;
  for (int b : launch.args)
    if (b >= 0) used_[static_cast<size_t>(b)] = true;
  frame_.launches.push_back(std::move(launch));
  out_.code.push_back(std::move(code));
}

void PlanBuffers::LetGo(int id) {
  const Place& place = places_[static_cast<size_t>(id)];
  if (!hooks_.constant_unread || place.readers > 0 || place.versions.empty()) return;
  const bool is_read =
      std::any_of(place.versions.begin(), place.versions.end(),
                  [&](const auto& version) { return used_[static_cast<size_t>(version.second)]; });
  const auto b = static_cast<size_t>(place.versions[0].second);
  if (out_.buffers[b].kind == Kind::kConstant && !is_read) hooks_.constant_unread(id);
}

void PlanBuffers::Release(int id) {
  Place& released = place(id);
  if (--released.readers > 0) return;
  LetGo(id);
  // Along a chain in place one buffer holds every value; only the living ones count.
  for (const auto& [layout, b] : released.versions) std::erase(owners_[static_cast<size_t>(b)], id);
}

Status PlanBuffers::Finish() {
  for (size_t i = 0; i < places_.size(); ++i)
    for (const auto& [layout, at] : places_[i].versions) {
      const auto b = static_cast<size_t>(at);
      if (layout == Layout()) frame_.plain[i] = at;
      if (out_.buffers[b].kind != Kind::kConstant || !used_[b]) continue;
      // A view of a constant lies in a buffer of the constant's.
      const int id = notes_.origins[b].value;
      if (!Given(out_, id) || out_.buffers[b].constant.defined()) continue;
      Tensor& kept = out_.buffers[b].constant;
      kept = *Given(out_, id);
      if (plan_.constant(id)) {
        INFER_ASSIGN(kept, plan_.Elements(id));
      }
    }
  return {};
}

void PlanBuffers::NoteBuffers() {
  notes_.buffers.resize(places_.size());
  for (size_t b = 0; b < notes_.origins.size(); ++b)
    if (const int id = notes_.origins[b].value; id >= 0 && notes_.origins[b].layout.plain())
      notes_.buffers[static_cast<size_t>(id)].push_back(static_cast<int>(b));
}

std::vector<Operand> PlanBuffers::Operands(const std::vector<int>& ids, MemorySpace space) const {
  std::vector<Operand> list;
  for (int id : ids) {
    const auto i = static_cast<size_t>(id);
    const TensorType& t = out_.type(id).tensor();
    Operand& o = list.emplace_back();
    o.value = plan_.values[i];
    o.dtype = t.dtype;
    o.dims = t.shape.static_dims();
    o.constant = Given(out_, id);
    o.layout.space = space;
    for (const auto& [layout, b] : places_[i].versions)
      if (layout.space == space) {
        o.layout = layout;
        break;
      }
  }
  return list;
}

std::vector<Layout> PlanBuffers::LayoutsOf(const std::vector<int>& ids) const {
  std::vector<Layout> layouts;
  layouts.reserve(ids.size());
  for (int id : ids) {
    const auto& versions = place(id).versions;
    layouts.push_back(versions.empty() ? Layout() : versions[0].first);
  }
  return layouts;
}

/// The backend whose layouts a memory space has.
size_t PlanBuffers::BackendIn(MemorySpace space) const {
  return space == MemorySpace::kHost ? backends_.size() - 1 : 0;
}

Result<int> PlanBuffers::Version(size_t s, int id, const Layout& layout) {
  Place& place = places_[static_cast<size_t>(id)];
  for (const auto& [l, b] : place.versions)
    if (l == layout) return b;
  INFER_CHECK(!place.versions.empty());
  const auto near = std::find_if(place.versions.begin(), place.versions.end(),
                                 [&](const auto& v) { return v.first.space == layout.space; });
  if (near == place.versions.end()) return Crossed(s, id, layout);
  const auto [from, source] = *near;
  const TensorType& t = out_.type(id).tensor();
  const size_t backend = BackendIn(layout.space);
  INFER_ASSIGN(Prepared p,
               backends_[backend]->Reorder(t.dtype, t.shape.static_dims(), from, layout));
  const int b = NewBuffer(Kind::kArena, layout.plain() ? BytesOf(id) : layout.bytes, id, layout);
  PushCopy(s, id, from, layout, p, {source, b});
  place.versions.emplace_back(layout, b);
  return b;
}

/// From the other memory space, between which bytes move in row-major order. A constant comes
/// there when the program is bound.
Result<int> PlanBuffers::Crossed(size_t s, int id, const Layout& layout) {
  Place& place = places_[static_cast<size_t>(id)];
  const Layout plain{.space = place.versions[0].first.space}, there{.space = layout.space};
  INFER_ASSIGN(const int source, Version(s, id, plain));
  const bool constant = out_.buffers[static_cast<size_t>(source)].kind == Kind::kConstant;
  const int owner = constant ? notes_.origins[static_cast<size_t>(source)].value : id;
  const int b = NewBuffer(constant ? Kind::kConstant : Kind::kArena, BytesOf(id), owner, there);
  if (!constant) Append({.step = s, .args = {source, b}, .is_copy = true, .crosses = true});
  place.versions.emplace_back(there, b);
  return Version(s, id, layout);
}

void PlanBuffers::Push(size_t s, const Prepared& p, std::vector<int> args, size_t backend,
                       bool is_copy) {
  if (p.scratch_bytes > 0)
    args.push_back(
        NewBuffer(Kind::kArena, p.scratch_bytes, -1, {.space = backends_[backend]->space()}));
  Append({.step = s,
          .part = part_,
          .args = std::move(args),
          .is_copy = is_copy,
          .backend = backend,
          .reads_host = std::find(p.on_host.begin(), p.on_host.end(), true) != p.on_host.end()},
         p.launch);
  out_.memory.weight_bytes += p.weight_bytes;
}

void PlanBuffers::PushCopy(size_t s, int id, const Layout& from, const Layout& to,
                           const Prepared& p, std::vector<int> args) {
  notes_.copies.push_back({id, frame_.launches.size(), p.scratch_bytes, p.weight_bytes,
                           from.plain() && to.plain(), is_last_, alone_});
  Push(s, p, std::move(args), BackendIn(to.space), true);
}

/// After this step, which reads buffer b, nobody reads any value in it.
bool PlanBuffers::Dying(const PlanStep& step, int b) const {
  const auto& owners = owners_[static_cast<size_t>(b)];
  return out_.buffers[static_cast<size_t>(b)].kind == Kind::kArena && !owners.empty() &&
         std::all_of(owners.begin(), owners.end(), [&](int id) {
           const bool reads =
               std::find(step.inputs.begin(), step.inputs.end(), id) != step.inputs.end();
           return places_[static_cast<size_t>(id)].readers == (reads ? 1 : 0);
         });
}

std::vector<int> PlanBuffers::MayTake(const PlanStep& step, const Prepared& p,
                                      const std::vector<int>& args) const {
  std::vector<int> buffers;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool wanted = p.accumulate >= 0 ? static_cast<size_t>(p.accumulate) == i : p.in_place;
    if (!wanted || args[i] < 0 || !Dying(step, args[i])) continue;
    if (p.accumulate >= 0 && std::count(args.begin(), args.end(), args[i]) > 1) continue;
    buffers.push_back(args[i]);
  }
  return buffers;
}

Status PlanBuffers::AddKernel(size_t s, const PlanStep& step, const Prepared& p, size_t backend) {
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
    Layout layout = at(p.in_layouts, i);
    if (i < p.on_host.size() && p.on_host[i]) layout = {};
    INFER_ASSIGN(const int b, Version(s, step.inputs[i], layout));
    args.push_back(b);
  }
  NotedStep& noted = notes_.steps[s];
  noted.may_take = MayTake(step, p, args);
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const int id = step.outputs[i];
    const Layout layout = at(p.out_layouts, i);
    const int64_t bytes = layout.plain() ? BytesOf(id) : layout.bytes;
    if (i == 0) noted.taken = FirstOfSize(out_, noted.may_take, bytes);
    int b = i == 0 ? noted.taken : -1;
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
  noted.launch = static_cast<int>(frame_.launches.size());
  Push(s, p, std::move(args), backend);
  return {};
}

Status PlanBuffers::AddCopy(size_t s, int id, const Layout& layout, int from, int to) {
  const TensorType& t = out_.type(id).tensor();
  const size_t backend = BackendIn(layout.space);
  INFER_ASSIGN(Prepared copy,
               backends_[backend]->Reorder(t.dtype, t.shape.static_dims(), layout, layout));
  PushCopy(s, id, layout, layout, copy, {from, to});
  return {};
}

Status PlanBuffers::AddPlainArguments(size_t s, const std::vector<int>& inputs,
                                      const std::vector<int>& outputs, PlannedLaunch& launch) {
  for (const int id : inputs) {
    int b = -1;
    if (!place(id).versions.empty()) {
      INFER_ASSIGN(b, Version(s, id, Layout()));
    }
    launch.args.push_back(b);
  }
  for (const int id : outputs) {
    int b = -1;
    if (out_.value(id).plannable && !Given(out_, id)) {
      b = NewBuffer(Kind::kArena, BytesOf(id), id);
      place(id).versions = {{Layout(), b}};
    }
    launch.args.push_back(b);
  }
  return {};
}

}  // namespace infer
