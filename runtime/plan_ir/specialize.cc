#include "runtime/plan_ir/specialize.h"

#include <algorithm>
#include <unordered_map>

#include "lib/ir/editor.h"
#include "lib/ir/eval.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"
#include "runtime/plan_ir/node_kinds.h"

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
ValueFacts FactsOf(const Value& v) {
  ValueFacts facts;
  facts.type = v.type();
  facts.elements = v.elements();
  if (v.known() && !v.is_constant()) facts.inferred = *v.known();
  return facts;
}

}  // namespace

/// Works on a copy of the plan's graph. Its values and nodes correspond to the plan's by position.
class Specializer::State {
 public:
  explicit State(const Plan& plan)
      : plan_(plan),
        graph_(plan.graph.Clone()),
        editor_(graph_),
        facts_(plan.values.size()),
        shown_(plan.values.size()),
        moved_(plan.values.size()) {
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
    for (size_t i = 0; i < values_.size(); ++i) SetConstantFacts(static_cast<int>(i));
  }

  Status Run(std::span<const Dims> input_dims, ShapePlan& out) {
    // Inference narrows bodies where they stand: they have to be as the model has them.
    INFER_CHECK(is_fresh_ || !has_bodies_);
    if (!is_fresh_ && !has_kinds_) FindKinds();
    moved_.assign(moved_.size(), is_fresh_);
    moved_ids_.clear();
    moved_steps_.clear();
    alike_.clear();
    declared_moved_ = is_fresh_;
    INFER_TRY(SetInputs(input_dims));
    for (size_t n = 0; n < nodes_.size(); ++n)
      if (is_fresh_ || ReadsMoved(nodes_[n])) INFER_TRY(Visit(n));
    FillSteps();
    if (is_fresh_) FillUnmade();
    is_fresh_ = false;
    out.facts = facts_;
    out.declared = declared_;
    out.cost = cost_;
    return {};
  }

  bool has_bodies() const { return has_bodies_; }
  bool moved(int id) const { return moved_[static_cast<size_t>(id)]; }
  bool declared_moved() const { return declared_moved_; }
  const std::vector<int>& moved_ids() const { return moved_ids_; }
  const std::vector<size_t>& moved_steps() const { return moved_steps_; }

 private:
  /// A node, with what it came to.
  struct Visited {
    Node* node;
    const Node* in_plan;
    std::vector<int> inputs = {}, outputs = {};  // ids; -1: none
    std::vector<size_t> steps = {};              // which have it
    /// Nodes of one kind come to the same where their operands do; -1: it is the only one.
    int kind = -1;
    bool declared = false;  // extents of a result are nothing but declared
    Cost cost = {};
  };
  /// What inference of a node learns of a result.
  struct Learnt {
    Tensor known;
    bool changed = false, late = false;
  };

  bool ReadsMoved(const Visited& n) const {
    return std::any_of(n.inputs.begin(), n.inputs.end(),
                       [&](int id) { return id >= 0 && moved(id); });
  }
  bool ReadsAny(const Visited& n, bool ValueFacts::*what) const {
    return std::any_of(n.inputs.begin(), n.inputs.end(),
                       [&](int id) { return id >= 0 && facts(id).*what; });
  }

  void SetConstantFacts(int id) {
    if (!IsConstant(id)) return;
    ValueFacts facts = FactsOf(InPlan(id));
    facts.constant = plan_.constant(id);
    if (!IsPlannable(facts.type)) facts.type = facts.constant->type();
    SetFacts(id, std::move(facts));
    shown_[static_cast<size_t>(id)] = facts_[static_cast<size_t>(id)];
  }

  /// Values that no node makes.
  void FillUnmade() {
    for (size_t i = 0; i < facts_.size(); ++i)
      if (!facts_[i]) SetFacts(static_cast<int>(i), FactsOf(*plan_.values[i]));
  }

