#include "runtime/plan_ir/specialize.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "lib/ir/editor.h"
#include "lib/ir/eval.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// What is worth knowing before the run: operands and results of a node up to so many bytes.
constexpr int64_t kFoldBytes = 1 << 16;
/// Elements that inference is told of.
constexpr int64_t kFoldElements = 256;

/// The integer tensor that `elements` describe, where all of them are known.
Tensor KnownTensor(const ValueType& type, const std::optional<std::vector<Dim>>& elements) {
  if (!elements || !IsPlannable(type) || !IsInteger(type.tensor().dtype)) return {};
  const Dims dims = type.tensor().shape.static_dims();
  if (NumElements(dims) != static_cast<int64_t>(elements->size())) return {};
  for (const Dim& d : *elements)
    if (!d.is_static()) return {};
  Tensor t(type.tensor().dtype, dims);
  for (size_t i = 0; i < elements->size(); ++i)
    t.SetInt(static_cast<int64_t>(i), (*elements)[i].value());
  return t;
}

/// Works on a copy of the plan's graph. Its values and nodes correspond to the plan's by position.
class Specializer {
 public:
  Specializer(const Plan& plan, ShapePlan& out)
      : plan_(plan), out_(out), graph_(plan.graph.Clone()), editor_(graph_) {
    for (const auto& v : graph_.values()) id_.emplace(v.get(), static_cast<int>(id_.size()));
    out_.known.resize(plan_.values.size());
  }

  Status Run(std::span<const Dims> input_dims) {
    out_.declared.assign(plan_.steps.size(), false);
    INFER_TRY(SetInputs(input_dims));
    for (const auto& n : graph_.nodes()) INFER_TRY(Visit(*n));
    for (const auto& v : graph_.values()) out_.types.push_back(v->type());
    INFER_CHECK(out_.types.size() == plan_.values.size());
    MarkSteps();
    SetCosts();
    return {};
  }

 private:
  /// What the graph stores of a value.
  struct Facts {
    ValueType type;
    std::optional<std::vector<Dim>> elements;
    std::optional<Tensor> known;
  };

