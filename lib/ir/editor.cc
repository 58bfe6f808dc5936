#include "lib/ir/editor.h"

#include <algorithm>
#include <unordered_set>

#include "lib/ir/inference.h"
#include "lib/ir/op_name.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Elements are kept for shapes; a chain of Concat(x, x) would double them without end.
std::optional<std::vector<Dim>> Bounded(const std::optional<std::vector<Dim>>& elements) {
  constexpr size_t kMost = 1024;
  return elements && elements->size() <= kMost ? elements : std::nullopt;
}

constexpr int64_t kOrderGap = int64_t{1} << 20;

std::vector<const ValueType*> CaptureTypes(const std::vector<Value*>& inputs, size_t captures) {
  std::vector<const ValueType*> types;
  for (size_t i = inputs.size() - captures; i < inputs.size(); ++i)
    types.push_back(&inputs[i]->type());
  return types;
}

}  // namespace

std::string GraphEditor::FreshName(std::string_view hint) {
  if (!hint.empty() && !g_.by_name_.contains(std::string(hint))) return std::string(hint);
  for (;;) {
    std::string name = Cat(hint.empty() ? "v" : hint, hint.empty() ? "" : "_", g_.next_id_++);
    if (!g_.by_name_.contains(name)) return name;
  }
}

Value* GraphEditor::NewValue(std::string_view name, ValueType type) {
  auto v = std::make_unique<Value>();
  v->name_ = FreshName(name);
  v->type_ = std::move(type);
  Value* raw = v.get();
  raw->self_ = g_.values_.insert(g_.values_.end(), std::move(v));
  g_.by_name_[raw->name_] = raw;
  return raw;
}

void GraphEditor::EraseValue(Value* v) {
  g_.by_name_.erase(v->name_);
  g_.values_.erase(v->self_);
}

Value* GraphEditor::AddInput(std::string_view name, ValueType type) {
  Value* v = NewValue(name, std::move(type));
  v->is_input_ = true;
  return g_.inputs_.emplace_back(v);
}

Value* GraphEditor::AddConstant(Tensor t, std::string_view name) {
  Value* v = NewValue(name, t.type());
  v->constant_ = std::move(t);
  return v;
}

void GraphEditor::AddUse(Node& node, size_t operand) {
  Value* v = node.inputs_[operand];
  if (!v) return;
  node.use_slots_[operand] = v->uses_.size();
  v->uses_.push_back({&node, operand});
}

void GraphEditor::DropUse(Node& node, size_t operand) {
  Value* v = node.inputs_[operand];
  if (!v) return;
  const size_t slot = node.use_slots_[operand];
  const Use last = v->uses_.back();
  v->uses_[slot] = last;
  last.user->use_slots_[last.operand] = slot;
  v->uses_.pop_back();
}

/// Gives a freshly inserted or moved node an order label between its neighbours; relabels all when
/// the gap is used up (amortised: a gap halves at most 20 times before).
void GraphEditor::Order(Node& node) {
  auto it = node.self_;
  const int64_t before = it == g_.nodes_.begin() ? 0 : (*std::prev(it))->order_;
  if (std::next(it) == g_.nodes_.end()) {
    node.order_ = before + kOrderGap;
    return;
  }
  const int64_t after = (*std::next(it))->order_;
  node.order_ = before + (after - before) / 2;
  if (node.order_ != before) return;
  int64_t order = 0;
  for (auto& n : g_.nodes_) n->order_ = order += kOrderGap;
}

void GraphEditor::MoveAfter(Node& node, const Node& other) {
  if (&node == &other) return;
  g_.nodes_.splice(std::next(other.self_), g_.nodes_, node.self_);
  Order(node);
}

Result<Node*> GraphEditor::AddNode(const OpDef& def, std::vector<Value*> inputs, AttrMap attrs,
                                   NodeOptions options) {
  auto owned = std::make_unique<Node>();
  Node* n = owned.get();
  n->def_ = &def;
  n->name_ = std::move(options.name);
  n->fused_from_ = std::move(options.fused_from);
  if (n->fused_from_.empty() && !n->name_.empty()) n->fused_from_ = {n->name_};
  n->attrs_ = std::move(attrs);
  n->inputs_ = std::move(inputs);
  n->num_captures_ = options.num_captures;
  n->subgraphs_ = std::move(options.subgraphs);
  n->extra_ = std::move(options.extra);
  while (n->inputs_.size() > n->num_captures_ && !n->inputs_.empty() && n->num_captures_ == 0 &&
         !n->inputs_.back())
    n->inputs_.pop_back();  // trailing omitted operands say nothing
  n->use_slots_.resize(n->inputs_.size());
  const size_t num_outputs = std::max(
      {options.num_outputs, options.output_names.size(),
       options.num_outputs + options.output_names.size() == 0 ? def.min_outputs() : size_t{0}});
  n->outputs_.resize(num_outputs);

  OpCall call = CallOf(*n);
  const auto captures = CaptureTypes(n->inputs_, n->num_captures_);
  KnownOutputs known;
  Status inferred = InferCall(call, n->subgraphs_, captures, *g_.ops_, &known);
  if (!inferred.ok()) return std::move(inferred).In(infer::Describe(*n));

  n->self_ = g_.nodes_.insert(at_, std::move(owned));
  Order(*n);
  for (size_t i = 0; i < n->inputs_.size(); ++i) AddUse(*n, i);
  for (size_t i = 0; i < num_outputs; ++i) {
    const bool named = i < options.output_names.size();
    if (named && options.output_names[i].empty()) continue;  // omitted
    Value* v = NewValue(named ? std::string_view(options.output_names[i]) : "", call.out_type(i));
    v->elements_ = Bounded(call.out_elements(i));
    if (i < known.size()) v->known_ = std::move(known[i]);
    v->producer_ = n;
    v->producer_index_ = i;
    n->outputs_[i] = v;
  }
  return n;
}

