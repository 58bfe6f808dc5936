#include "runtime/plan_ir/specialize.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

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

/// All that a graph stores of a value.
struct Facts {
  ValueType type;
  std::optional<std::vector<Dim>> elements;
  std::optional<Tensor> known;
};

Facts FactsOf(const Value& v) {
  return {v.type(), v.elements(), v.known() ? std::optional(*v.known()) : std::nullopt};
}

bool SameTensor(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  if (a.raw() == b.raw()) return true;
  return a.dtype() != DType::kString &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.byte_size())) == 0;
}

bool SameFacts(const Facts& a, const Value& v) {
  return a.type == v.type() && a.elements == v.elements() && a.known.has_value() == !!v.known() &&
         (!a.known || SameTensor(*a.known, *v.known()));
}

}  // namespace

/// Works on a copy of the plan's graph. Its values and nodes correspond to the plan's by position.
class Specializer::State {
 public:
  explicit State(const Plan& plan)
      : plan_(plan),
        graph_(plan.graph.Clone()),
        editor_(graph_),
        known_(plan.values.size()),
        fate_(plan.values.size()) {
    std::unordered_map<const Value*, int> ids;
    for (const auto& v : graph_.values()) {
      ids.emplace(v.get(), static_cast<int>(values_.size()));
      values_.push_back(v.get());
    }
    INFER_CHECK(values_.size() == plan.values.size());
    auto in_plan = plan.graph.nodes().begin();
    for (const auto& n : graph_.nodes()) {
      Visited& visited = nodes_.emplace_back(Visited{n.get(), (in_plan++)->get()});
      for (const Value* v : n->inputs()) visited.inputs.push_back(v ? ids.at(v) : -1);
      for (const Value* v : n->outputs()) visited.outputs.push_back(v ? ids.at(v) : -1);
      has_bodies_ |= !n->subgraphs().empty();
    }
    FindStepNodes();
  }

  Status Run(std::span<const Dims> input_dims, ShapePlan& out) {
    // Inference narrows bodies where they stand: they have to be as the model has them.
    INFER_CHECK(is_fresh_ || !has_bodies_);
    for (Fate& f : fate_) f.moved = is_fresh_;
    INFER_TRY(SetInputs(input_dims));
    for (Visited& n : nodes_)
      if (is_fresh_ || ReadsAny(n, &Fate::moved)) INFER_TRY(Visit(n));
    is_fresh_ = false;
    out.types.clear();
    out.types.reserve(values_.size());
    for (const Value* v : values_) out.types.push_back(v->type());
    out.known = known_;
    out.given.clear();
    out.given.reserve(values_.size());
    for (size_t i = 0; i < values_.size(); ++i)
      out.given.push_back(KnownOrConstant(out.known, static_cast<int>(i)));
    MarkSteps(out);
    SetCosts(out);
    return {};
  }

  bool has_bodies() const { return has_bodies_; }
  bool moved(int id) const { return fate(id).moved; }

 private:
  /// A node, with what it came to.
  struct Visited {
    Node* node;
    const Node* in_plan;
    std::vector<int> inputs = {}, outputs = {};  // ids; -1: none
    bool declared = false;                       // extents of a result are nothing but declared
    Cost cost = {};
  };
  /// The state of a value in this run.
  struct Fate {
    bool changed = false;  // other facts hold of it than the plan's graph stores
    bool late = false;     // only the run knows its extents, or those of what they follow from
    bool moved = false;    // something of it is otherwise than after the run before
  };

  bool ReadsAny(const Visited& n, bool Fate::*what) const {
    return std::any_of(n.inputs.begin(), n.inputs.end(),
                       [&](int id) { return id >= 0 && fate(id).*what; });
  }