  Status SetInputs(std::span<const Dims> input_dims) {
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      Value* v = graph_.inputs()[i];
      if (!v->type().is_tensor()) continue;
      TensorType t{v->dtype(), Shape(input_dims[i])};
      auto met = Meet(t.shape, v->shape());
      if (!met.ok()) return std::move(met.status()).In(Cat("input '", v->name(), "'"));
      if (!(t.shape == v->shape())) changed_.insert(v);
      editor_.SetType(v, std::move(t));
    }
    return {};
  }

  /// Infers a node from what is known of its operands in this run. Where nothing else is known of
  /// them than the graph says, what the graph says of the results stays, and a type that does not
  /// follow by inference (the model declares it) marks the node: such types hold once the node has
  /// run and its results were compared. Small results whose operands are all known are computed:
  /// shapes may hang on them.
  Status Visit(Node& n) {
    std::vector<Facts> stored;
    for (const Value* v : n.outputs()) stored.push_back(v ? FactsOf(*v) : Facts());
    INFER_TRY(editor_.Reinfer(n));
    const auto any = [&](const std::unordered_set<const Value*>& set) {
      return std::any_of(n.inputs().begin(), n.inputs().end(),
                         [&](const Value* v) { return set.contains(v); });
    };
    const bool is_late = any(late_), keeps = !is_late && !any(changed_);
    bool is_declared = false, complete = true;
    for (size_t i = 0; i < n.outputs().size(); ++i) {
      Value* v = n.output(i);
      if (!v || IsConstant(v)) continue;
      INFER_TRY(Compare(*v));
      if (keeps) {
        is_declared |= !(v->type() == stored[i].type) && IsPlannable(stored[i].type);
        Restore(v, std::move(stored[i]));
      } else if (!(v->type() == stored[i].type) || v->elements() != stored[i].elements) {
        changed_.insert(v);
      }
      is_declared |= IsDeduced(n) && IsPlannable(v->type());
      Tensor& t = Known(v);
      t = KnownTensor(v->type(), v->elements());
      complete &= t.defined();
    }
    if (!complete && Fold(n)) is_declared = false;
    if (is_declared) declared_.insert(&n);
    for (const Value* v : n.outputs())
      if (v && (is_late || IsUnsized(*v))) late_.insert(v);
    return {};
  }

  /// Extents of a view that another operand asks for, whose numbers only the run knows: inference
  /// says what they are where the operand is right.
  bool IsDeduced(const Node& n) const {
    const Value* wanted = n.Is(Trait::kView) ? n.input(1) : nullptr;
    if (!wanted || !wanted->type().is_tensor() || !IsInteger(wanted->dtype())) return false;
    return !KnownOrConstant(plan_, out_, id_.at(wanted));
  }

  static Facts FactsOf(const Value& v) {
    return {v.type(), v.elements(), v.known() ? std::optional(*v.known()) : std::nullopt};
  }

  void Restore(Value* v, Facts facts) {
    editor_.SetType(v, std::move(facts.type));
    editor_.SetElements(v, std::move(facts.elements));
    editor_.SetKnown(v, std::move(facts.known));
  }

  const Value& InPlan(const Value& v) const {
    return *plan_.values[static_cast<size_t>(id_.at(&v))];
  }

  /// What follows from the inputs of this run against what the model says of the value. Extents
  /// that inference finds whole win: exporters declare results of one batch that run with any, and
  /// other runtimes run them.
  Status Compare(const Value& v) const {
    const ValueType& want = InPlan(v).type();
    if (Meet(v.type(), want).ok()) return {};
    if (v.type().is_tensor() && want.is_tensor() && v.type().tensor().is_static() &&
        v.dtype() == want.tensor().dtype)
      return {};
    return InvalidModel(Cat("value '", v.name(), "': the model says ", ToString(want),
                            ", running it gives ", ToString(v.type())));
  }

  /// A tensor of numbers whose extents only the run knows.
  bool IsUnsized(const Value& v) const {
    return v.type().is_tensor() && v.dtype() != DType::kString && !IsPlannable(v.type()) &&
           !KnownOrConstant(plan_, out_, id_.at(&v));
  }

  /// Whether it learnt all results. A node that fails here, or gives something else than the model
  /// says, does so in the run, where it is reported.
  bool Fold(const Node& n) {
    if (!MayFold(n)) return false;
    std::vector<Datum> values;
    for (const Value* v : n.inputs())
      values.push_back(v ? Datum(*KnownOrConstant(plan_, out_, id_.at(v))) : Datum());
    std::vector<const Datum*> operands;
    for (size_t i = 0; i < values.size(); ++i)
      operands.push_back(n.input(i) ? &values[i] : nullptr);
    const auto results = EvaluateNode(n, operands, plan_.graph.ops());
    if (!results.ok()) return false;
    for (size_t o = 0; o < n.outputs().size() && o < results->size(); ++o)
      if (n.output(o) && !CheckResult((*results)[o], InPlan(*n.output(o))).ok()) return false;
    bool all = true;
    for (size_t o = 0; o < n.outputs().size() && o < results->size(); ++o) {
      Value* v = n.output(o);
      if (!v || IsConstant(v)) continue;
      all &= (*results)[o].is_tensor() && Learn(v, (*results)[o].tensor());
    }
    return all;
  }

  /// Its operands are known, and with the results they take few bytes.
  bool MayFold(const Node& n) const {
    if (!n.def().deterministic || !n.subgraphs().empty() || n.inputs().empty()) return false;
    int64_t bytes = 0;
    for (const Value* v : n.inputs()) {
      if (!v) continue;
      const Tensor* t = KnownOrConstant(plan_, out_, id_.at(v));
      if (!t || t->dtype() == DType::kString) return false;
      bytes += t->byte_size();
    }
    for (const Value* v : n.outputs()) {
      if (!v) continue;
      if (!IsPlannable(v->type()) && n.Is(Trait::kEnlarging)) return false;
      bytes += PlannedBytes(v->type());
    }
    return bytes <= kFoldBytes;
  }

  bool Learn(Value* v, const Tensor& t) {
    if (t.dtype() == DType::kString) return false;
    Known(v) = t;
    changed_.insert(v);
    editor_.SetType(v, t.type());
    if (IsInteger(t.dtype()) && t.rank() <= 1 && t.num_elements() <= kFoldElements)
      editor_.SetElements(v, ElementsOf(t));
    return true;
  }

  void MarkSteps() {
    if (declared_.empty()) return;
    std::unordered_set<const Node*> nodes;
    auto it = graph_.nodes().begin();
    for (const auto& n : plan_.graph.nodes())
      if (declared_.contains((it++)->get())) nodes.insert(n.get());
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      for (const Node* n : plan_.steps[s].nodes)
        if (nodes.contains(n)) out_.declared[s] = true;
  }

  /// A step of one node costs what the node does; a fused one moves only its own operands.
  void SetCosts() {
    std::map<const Node*, Cost> cost;
    auto it = graph_.nodes().begin();
    for (const auto& n : plan_.graph.nodes()) cost[n.get()] = StaticCost(**it++, graph_.ops());
    for (const PlanStep& step : plan_.steps) {
      Cost& c = out_.cost.emplace_back();
      if (step.nodes.size() == 1) {
        c = cost[step.main];
        continue;
      }
      for (const Node* n : step.nodes) c.flops += cost[n].flops;
      for (int id : step.inputs) c.bytes_read += BytesOf(id);
      for (int id : step.outputs) c.bytes_written += BytesOf(id);
    }
  }

  int64_t BytesOf(int id) const { return PlannedBytes(out_.types[static_cast<size_t>(id)]); }
  Tensor& Known(const Value* v) { return out_.known[static_cast<size_t>(id_.at(v))]; }
  bool IsConstant(const Value* v) const {
    return plan_.constant(plan_.values[static_cast<size_t>(id_.at(v))]) != nullptr;
  }

  const Plan& plan_;
  ShapePlan& out_;
  Graph graph_;
  GraphEditor editor_;
  std::unordered_map<const Value*, int> id_;  // of graph_'s values in the plan
  // Of which other facts hold in this run than the graph stores; whose extents, or those of what
  // they follow from, only the run knows.
  std::unordered_set<const Value*> changed_, late_;
  std::unordered_set<const Node*> declared_;
};

}  // namespace

bool IsPlannable(const ValueType& type) {
  return type.is_tensor() && type.tensor().is_static() && type.tensor().dtype != DType::kString;
}

int64_t PlannedBytes(const ValueType& type) {
  if (!IsPlannable(type)) return 0;
  return PackedBytes(type.tensor().dtype, NumElements(type.tensor().shape.static_dims()));
}

const Tensor* KnownOrConstant(const Plan& plan, const ShapePlan& shapes, int id) {
  const auto i = static_cast<size_t>(id);
  if (const Tensor* c = plan.constant(plan.values[i])) return c;
  return shapes.known[i].defined() ? &shapes.known[i] : nullptr;
}

Status Specialize(const Plan& plan, std::span<const Dims> input_dims, ShapePlan& out) {
  out.input_dims.assign(input_dims.begin(), input_dims.end());
  return Specializer(plan, out).Run(input_dims);
}

}  // namespace infer