Result<Value*> GraphEditor::Add(std::string_view op, std::vector<Value*> inputs, AttrMap attrs,
                                std::string_view domain, NodeOptions options) {
  const OpDef* def = g_.ops_->Find(domain, op);
  if (!def) return Internal(Cat("no operator ", FullOpName(domain, op)));
  INFER_ASSIGN(Node * n, AddNode(*def, std::move(inputs), std::move(attrs), std::move(options)));
  return n->output(0);
}

void GraphEditor::MarkOutput(Value* v) {
  ++v->output_count_;
  g_.outputs_.push_back(v);
}

Status GraphEditor::SetOutput(size_t i, Value* v) {
  INFER_CHECK(i < g_.outputs_.size());
  Value* old = g_.outputs_[i];
  if (old == v) return {};
  const std::string name = old->name_;
  const bool can_take_name =
      v->producer_ && !v->is_output() && old->output_count_ == 1 && !old->is_input_;
  if (!can_take_name) {
    const auto saved = at_;
    InsertAtEnd();
    auto identity = Add("Identity", {v});
    at_ = saved;
    if (!identity.ok()) return identity.status();
    v = *identity;
  }
  --old->output_count_;
  ++v->output_count_;
  g_.outputs_[i] = v;
  if (!old->is_output()) {  // the interface keeps its name
    g_.by_name_[name] = v;
    g_.by_name_[v->name_] = old;
    std::swap(old->name_, v->name_);
  }
  return {};
}

void GraphEditor::EraseInput(size_t i) {
  Value* v = g_.inputs_[i];
  INFER_CHECK(v->is_dead());
  g_.inputs_.erase(g_.inputs_.begin() + static_cast<std::ptrdiff_t>(i));
  EraseValue(v);
}

Status GraphEditor::ReplaceAllUses(Value* from, Value* to) {
  if (from == to) return {};
  if (!to->type().Refines(from->type()))
    return InvalidArgument(Cat("cannot replace '", from->name(), "' of type ",
                               ToString(from->type()), " by ", ToString(to->type())));
  for (const Use& use : from->uses_) {
    use.user->inputs_[use.operand] = to;
    use.user->use_slots_[use.operand] = to->uses_.size();
    to->uses_.push_back(use);
  }
  from->uses_.clear();
  if (from->is_output())
    for (size_t i = 0; i < g_.outputs_.size(); ++i)
      if (g_.outputs_[i] == from) INFER_TRY(SetOutput(i, to));
  return {};
}

void GraphEditor::SetOperand(Node& node, size_t i, Value* v) {
  DropUse(node, i);
  node.inputs_[i] = v;
  AddUse(node, i);
}

void GraphEditor::Rename(Value* v, std::string name) {
  if (v->name_ == name) return;
  INFER_CHECK(!name.empty() && !g_.by_name_.contains(name));
  g_.by_name_.erase(v->name_);
  v->name_ = std::move(name);
  g_.by_name_[v->name_] = v;
}

void GraphEditor::SetConstant(Value* v, Tensor t) {
  if (v->producer_) {
    v->producer_->outputs_[v->producer_index_] = nullptr;
    v->producer_ = nullptr;
    v->producer_index_ = 0;
  }
  if (v->is_input_) {
    std::erase(g_.inputs_, v);
    v->is_input_ = false;
  }
  v->type_ = t.type();
  v->elements_.reset();
  v->known_.reset();
  v->constant_ = std::move(t);
}

void GraphEditor::Erase(Node& node) {
  for (Value* v : node.outputs_) INFER_CHECK(!v || v->is_dead());
  for (size_t i = 0; i < node.inputs_.size(); ++i) {
    DropUse(node, i);
    Value* v = node.inputs_[i];
    node.inputs_[i] = nullptr;
    if (v && v->is_constant() && v->is_dead()) EraseValue(v);
  }
  for (Value* v : node.outputs_)
    if (v) EraseValue(v);
  if (at_ != g_.nodes_.end() && at_->get() == &node) ++at_;
  g_.nodes_.erase(node.self_);
}

int GraphEditor::Sweep() {
  int erased = 0;
  for (auto it = g_.nodes_.end(); it != g_.nodes_.begin();) {
    Node& n = **--it;
    const bool dead = std::all_of(n.outputs_.begin(), n.outputs_.end(),
                                  [](const Value* v) { return !v || v->is_dead(); });
    if (!dead) continue;
    auto next = std::next(it);
    Erase(n);
    it = next;
    ++erased;
  }
  for (auto it = g_.values_.begin(); it != g_.values_.end();) {
    Value* v = (it++)->get();
    if (v->is_constant() && v->is_dead()) EraseValue(v);
  }
  return erased;
}

Status GraphEditor::Reinfer(Node& node) {
  OpCall call = CallOf(node);
  // What was stored must not pass for inferred where inference says nothing.
  for (size_t i = 0; i < node.outputs_.size(); ++i) call.SetOut(i, ValueType());
  const auto captures = CaptureTypes(node.inputs_, node.num_captures_);
  KnownOutputs known;
  Status s = InferCall(call, node.subgraphs_, captures, *g_.ops_, &known);
  if (!s.ok()) return std::move(s).In(infer::Describe(node));
  for (size_t i = 0; i < node.outputs_.size(); ++i) {
    Value* v = node.outputs_[i];
    if (!v) continue;
    v->type_ = call.out_type(i);
    v->elements_ = Bounded(call.out_elements(i));
    v->known_ = i < known.size() ? std::move(known[i]) : std::nullopt;
  }
  return {};
}

}  // namespace infer
