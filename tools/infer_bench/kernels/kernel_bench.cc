#include "tools/infer_bench/kernels/kernel_bench.h"

#include <algorithm>
#include <numeric>

#include "lib/ir/op_name.h"
#include "lib/support/hash.h"
#include "lib/support/strings.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/plan_ir/interpreter.h"
#include "runtime/plan_ir/late_graph.h"
#include "runtime/plan_ir/wanted_layout.h"

namespace infer::bench {
namespace {

/// Integer constants up to so many elements (axes, pads, starts) are a part of what a step is.
constexpr int64_t kParameters = 64;

std::string TypeOf(const Operand& o) { return ToString(TensorType{o.dtype, Shape(o.dims)}); }

/// "f32[1,64,56,56] aBcd16b", "f32[64,64,3,3] const".
std::string TextOf(const Operand& o, const Layout& layout, bool unread) {
  return Cat(TypeOf(o), layout.plain() ? "" : Cat(" ", onednn::NameOf(layout)),
             o.constant ? " const" : "", unread ? " packed" : "");
}

/// "1x64x56x56", "u8:1x64", "" for one element.
std::string ShortShape(const Operand& o) {
  if (NumElements(o.dims) == 1) return "";
  std::vector<std::string> extents;
  for (const int64_t d : o.dims) extents.push_back(Cat(d));
  return Cat(o.dtype == DType::kF32 ? "" : Cat(Name(o.dtype), ":"), Join(extents, "x"));
}

std::string ShortShapes(const std::vector<Operand>& operands) {
  std::vector<std::string> shapes;
  for (const Operand& o : operands)
    if (std::string s = ShortShape(o); !s.empty()) shapes.push_back(std::move(s));
  return shapes.empty() ? "1" : Join(shapes, ",");
}

/// Equal for equal steps.
std::string KeyOf(const PlanStep& step, const StepKernel& k) {
  Hasher attrs;
  for (const Node* n : step.nodes) attrs.Add(HashOf(n->attrs()));
  std::string key =
      Cat(OperatorOf(step), "|", attrs.value(), "|", k.name, "|", k.implementation(), "|", k.alone);
  for (size_t i = 0; i < k.in.size(); ++i) {
    const Operand& o = k.in[i];
    key += Cat("|", TextOf(o, LayoutAt(k.prepared.in_layouts, i), false));
    if (o.constant && IsInteger(o.dtype) && BitWidth(o.dtype) >= 32 &&
        o.constant->num_elements() <= kParameters)
      for (int64_t e = 0; e < o.constant->num_elements(); ++e)
        key += Cat(",", o.constant->IntAt(e));
  }
  for (size_t i = 0; i < k.out.size(); ++i)
    key += Cat("|", TextOf(k.out[i], LayoutAt(k.prepared.out_layouts, i), false));
  return key;
}

/// Whether `b` is worse than `a`.
bool IsWorse(const StepCheck& a, const StepCheck& b) {
  if (a.ok() != b.ok()) return a.ok();
  return b.error > a.error || (b.error == a.error && b.unequal > a.unequal);
}

}  // namespace

/// One compiled graph with the values of a run, step by step on the reference kernels.
class KernelBench::Walk {
 public:
  Walk(std::string name, IsolatedSteps steps)
      : name_(std::move(name)), steps_(std::move(steps)), slots_(plan().values.size()) {
    for (size_t i = 0; i < slots_.size(); ++i)
      if (const Tensor* c = plan().constant(plan().values[i])) slots_[i] = *c;
  }
  void Bind(const std::vector<Datum>& inputs) {
    inputs_ = inputs;
    for (size_t i = 0; i < inputs.size(); ++i) slot(plan().inputs[i]) = inputs[i];
  }

