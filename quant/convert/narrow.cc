#include "quant/convert/narrow.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/calibrate/calibrate.h"
#include "quant/convert/bodies.h"
#include "quant/convert/float_rules.h"
#include "quant/convert/layers.h"
#include "quant/scheme/op_rules.h"
#include "quant/scheme/quantize.h"

namespace infer {
namespace {

/// Computed values must stay below the type's largest number by this factor: unseen data go
/// further.
constexpr double kRoom = 2;

/// Which nodes become narrow. Reads the graph, changes nothing.
class NarrowPlan {
 public:
  NarrowPlan(const Graph& g, const NarrowOptions& options) : g_(g), options_(options) {}

  Status Filter(const Graph& original);
  void KeepByRules();
  void KeepByConstants();
  void KeepByRanges(const std::map<std::string, RoundingCheck>& seen);
  void KeepWithoutRanges();
  void SpareCasts();

  bool narrow(const Node* n) const { return nodes_.at(n).reason.empty(); }
  const Retyped& retyped(const Node* n) const { return nodes_.at(n).retyped; }
  const std::string& reason(const Node* n) const { return nodes_.at(n).reason; }
  /// Whether the operator has a 16-bit form at all.
  bool covered(const Node* n) const { return nodes_.at(n).covered; }

 private:
  struct Entry {
    Retyped retyped;
    std::string reason;  // why f32
    bool covered = false;
  };
  bool MadeNarrow(const Value* v) const {
    const Node* n = v->producer();
    return n && narrow(n) &&
           std::count(retyped(n).results.begin(), retyped(n).results.end(), v->producer_index()) >
               0;
  }
  bool ReadNarrow(const Use& use) const {
    const Retyped& r = retyped(use.user);
    return narrow(use.user) && std::count(r.operands.begin(), r.operands.end(), use.operand) > 0;
  }
  int CastsOf(const Value* v) const;
  int CastsAround(const std::vector<Node*>& nodes) const;
  std::vector<Node*> LightRegion(Node* from) const;