  /// The value is as `facts` say; equal ones are the object that is known.
  void SetFacts(int id, ValueFacts facts) { SetFacts(id, table_.Intern(std::move(facts))); }
  void SetFacts(int id, FactsPtr facts) {
    FactsPtr& now = facts_[static_cast<size_t>(id)];
    if (now == facts) return;
    now = std::move(facts);
    moved_[static_cast<size_t>(id)] = true;
    moved_ids_.push_back(id);
  }

  Status SetInputs(std::span<const Dims> input_dims) {
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const int id = plan_.inputs[i];
      const Value& stored = InPlan(id);
      ValueFacts facts = FactsOf(stored);
      if (stored.type().is_tensor()) {
        TensorType t{stored.dtype(), Shape(input_dims[i])};
        auto met = Meet(t.shape, stored.shape());
        if (!met.ok()) return std::move(met.status()).In(Cat("input '", stored.name(), "'"));
        facts.changed = !(t.shape == stored.shape());
        facts.type = std::move(t);
      }
      SetFacts(id, std::move(facts));
    }
    return {};
  }

  /// What the node comes to: as another of its kind did in this run, or by inference.
  Status Visit(size_t at) {
    Visited& n = nodes_[at];
    const bool was_declared = n.declared;
    const std::optional<size_t> twin = n.kind < 0 ? std::nullopt : TwinOf(at);
    if (twin) {
      n.declared = nodes_[*twin].declared;
      n.cost = nodes_[*twin].cost;
      for (size_t o = 0; o < n.outputs.size(); ++o)
        if (n.outputs[o] >= 0)
          SetFacts(n.outputs[o], facts_[static_cast<size_t>(nodes_[*twin].outputs[o])]);
    } else {
      INFER_TRY(InferNode(n));
      n.cost = StaticCost(*n.node, graph_.ops());
    }
    declared_moved_ |= n.declared != was_declared;
    moved_steps_.insert(moved_steps_.end(), n.steps.begin(), n.steps.end());
    return {};
  }

  /// The node of the same kind that was visited before in this run, with operands that are the
  /// same; nullopt: there is none, and the next is told of this one.
  std::optional<size_t> TwinOf(size_t at) {
    const Visited& n = nodes_[at];
    auto hash = static_cast<uint64_t>(n.kind);
    for (int id : n.inputs)
      hash = hash * 0x9E3779B97F4A7C15ull +
             (id < 0 ? 1 : reinterpret_cast<uintptr_t>(&facts(id)) >> 4);
    const auto [it, is_first] = alike_.try_emplace(hash, at);
    if (is_first) return std::nullopt;
    const Visited& other = nodes_[it->second];
    if (other.kind != n.kind || other.inputs.size() != n.inputs.size()) return std::nullopt;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const int a = n.inputs[i], b = other.inputs[i];
      if ((a < 0) != (b < 0)) return std::nullopt;
      if (a >= 0 && facts_[static_cast<size_t>(a)] != facts_[static_cast<size_t>(b)])
        return std::nullopt;
    }
    return it->second;
  }

  /// Infers a node from what is known of its operands in this run. Where nothing else is known of
  /// them than the graph says, what the graph says of the results stays, and a type that does not
  /// follow by inference (the model declares it) marks the node: such types hold once the node has
  /// run and its results were compared. Small results whose operands are all known are computed:
  /// shapes may hang on them.
  Status InferNode(Visited& n) {
    for (int id : n.inputs)
      if (id >= 0) ShowInGraph(id);
    INFER_TRY(editor_.Reinfer(*n.node));
    const bool is_late = ReadsAny(n, &ValueFacts::late),
               keeps = !is_late && !ReadsAny(n, &ValueFacts::changed);
    bool complete = true;
    n.declared = false;
    std::vector<Learnt> learnt(n.outputs.size());
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      const int id = n.outputs[o];
      if (id < 0 || IsConstant(id)) continue;
      Value* v = value(id);
      const Value& stored = InPlan(id);
      INFER_TRY(Compare(*v, stored));
      if (keeps) {
        n.declared |= !(v->type() == stored.type()) && IsPlannable(stored.type());
        Restore(v, stored);
      } else if (!(v->type() == stored.type()) || v->elements() != stored.elements()) {
        learnt[o].changed = true;
      }
      n.declared |= IsDeduced(n) && IsPlannable(v->type());
      learnt[o].known = KnownTensor(v->type(), v->elements());
      complete &= learnt[o].known.defined();
    }
    if (!complete && Fold(n, learnt)) n.declared = false;
    for (size_t o = 0; o < n.outputs.size(); ++o) Keep(n.outputs[o], is_late, std::move(learnt[o]));
    return {};
  }

  /// The graph's value shows what holds of it in this run.
  void ShowInGraph(int id) {
    FactsPtr& shown = shown_[static_cast<size_t>(id)];
    const FactsPtr& now = facts_[static_cast<size_t>(id)];
    if (shown == now) return;
    Value* v = value(id);
    editor_.SetType(v, now->type);
    editor_.SetElements(v, now->elements);
    if (!v->is_constant()) editor_.SetKnown(v, now->inferred);
    shown = now;
  }

  /// Takes what the graph now says of a result, and what was learnt beside.
  void Keep(int id, bool is_late, Learnt learnt) {
    if (id < 0 || IsConstant(id)) return;
    const Value& v = *value(id);
    ValueFacts facts = FactsOf(v);
    facts.changed = learnt.changed;
    const bool is_numbers = v.type().is_tensor() && v.dtype() != DType::kString;
    facts.late = is_late || (is_numbers && !IsPlannable(v.type()) && !learnt.known.defined());
    facts.known = std::move(learnt.known);
    SetFacts(id, std::move(facts));
    shown_[static_cast<size_t>(id)] = facts_[static_cast<size_t>(id)];
  }

  /// Extents of a view that another operand asks for, whose numbers only the run knows: inference
  /// says what they are where the operand is right.
  bool IsDeduced(const Visited& n) const {
    const Value* wanted = n.node->Is(Trait::kView) ? n.node->input(1) : nullptr;
    if (!wanted || !wanted->type().is_tensor() || !IsInteger(wanted->dtype())) return false;
    return !facts(n.inputs[1]).given();
  }

  void Restore(Value* v, const Value& stored) {
    editor_.SetType(v, stored.type());
    editor_.SetElements(v, stored.elements());
    editor_.SetKnown(v, stored.known() ? std::optional(*stored.known()) : std::nullopt);
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

  /// Whether it learnt all results. A node that fails here, or gives something else than the model
  /// says, does so in the run, where it is reported.
  bool Fold(const Visited& n, std::vector<Learnt>& learnt) {
    if (!MayFold(n)) return false;
    std::vector<Datum> values;
    for (int id : n.inputs) {
      if (id >= 0 && IsConstant(id)) {
        // The program may have let a weight go.
        Result<Tensor> elements = plan_.Elements(id);
        if (!elements.ok()) return false;
        values.emplace_back(*std::move(elements));
      } else {
        values.push_back(id < 0 ? Datum() : Datum(*facts(id).given()));
      }
    }
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
      all &= (*results)[o].is_tensor() && Learn(n.outputs[o], (*results)[o].tensor(), learnt[o]);
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
      const Tensor* t = facts(id).given();
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

  bool Learn(int id, const Tensor& t, Learnt& learnt) {
    if (t.dtype() == DType::kString) return false;
    learnt.known = t;
    learnt.changed = true;
    editor_.SetType(value(id), t.type());
    if (IsInteger(t.dtype()) && t.rank() <= 1 && t.num_elements() <= kFoldElements)
      editor_.SetElements(value(id), ElementsOf(t));
    return true;
  }

  void FindStepNodes() {
    std::unordered_map<const Node*, size_t> at;
    for (size_t n = 0; n < nodes_.size(); ++n) at.emplace(nodes_[n].in_plan, n);
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      std::vector<size_t>& list = step_nodes_.emplace_back();
      for (const Node* n : plan_.steps[s].nodes) {
        list.push_back(at.at(n));
        nodes_[list.back()].steps.push_back(s);
      }
      main_.push_back(at.at(plan_.steps[s].main));
    }
    declared_.resize(plan_.steps.size());
    cost_.resize(plan_.steps.size());
  }

  void FindKinds() {
    has_kinds_ = true;
    const std::vector<int> kinds = NodeKinds(plan_);
    for (size_t i = 0; i < nodes_.size(); ++i) nodes_[i].kind = kinds[i];
  }

  /// Marks and costs of the steps that have visited nodes, each of them once in moved_steps_.
  void FillSteps() {
    std::sort(moved_steps_.begin(), moved_steps_.end());
    moved_steps_.erase(std::unique(moved_steps_.begin(), moved_steps_.end()), moved_steps_.end());
    for (size_t s : moved_steps_) {
      declared_[s] = std::any_of(step_nodes_[s].begin(), step_nodes_[s].end(),
                                 [&](size_t n) { return nodes_[n].declared; });
      cost_[s] = CostOf(s);
    }
  }

  /// A step of one node costs what the node does; a fused one moves only its own operands.
  Cost CostOf(size_t s) const {
    if (step_nodes_[s].size() == 1) return nodes_[main_[s]].cost;
    Cost c;
    for (size_t n : step_nodes_[s]) c.flops += nodes_[n].cost.flops;
    for (int id : plan_.steps[s].inputs) c.bytes_read += facts(id).bytes;
    for (int id : plan_.steps[s].outputs) c.bytes_written += facts(id).bytes;
    return c;
  }

  Value* value(int id) const { return values_[static_cast<size_t>(id)]; }
  const Value& InPlan(int id) const { return *plan_.values[static_cast<size_t>(id)]; }
  const ValueFacts& facts(int id) const { return *facts_[static_cast<size_t>(id)]; }
  bool IsConstant(int id) const { return plan_.constant(id) != nullptr; }

  const Plan& plan_;
  Graph graph_;
  GraphEditor editor_;
  FactTable table_;
  std::vector<Value*> values_;  // by id
  std::vector<Visited> nodes_;
  std::vector<std::vector<size_t>> step_nodes_;  // by step: of nodes_
  std::vector<size_t> main_;                     // by step: of nodes_
  std::vector<FactsPtr> facts_;                  // by id
  std::vector<FactsPtr> shown_;                  // by id: what the graph shows; nullptr: nothing
  std::vector<bool> moved_;                      // by id: otherwise than after the run before
  std::vector<int> moved_ids_;
  std::vector<size_t> moved_steps_;             // whose nodes were visited
  std::unordered_map<uint64_t, size_t> alike_;  // nodes visited in this run, by kind and operands
  std::vector<bool> declared_;                  // by step
  std::vector<Cost> cost_;                      // by step
  bool has_bodies_ = false, is_fresh_ = true, has_kinds_ = false, declared_moved_ = false;
};

Specializer::Specializer(const Plan& plan) : state_(std::make_unique<State>(plan)) {}
Specializer::~Specializer() = default;
Specializer::Specializer(Specializer&&) noexcept = default;
Specializer& Specializer::operator=(Specializer&&) noexcept = default;

bool Specializer::moved(int id) const { return state_->moved(id); }
const std::vector<int>& Specializer::moved_ids() const { return state_->moved_ids(); }
const std::vector<size_t>& Specializer::moved_steps() const { return state_->moved_steps(); }
bool Specializer::declared_moved() const { return state_->declared_moved(); }

bool Specializer::may_go_on() const { return !state_->has_bodies(); }

Status Specializer::Run(std::span<const Dims> input_dims, ShapePlan& out) {
  out.input_dims.assign(input_dims.begin(), input_dims.end());
  return state_->Run(input_dims, out);
}

Status Specialize(const Plan& plan, std::span<const Dims> input_dims, ShapePlan& out) {
  return Specializer(plan).Run(input_dims, out);
}

}  // namespace infer