  /// Computes the step. Its operands stay until Free.
  Status Evaluate(size_t s) {
    const PlanStep& step = plan().steps[s];
    const LaneLease lease(0);
    // What the step computes for itself alone it drops, but the borrowed nodes' results are
    // values that others read.
    std::vector<std::pair<int, Datum>> borrowed;
    for (size_t n = 0; n < step.borrowed; ++n)
      for (const Value* v : step.nodes[n]->outputs())
        if (v) borrowed.emplace_back(plan().id(v), slot(plan().id(v)));
    ResultCheck check(plan().graph, inputs_);
    INFER_TRY(EvaluateStep(plan(), step, slots_, check));
    for (auto& [id, datum] : borrowed) slot(id) = std::move(datum);
    return {};
  }
  void Free(size_t s) {
    for (const int id : plan().steps[s].dies)
      if (!steps_.shapes().frame->late.Reads(id)) slot(id) = Datum();
  }
  std::vector<Tensor> Tensors(const std::vector<int>& ids) const {
    std::vector<Tensor> tensors;
    for (const int id : ids) tensors.push_back(slots_[static_cast<size_t>(id)].tensor());
    return tensors;
  }
  std::vector<Datum> LateInputs() const {
    std::vector<Datum> values;
    for (const int id : steps_.shapes().frame->late.inputs)
      values.push_back(slots_[static_cast<size_t>(id)]);
    return values;
  }

  const Plan& plan() const { return steps_.plan(); }
  const IsolatedSteps& steps() const { return steps_; }
  const std::string& name() const { return name_; }

 private:
  Datum& slot(int id) { return slots_[static_cast<size_t>(id)]; }