  const Graph& g_;
  const NarrowOptions& options_;
  NodeFilter include_, exclude_;
  std::map<const Node*, Entry> nodes_;
  std::map<const Value*, RoundingCheck> constants_;
};

Status NarrowPlan::Filter(const Graph& original) {
  INFER_ASSIGN(include_, NodeFilter::Compile(options_.include, &original));
  INFER_ASSIGN(exclude_, NodeFilter::Compile(options_.exclude, &original));
  const Graph* graphs[] = {&g_, &original};
  INFER_TRY(include_.CheckEachMatches(graphs, "include"));
  return exclude_.CheckEachMatches(graphs, "exclude");
}

void NarrowPlan::KeepByRules() {
  for (const auto& n : g_.nodes()) {
    Entry& e = nodes_[n.get()];
    e.retyped = RetypedWith(*n, options_.to);
    e.reason = NeedsF32(*n, options_.to);
    e.covered = e.reason.empty();
    if (!e.covered) continue;
    if (const NodePattern* p = exclude_.Match(*n))
      e.reason = Cat("excluded by ", ToString(*p));
    else if (!include_.empty() && !include_.Match(*n))
      e.reason = "no include entry matches it";
  }
}

void NarrowPlan::KeepByConstants() {
  for (const auto& v : g_.values()) {
    if (!v->is_constant() || !IsF32(v.get())) continue;
    constants_.try_emplace(v.get(), options_.to).first->second.See(v->constant()->data<float>());
  }
  for (const auto& n : g_.nodes()) {
    Entry& e = nodes_[n.get()];
    if (!e.reason.empty()) continue;
    for (const size_t i : e.retyped.operands) {
      const Value* v = n->input(i);
      if (!v->is_constant()) continue;
      const std::string why = constants_.at(v).Why(1);
      if (!why.empty()) e.reason = Cat("constants '", v->name(), "' ", why);
    }
  }
}

void NarrowPlan::KeepByRanges(const std::map<std::string, RoundingCheck>& seen) {
  for (const auto& n : g_.nodes()) {
    Entry& e = nodes_[n.get()];
    const auto check = [&](const Value* v) {
      const auto it = seen.find(v->name());
      if (it == seen.end() || !e.reason.empty()) return;
      const std::string why = it->second.Why(kRoom);
      if (!why.empty()) e.reason = Cat("values '", v->name(), "' ", why);
    };
    for (const size_t i : e.retyped.operands) check(n->input(i));
    for (const size_t i : e.retyped.results) check(n->output(i));
  }
}

void NarrowPlan::KeepWithoutRanges() {
  if (options_.to != DType::kF16) return;  // bf16 has the range of f32
  std::set<const Value*> wild;
  for (const auto& n : g_.nodes()) {
    Entry& e = nodes_[n.get()];
    bool from_wild = false;
    for (const size_t i : e.retyped.operands) {
      const Value* v = n->input(i);
      bool overflows = wild.count(v) > 0;
      if (v->is_constant()) overflows = constants_.at(v).overflows(1);
      if (!overflows) continue;
      from_wild = true;
      if (e.reason.empty()) e.reason = Cat("it reads '", v->name(), "', which may overflow f16");
    }
    if (e.reason.empty() && ResultsGrow(*n))
      e.reason = "its results may overflow f16, and without data nothing says that they do not";
    if (from_wild && !ResultsBounded(*n))
      for (const size_t i : e.retyped.results) wild.insert(n->output(i));
  }
}

/// Casts that value `v` needs: one for all readers of the other width.
int NarrowPlan::CastsOf(const Value* v) const {
  if (v->is_constant()) return 0;
  const bool made = v->is_input() ? !options_.keep_io : MadeNarrow(v);
  bool other = v->is_output() && !v->is_input() && made == options_.keep_io;
  for (const Use& use : v->uses()) other = other || ReadNarrow(use) != made;
  return other ? 1 : 0;
}

int NarrowPlan::CastsAround(const std::vector<Node*>& nodes) const {
  std::set<const Value*> values;
  for (const Node* n : nodes) {
    for (const size_t i : retyped(n).operands) values.insert(n->input(i));
    for (const size_t i : retyped(n).results) values.insert(n->output(i));
  }
  int casts = 0;
  for (const Value* v : values) casts += CastsOf(v);
  return casts;
}

/// The narrow light nodes that are connected with `from` through values of their changing type.
std::vector<Node*> NarrowPlan::LightRegion(Node* from) const {
  std::vector<Node*> region{from};
  std::set<const Node*> seen{from};
  const auto visit = [&](Node* n) {
    if (n && !IsHeavy(*n) && narrow(n) && seen.insert(n).second) region.push_back(n);
  };
  for (size_t k = 0; k < region.size(); ++k) {
    const Node* n = region[k];
    for (const size_t i : retyped(n).operands) visit(n->input(i)->producer());
    for (const size_t i : retyped(n).results)
      for (const Use& use : n->output(i)->uses()) visit(use.user);
  }
  return region;
}

/// Regions of light operators, then single ones, go back to f32 where that leaves fewer casts.
void NarrowPlan::SpareCasts() {
  const auto try_wide = [&](const std::vector<Node*>& nodes) {
    const int before = CastsAround(nodes);
    for (const Node* n : nodes) nodes_[n].reason = "casts around it would cost more than it saves";
    if (CastsAround(nodes) < before) return true;
    for (const Node* n : nodes) nodes_[n].reason.clear();
    return false;
  };
  for (bool changed = true; changed;) {
    changed = false;
    std::set<const Node*> done;
    for (const auto& n : g_.nodes()) {
      if (IsHeavy(*n) || !narrow(n.get()) || done.count(n.get())) continue;
      const std::vector<Node*> region = LightRegion(n.get());
      done.insert(region.begin(), region.end());
      changed = try_wide(region) || changed;
    }
    for (const auto& n : g_.nodes())
      if (!IsHeavy(*n) && narrow(n.get())) changed = try_wide({n.get()}) || changed;
  }
}

/// Writes a plan into the graph.
class NarrowWriter {
 public:
  NarrowWriter(Graph& g, const NarrowPlan& plan, const NarrowOptions& options)
      : g_(g), plan_(plan), options_(options), editor_(g) {}
  Status Write();