  Status SetInputs(std::span<const Dims> input_dims) {
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const int id = plan_.inputs[i];
      const Value& stored = InPlan(id);
      if (!stored.type().is_tensor()) continue;
      TensorType t{stored.dtype(), Shape(input_dims[i])};
      auto met = Meet(t.shape, stored.shape());
      if (!met.ok()) return std::move(met.status()).In(Cat("input '", stored.name(), "'"));
      Value* v = value(id);
      fate(id).changed = !(t.shape == stored.shape());
      fate(id).moved |= !(v->type() == ValueType(t));
      editor_.SetType(v, std::move(t));
    }
    return {};
  }

  /// Infers a node from what is known of its operands in this run. Where nothing else is known of
  /// them than the graph says, what the graph says of the results stays, and a type that does not
  /// follow by inference (the model declares it) marks the node: such types hold once the node has
  /// run and its results were compared. Small results whose operands are all known are computed:
  /// shapes may hang on them.
  Status Visit(Visited& n) {
    std::vector<Facts> before;
    std::vector<Tensor> known_before;
    std::vector<Fate> fate_before;
    for (int id : n.outputs) {
      before.push_back(id < 0 || is_fresh_ ? Facts() : FactsOf(*value(id)));
      known_before.push_back(id < 0 ? Tensor() : known(id));
      fate_before.push_back(id < 0 ? Fate() : fate(id));
      if (id >= 0) fate(id).changed = fate(id).late = false;
    }
    INFER_TRY(InferNode(n));
    n.cost = StaticCost(*n.node, graph_.ops());
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      const int id = n.outputs[i];
      if (id < 0) continue;
      Fate& now = fate(id);
      const bool same_known = SameTensor(known_before[i], known(id));
      // The tensor of the run before stays, by which others know it again.
      if (same_known) known(id) = std::move(known_before[i]);
      now.moved |= !same_known || !SameFacts(before[i], *value(id)) ||
                   now.changed != fate_before[i].changed || now.late != fate_before[i].late;
    }
    return {};
  }

  Status InferNode(Visited& n) {
    INFER_TRY(editor_.Reinfer(*n.node));
    const bool is_late = ReadsAny(n, &Fate::late), keeps = !is_late && !ReadsAny(n, &Fate::changed);
    bool complete = true;
    n.declared = false;
    for (int id : n.outputs) {
      if (id < 0 || IsConstant(id)) continue;
      Value* v = value(id);
      const Value& stored = InPlan(id);
      INFER_TRY(Compare(*v, stored));
      if (keeps) {
        n.declared |= !(v->type() == stored.type()) && IsPlannable(stored.type());
        Restore(v, FactsOf(stored));
      } else if (!(v->type() == stored.type()) || v->elements() != stored.elements()) {
        fate(id).changed = true;
      }
      n.declared |= IsDeduced(n) && IsPlannable(v->type());
      known(id) = KnownTensor(v->type(), v->elements());
      complete &= known(id).defined();
    }
    if (!complete && Fold(n)) n.declared = false;
    for (int id : n.outputs)
      if (id >= 0 && (is_late || IsUnsized(id))) fate(id).late = true;
    return {};
  }

  /// Extents of a view that another operand asks for, whose numbers only the run knows: inference
  /// says what they are where the operand is right.
  bool IsDeduced(const Visited& n) const {
    const Value* wanted = n.node->Is(Trait::kView) ? n.node->input(1) : nullptr;
    if (!wanted || !wanted->type().is_tensor() || !IsInteger(wanted->dtype())) return false;
    return !KnownOrConstant(n.inputs[1]);
  }

  void Restore(Value* v, Facts facts) {
    editor_.SetType(v, std::move(facts.type));
    editor_.SetElements(v, std::move(facts.elements));
    editor_.SetKnown(v, std::move(facts.known));
  }

  /// What follows from the inputs of this run against what the model says of the value. Extents
  /// that inference finds whole win: exporters declare results of one batch that run with any, and
  /// other runtimes run them.
  static Status Compare(const Value& v, const Value& stored) {
    const ValueType& want = stored.type();
    if (v.type() == want || Meet(v.type(), want).ok()) return {};
    if (v.type().is_tensor() && want.is_tensor() && v.type().tensor().is_static() &&
        v.dtype() == want.tensor().dtype)
      return {};
    return InvalidModel(Cat("value '", v.name(), "': the model says ", ToString(want),
                            ", running it gives ", ToString(v.type())));
  }

  /// A tensor of numbers whose extents only the run knows.
  bool IsUnsized(int id) const {
    const ValueType& t = value(id)->type();
    return t.is_tensor() && t.dtype() != DType::kString && !IsPlannable(t) && !KnownOrConstant(id);
  }

  /// Whether it learnt all results. A node that fails here, or gives something else than the model
  /// says, does so in the run, where it is reported.
  bool Fold(const Visited& n) {
    if (!MayFold(n)) return false;
    std::vector<Datum> values;
    for (int id : n.inputs) values.push_back(id < 0 ? Datum() : Datum(*KnownOrConstant(id)));
    std::vector<const Datum*> operands;
    for (size_t i = 0; i < values.size(); ++i)
      operands.push_back(n.inputs[i] < 0 ? nullptr : &values[i]);
    const auto results = EvaluateNode(*n.node, operands, plan_.graph.ops());
    if (!results.ok()) return false;
    for (size_t o = 0; o < n.outputs.size() && o < results->size(); ++o)
      if (n.outputs[o] >= 0 && !CheckResult((*results)[o], InPlan(n.outputs[o])).ok()) return false;
    bool all = true;
    for (size_t o = 0; o < n.outputs.size() && o < results->size(); ++o) {
      if (n.outputs[o] < 0 || IsConstant(n.outputs[o])) continue;
      all &= (*results)[o].is_tensor() && Learn(n.outputs[o], (*results)[o].tensor());
    }
    return all;
  }

  /// Its operands are known, and with the results they take few bytes.
  bool MayFold(const Visited& n) const {
    const Node& node = *n.node;
    if (!node.def().deterministic || !node.subgraphs().empty() || n.inputs.empty()) return false;
    int64_t bytes = 0;
    for (int id : n.inputs) {
      if (id < 0) continue;
      const Tensor* t = KnownOrConstant(id);
      if (!t || t->dtype() == DType::kString) return false;
      bytes += t->byte_size();
    }
    for (int id : n.outputs) {
      if (id < 0) continue;
      if (!IsPlannable(value(id)->type()) && node.Is(Trait::kEnlarging)) return false;
      bytes += PlannedBytes(value(id)->type());
    }
    return bytes <= kFoldBytes;
  }

  bool Learn(int id, const Tensor& t) {
    if (t.dtype() == DType::kString) return false;
    known(id) = t;
    fate(id).changed = true;
    editor_.SetType(value(id), t.type());
    if (IsInteger(t.dtype()) && t.rank() <= 1 && t.num_elements() <= kFoldElements)
      editor_.SetElements(value(id), ElementsOf(t));
    return true;
  }

  void FindStepNodes() {
    std::unordered_map<const Node*, size_t> at;
    for (size_t n = 0; n < nodes_.size(); ++n) at.emplace(nodes_[n].in_plan, n);
    for (const PlanStep& step : plan_.steps) {
      std::vector<size_t>& list = step_nodes_.emplace_back();
      for (const Node* n : step.nodes) list.push_back(at.at(n));
      main_.push_back(at.at(step.main));
    }
  }

  void MarkSteps(ShapePlan& out) const {
    out.declared.assign(plan_.steps.size(), false);
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      for (size_t n : step_nodes_[s])
        if (nodes_[n].declared) out.declared[s] = true;
  }

  /// A step of one node costs what the node does; a fused one moves only its own operands.
  void SetCosts(ShapePlan& out) const {
    out.cost.clear();
    out.cost.reserve(plan_.steps.size());
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      Cost& c = out.cost.emplace_back();
      if (step_nodes_[s].size() == 1) {
        c = nodes_[main_[s]].cost;
        continue;
      }
      for (size_t n : step_nodes_[s]) c.flops += nodes_[n].cost.flops;
      for (int id : plan_.steps[s].inputs) c.bytes_read += PlannedBytes(value(id)->type());
      for (int id : plan_.steps[s].outputs) c.bytes_written += PlannedBytes(value(id)->type());
    }
  }

  Value* value(int id) const { return values_[static_cast<size_t>(id)]; }
  const Value& InPlan(int id) const { return *plan_.values[static_cast<size_t>(id)]; }
  Tensor& known(int id) { return known_[static_cast<size_t>(id)]; }
  Fate& fate(int id) { return fate_[static_cast<size_t>(id)]; }
  const Fate& fate(int id) const { return fate_[static_cast<size_t>(id)]; }
  const Tensor* KnownOrConstant(int id) const { return KnownOrConstant(known_, id); }
  const Tensor* KnownOrConstant(std::span<const Tensor> known, int id) const {
    if (const Tensor* c = plan_.constant(id)) return c;
    const Tensor& t = known[static_cast<size_t>(id)];
    return t.defined() ? &t : nullptr;
  }
  bool IsConstant(int id) const { return plan_.constant(id) != nullptr; }

  const Plan& plan_;
  Graph graph_;
  GraphEditor editor_;
  std::vector<Value*> values_;  // by id
  std::vector<Visited> nodes_;
  std::vector<std::vector<size_t>> step_nodes_;  // by step: of nodes_
  std::vector<size_t> main_;                     // by step: of nodes_
  std::vector<Tensor> known_;                    // by id
  std::vector<Fate> fate_;                       // by id
  bool has_bodies_ = false, is_fresh_ = true;
};

Specializer::Specializer(const Plan& plan) : state_(std::make_unique<State>(plan)) {}
Specializer::~Specializer() = default;
Specializer::Specializer(Specializer&&) noexcept = default;
Specializer& Specializer::operator=(Specializer&&) noexcept = default;

bool Specializer::moved(int id) const { return state_->moved(id); }

bool Specializer::may_go_on() const { return !state_->has_bodies(); }

Status Specializer::Run(std::span<const Dims> input_dims, ShapePlan& out) {
  out.input_dims.assign(input_dims.begin(), input_dims.end());
  return state_->Run(input_dims, out);
}

bool IsPlannable(const ValueType& type) {
  return type.is_tensor() && type.tensor().is_static() && type.tensor().dtype != DType::kString;
}

int64_t PlannedBytes(const ValueType& type) {
  if (!IsPlannable(type)) return 0;
  return PackedBytes(type.tensor().dtype, NumElements(type.tensor().shape.static_dims()));
}

Status Specialize(const Plan& plan, std::span<const Dims> input_dims, ShapePlan& out) {
  return Specializer(plan).Run(input_dims, out);
}

}  // namespace infer