  std::string name_;
  IsolatedSteps steps_;
  std::vector<Datum> slots_;  // by value id
  std::vector<Datum> inputs_;
};

int64_t KernelCase::all_uses() const {
  return std::accumulate(uses.begin(), uses.end(), int64_t{0},
                         [](int64_t sum, const auto& use) { return sum + use.second; });
}

Status KernelBench::Add(const std::string& source, Graph graph, const std::vector<Datum>& inputs) {
  KernelSource facts{.name = source};
  std::vector<Datum> values = inputs;
  // Steps whose shapes hang on data are a graph of their own, which is planned when they are known.
  for (std::optional<Graph> next(std::move(graph)); next;) {
    std::vector<Dims> dims;
    for (const Datum& d : values) dims.push_back(d.is_tensor() ? d.tensor().dims() : Dims());
    INFER_ASSIGN(IsolatedSteps steps,
                 IsolatedSteps::Make(std::move(*next), dims, kernels_,
                                     {.level = options_.level, .threads = options_.threads}));
    next.reset();
    Walk walk(source, std::move(steps));
    walk.Bind(values);
    const LateSteps& late = walk.steps().shapes().frame->late;
    const auto is_late = [&](size_t s) {
      return std::find(late.steps.begin(), late.steps.end(), s) != late.steps.end();
    };
    for (size_t s = 0; s < walk.plan().steps.size(); ++s) {
      if (options_.stop.stop_requested()) return {};
      if (is_late(s)) continue;
      INFER_TRY(AddStep(walk, s, facts).In(walk.steps().info(s).node));
    }
    if (late.steps.empty() || options_.list) break;
    INFER_ASSIGN(next, LateGraph(walk.plan(), walk.steps().shapes()));
    values = walk.LateInputs();
  }
  sources_.push_back(std::move(facts));
  return {};
}

Status KernelBench::AddStep(Walk& walk, size_t s, KernelSource& facts) {
  const PlanStep& step = walk.plan().steps[s];
  const StepKernel* kernel = walk.steps().kernel(s);
  if (!options_.list) INFER_TRY(walk.Evaluate(s));
  if (!kernel && walk.steps().IsRun(s)) {
    ++facts.steps;
    // A group in parts runs on kernels, which are timed where they stand alone.
    const StepInfo& info = walk.steps().info(s);
    if (RunsOnReference(info.kernel)) ++facts.reference[info.op];
  }
  if (kernel) {
    ++facts.steps;
    ++facts.with_kernel;
    std::vector<StepKernel> all = {*kernel};
    if (options_.alternatives)
      for (StepKernel& other : walk.steps().Others(s)) all.push_back(std::move(other));
    std::vector<Tensor> operands, want;
    if (!options_.list) {
      operands = walk.Tensors(step.inputs);
      want = walk.Tensors(step.outputs);
    }
    for (const StepKernel& k : all) INFER_TRY(Measure(walk, k, operands, want));
  }
  walk.Free(s);
  return {};
}

KernelCase* KernelBench::CaseOf(const Walk& walk, const StepKernel& k) {
  const PlanStep& step = walk.plan().steps[k.step];
  const StepInfo& info = walk.steps().info(k.step);
  const OpDef& def = step.main->def();
  for (const KernelDef& entry : kernels_)
    if (entry.name == k.name && entry.Takes(def)) covered_.insert(EntryOf(entry));
  const std::string name = Cat(OperatorOf(step), "/", k.implementation(), "/", ShortShapes(k.in),
                               "->", ShortShapes(k.out));
  if (!GlobMatch(options_.filter, name)) return nullptr;
  const auto [at, is_new] = by_key_.emplace(KeyOf(step, k), cases_.size());
  if (!is_new) {
    KernelCase& known = cases_[at->second];
    ++known.uses[walk.name()];
    return &known;
  }
  KernelCase c;
  const int same = ++by_name_[name];
  c.name = same > 1 ? Cat(name, "#", same) : name;
  c.kernel = k.name;
  c.op = FullOpName(def.domain, def.name);
  c.operators = OperatorOf(step);
  c.implementation = k.implementation();
  c.precision = info.precision;
  c.chosen = k.chosen;
  c.lanes = k.alone ? 1 : walk.steps().lanes();
  for (size_t i = 0; i < k.in.size(); ++i)
    c.operands.push_back(TextOf(k.in[i], LayoutAt(k.prepared.in_layouts, i),
                                i < k.prepared.unused.size() && k.prepared.unused[i]));
  for (size_t i = 0; i < k.out.size(); ++i)
    c.results.push_back(TextOf(k.out[i], LayoutAt(k.prepared.out_layouts, i), false));
  c.uses[walk.name()] = 1;
  c.cost = info.cost;
  c.constant_bytes = info.constant_bytes;
  c.is_view = !k.prepared.launch;
  return &cases_.emplace_back(std::move(c));
}

Status KernelBench::Measure(const Walk& walk, const StepKernel& kernel,
                            std::span<const Tensor> operands, std::span<const Tensor> want) {
  KernelCase* c = CaseOf(walk, kernel);
  if (!c || options_.list) return {};
  const StepRun::Lanes lanes(kernel, walk.steps().lanes());
  INFER_ASSIGN(StepRun run, StepRun::Make(kernel, operands));
  INFER_TRY(run.Run());
  INFER_ASSIGN(const std::vector<Tensor> got, run.Results());
  INFER_ASSIGN(StepCheck check, CheckStep(walk.plan().steps[kernel.step], kernel, want, got));
  if (!check.ok() && c->check.ok())
    c->wrong_in = Cat(walk.name(), ", ", walk.steps().info(kernel.step).node);
  const bool is_new = c->check.tolerance == 0;
  if (is_new || IsWorse(c->check, check)) c->check = std::move(check);
  if (!c->check.ok()) c->time.reset();
  if (!is_new) return {};
  if (c->check.ok() && !run.is_view()) {
    INFER_ASSIGN(c->time, timer_.Time(c->name, c->cost, [&run] { return run.Run(); }));
  }
  if (options_.on_case) options_.on_case();
  return {};
}

KernelEntry KernelBench::EntryOf(const KernelDef& k) {
  return {k.op.empty() ? "any" : FullOpName(k.domain, k.op), std::string(k.name)};
}

std::vector<KernelEntry> KernelBench::Entries() const {
  std::vector<KernelEntry> entries;
  for (const KernelDef& k : kernels_) {
    KernelEntry e = EntryOf(k);
    if (std::find(entries.begin(), entries.end(), e) == entries.end())
      entries.push_back(std::move(e));
  }
  return entries;
}

std::string KernelBench::Gbench() const {
  std::map<std::string, std::map<std::string, double>> counters;
  for (const KernelCase& c : cases_)
    if (c.time) counters[c.name] = {{"uses", static_cast<double>(c.all_uses())}};
  return timer_.Json(counters);
}

}  // namespace infer::bench