 private:
  Result<Value*> Cast(Value* v, DType to);
  Status WriteNode(Node& n);
  Status WriteOutputs();

  Graph& g_;
  const NarrowPlan& plan_;
  const NarrowOptions& options_;
  GraphEditor editor_;
  std::map<const Value*, Value*> cast_;  // to the value's other width
  std::set<const Value*> converted_;     // were f32, are narrow
};

/// `v` in the other width; made once.
Result<Value*> NarrowWriter::Cast(Value* v, DType to) {
  Value*& slot = cast_[v];
  if (slot) return slot;
  const std::string name = Cat(v->name(), "_", Name(to));
  if (v->is_constant()) return slot = editor_.AddConstant(v->constant()->Cast(to), name);
  if (v->producer())
    editor_.InsertAfter(*v->producer());
  else
    editor_.InsertBefore(*g_.nodes().front());
  INFER_ASSIGN(slot, AddCast(editor_, v, to, name));
  return slot;
}

Status NarrowWriter::WriteNode(Node& n) {
  const bool narrow = plan_.narrow(&n);
  const Retyped& r = plan_.retyped(&n);
  for (size_t i = 0; i < n.inputs().size(); ++i) {
    Value* v = n.input(i);
    const bool wanted = narrow && std::count(r.operands.begin(), r.operands.end(), i) > 0;
    if (!v || wanted == (converted_.count(v) > 0) || (wanted && !IsF32(v))) continue;
    INFER_ASSIGN(Value * other, Cast(v, wanted ? options_.to : DType::kF32));
    editor_.SetOperand(n, i, other);
  }
  if (!narrow) return {};
  INFER_TRY(editor_.Reinfer(n));
  for (const size_t i : r.results) converted_.insert(n.output(i));
  return {};
}

/// Outputs keep type and name; with keep_io off those that are f32 still become narrow.
Status NarrowWriter::WriteOutputs() {
  for (size_t i = 0; i < g_.outputs().size(); ++i) {
    Value* v = g_.outputs()[i];
    const bool is_narrow = converted_.count(v) > 0;
    if (v->is_input() || v->is_constant() || !v->type().is_tensor()) continue;
    if (is_narrow == !options_.keep_io || (!is_narrow && v->dtype() != DType::kF32)) continue;
    Value*& slot = cast_[v];
    slot = nullptr;  // the output's own, behind all others: it takes the name
    INFER_ASSIGN(Value * other, Cast(v, options_.keep_io ? DType::kF32 : options_.to));
    INFER_TRY(editor_.SetOutput(i, other));
  }
  return {};
}

Status NarrowWriter::Write() {
  if (!options_.keep_io)
    for (Value* v : g_.inputs())
      if (IsF32(v)) {
        editor_.SetType(v, TensorType{options_.to, v->shape()});
        converted_.insert(v);
      }
  std::vector<Node*> nodes;
  for (const auto& n : g_.nodes()) nodes.push_back(n.get());
  for (Node* n : nodes)
    if (Status s = WriteNode(*n); !s.ok()) return std::move(s).In(Describe(*n));
  INFER_TRY(WriteOutputs());
  editor_.Sweep();
  return {};
}

/// Runs all samples and watches every f32 value that is computed.
Result<std::map<std::string, RoundingCheck>> Watch(const Graph& g, const Samples& samples,
                                                   const Backend& backend,
                                                   const NarrowOptions& options) {
  std::map<std::string, RoundingCheck> seen;
  std::vector<std::string> taps;
  for (const auto& n : g.nodes())
    for (const Value* v : n->outputs())
      if (IsF32(v)) taps.push_back(v->name());
  CompileOptions compile;
  compile.threads = options.threads;
  compile.level = 0;
  INFER_ASSIGN(TappedProgram p, CompileWithTaps(g, taps, backend, compile));
  const auto see = [&](const std::string& name, const Datum& d) {
    seen.try_emplace(name, options.to).first->second.See(d.tensor().data<float>());
  };
  for (int64_t run = 0; run < samples.count; ++run) {
    INFER_ASSIGN(const std::vector<Datum> inputs, samples.get(run));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (IsF32(g.inputs()[i])) see(g.inputs()[i]->name(), inputs[i]);
    if (Status s = RunInputs(*p.context, inputs, options.stop); !s.ok())
      return std::move(s).In(Cat("sample ", run));
    for (size_t k = 0; k < p.tapped.size(); ++k)
      see(p.tapped[k], p.context->output(p.num_outputs + k));
    if (options.progress) options.progress(run + 1, samples.count);
  }
  return seen;
}

Status KeepWide(const Graph& original, const Samples& samples, const Backend& backend,
                const NarrowOptions& options, const Graph& g, NarrowPlan& plan) {
  INFER_TRY(plan.Filter(original));
  plan.KeepByRules();
  plan.KeepByConstants();
  if (samples.count > 0) {
    INFER_ASSIGN(const auto seen, Watch(g, samples, backend, options));
    plan.KeepByRanges(seen);
  } else {
    plan.KeepWithoutRanges();
  }
  plan.SpareCasts();
  return {};
}

QuantizedLayer LayerOf(const Node& n, const NarrowPlan& plan, DType to) {
  QuantizedLayer layer;
  layer.name = LayerName(n);
  layer.op = n.op();
  layer.quantizable = plan.covered(&n);
  layer.reason = plan.reason(&n);
  layer.precision = layer.reason.empty() ? std::string(Name(to)) : "f32";
  for (const Value* v : n.inputs())
    if (v && v->is_constant() && IsF32(v)) layer.weight_bytes_before += v->constant()->byte_size();
  layer.weight_bytes_after = layer.weight_bytes_before;
  if (layer.reason.empty())
    for (const size_t i : plan.retyped(&n).operands)
      if (n.input(i)->is_constant())
        layer.weight_bytes_after -= n.input(i)->constant()->byte_size() / 2;
  return layer;
}

}  // namespace

Result<QuantizeReport> NarrowFloats(Graph& g, const Samples& samples, const Backend& backend,
                                    const NarrowOptions& options) {
  INFER_CHECK(options.to == DType::kF16 || options.to == DType::kBF16);
  INFER_TRY(CheckIsFloat(g));
  Graph work = g.Clone();
  if (options.prepare)
    if (Status s = PrepareForQuantization(work); !s.ok())
      return std::move(s).In("preparing the model");
  QuantizeReport report;
  INFER_ASSIGN(const std::string bodies,
               QuantizeBodies(
                   work,
                   [&](Graph& body) -> Result<QuantizeReport> {
                     NarrowOptions inside = options;
                     inside.keep_io = true;
                     INFER_TRY(FitPatterns(body, inside.include, inside.exclude));
                     // No samples run through it alone.
                     return NarrowFloats(body, {}, backend, inside);
                   },
                   report));
  NarrowPlan plan(work, options);
  INFER_TRY(KeepWide(g, samples, backend, options, work, plan));
  report.calibration_samples = samples.count;
  report.weight_bytes_before = ConstantBytes(g);
  for (const auto& n : work.nodes()) {
    if (!IsLayer(*n)) continue;
    report.layers.push_back(LayerOf(*n, plan, options.to));
  }
  CountLayers(report);
  if (report.integer_layers == 0)
    return Unsupported(Cat("no layer can be ", Name(options.to),
                           report.layers.empty()
                               ? ""
                               : Cat(": ", report.layers[0].name, ": ", report.layers[0].reason),
                           InABody(bodies)));
  INFER_TRY(NarrowWriter(work, plan, options).Write());
  if (Status s = Verify(work); !s.ok()) return Internal(Cat("after conversion: ", s.message()));
  report.weight_bytes_after = ConstantBytes(work);
  if (samples.count == 0 && options.to == DType::kF16)
    report.warnings.push_back(
        "no data: only constants were checked for the range of f16, not what is computed");
  g = std::move(work);
  return report;
}

}  // namespace infer
