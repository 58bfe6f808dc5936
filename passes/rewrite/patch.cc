#include "passes/rewrite/patch.h"

#include <algorithm>

#include "lib/ir/body.h"
#include "lib/ir/op_name.h"
#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "passes/rewrite/shape_check.h"

namespace infer {

Value* PatchBuilder::In(Value* v) {
  if (!v || own_.count(v)) return v;
  if (const auto it = inner_.find(v); it != inner_.end()) return it->second;
  Value* mine;
  if (v->is_constant()) {
    mine = editor_.AddConstant(*v->constant(), v->name());
    patch_.constants[mine] = v;
  } else {
    mine = editor_.AddInput(v->name(), v->type());
    editor_.CopyElements(mine, *v);
    patch_.inputs.push_back(v);
  }
  own_.insert(mine);
  return inner_[v] = mine;
}

Result<Node*> PatchBuilder::Add(std::string_view op, std::vector<Value*> inputs, AttrMap attrs,
                                NodeOptions options) {
  std::string_view domain = "";
  if (const size_t colons = op.find("::"); colons != std::string_view::npos) {
    domain = op.substr(0, colons);
    op.remove_prefix(colons + 2);
  }
  const OpDef* def = patch_.graph.ops().Find(domain, op);
  if (!def) return Unsupported(Cat("there is no operator ", domain, "::", op, " to build with"));
  for (Value*& v : inputs) v = In(v);
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  INFER_ASSIGN(Node * node,
               editor_.AddNode(*def, std::move(inputs), std::move(attrs), std::move(options)));
  for (Value* v : node->outputs())
    if (v) own_.insert(v);
  return node;
}

Result<Value*> PatchBuilder::operator()(std::string_view op, std::vector<Value*> inputs,
                                        AttrMap attrs, NodeOptions options) {
  INFER_ASSIGN(Node * node, Add(op, std::move(inputs), std::move(attrs), std::move(options)));
  return node->output();
}

Result<Value*> PatchBuilder::PartsOf(const Node& n) {
  INFER_ASSIGN(const Graph parts, DecompositionOf(CallOf(n), patch_.graph.ops()));
  std::unordered_map<const Value*, Value*> is;
  size_t next = 0;
  for (Value* v : n.inputs())
    if (v) is[parts.inputs()[next++]] = v;
  for (const auto& v : parts.values())
    if (v->is_constant()) is[v.get()] = Const(*v->constant());
  for (const auto& part : parts.nodes()) {
    std::vector<Value*> inputs;
    for (const Value* v : part->inputs()) inputs.push_back(v ? is.at(v) : nullptr);
    INFER_ASSIGN(Node * made, Add(FullOpName(part->def().domain, part->op()), std::move(inputs),
                                  part->attrs(), {.num_outputs = part->outputs().size()}));
    for (size_t i = 0; i < part->outputs().size(); ++i) is[part->output(i)] = made->output(i);
  }
  return is.at(parts.outputs().front());
}

Value* PatchBuilder::Const(Tensor t) {
  Value* v = editor_.AddConstant(std::move(t));
  own_.insert(v);
  return v;
}

void PatchBuilder::HasExtentsOf(Value* made, const Value& outer) {
  if (const auto both = Meet(made->type(), outer.type()); both.ok()) editor_.SetType(made, *both);
}

void PatchBuilder::Replace(Value* outer, Value* with) {
  editor_.MarkOutput(In(with));
  patch_.outputs.push_back(outer);
}

void PatchBuilder::Cover(Node* node) { patch_.covers.push_back(node); }

std::vector<Node*> CoveredNodes(const Match& m, const Patch& p) {
  std::vector<Node*> nodes = m.nodes();
  std::unordered_set<const Node*> known(nodes.begin(), nodes.end());
  for (Node* n : p.covers)
    if (known.insert(n).second) nodes.push_back(n);
  return nodes;
}

std::vector<Node*> DyingNodes(const Match& m, const Patch& p) {
  // Readers before what they read, so that one pass settles who dies.
  std::vector<Node*> nodes = CoveredNodes(m, p);
  std::sort(nodes.begin(), nodes.end(), [](Node* a, Node* b) { return Graph::Before(*b, *a); });
  std::vector<Node*> dying;
  const auto contains = [](const auto& list, const auto* x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  };
  for (Node* n : nodes) {
    const bool dies = std::all_of(n->outputs().begin(), n->outputs().end(), [&](const Value* v) {
      if (!v || contains(p.outputs, v)) return true;
      if (v->is_output() || contains(p.inputs, v)) return false;
      if (v->uses().size() > 64) return false;
      return std::all_of(v->uses().begin(), v->uses().end(),
                         [&](const Use& u) { return contains(dying, u.user); });
    });
    if (dies) dying.push_back(n);
  }
  return dying;
}

std::optional<Cost> StaticCostOf(const Node& n, const OpRegistry* ops) {
  const auto is_static = [](const Value* v) {
    return !v || (v->type().is_tensor() && v->tensor_type().is_static());
  };
  if (!n.subgraphs().empty() || !std::all_of(n.inputs().begin(), n.inputs().end(), is_static) ||
      !std::all_of(n.outputs().begin(), n.outputs().end(), is_static))
    return std::nullopt;
  return ops ? CostOfNode(n, *ops) : CostOf(CallOf(n));
}

Price PriceOf(const Match& m, const Patch& p) {
  Price price;
  const auto add = [&](const Node& n, int& nodes, Cost& total) {
    ++nodes;
    const auto c = StaticCostOf(n);
    if (!c) return void(price.is_static = false);
    total.flops += c->flops;
    total.bytes_read += c->bytes_read;
    total.bytes_written += c->bytes_written;
  };
  for (const Node* n : DyingNodes(m, p)) add(*n, price.nodes_removed, price.before);
  for (const auto& n : p.graph.nodes()) add(*n, price.nodes_added, price.after);
  return price;
}

Status CheckPatch(const Match& m, const Patch& p) {
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    const Value &from = *p.outputs[i], &to = *p.graph.outputs()[i];
    if (!to.type().Refines(from.type()))
      return InvalidModel(Cat("the result would be ", ToString(to.type()), ", '", from.name(),
                              "' is ", ToString(from.type())));
    const bool forwards = !to.producer();
    if (!forwards || !from.is_output()) continue;
    // The editor keeps an output's name with an Identity where the value cannot take it: nothing
    // would be gained by replacing one Identity by another.
    if (IsIdentity(*from.producer()) && m.nodes().size() == 1) {
      const auto outer = [&]() -> const Value* {
        if (const auto it = p.constants.find(&to); it != p.constants.end()) return it->second;
        for (size_t k = 0; k < p.inputs.size(); ++k)
          if (p.graph.inputs()[k] == &to) return p.inputs[k];
        return nullptr;  // a new constant
      }();
      // A constant cannot take a name: constant folding gives the output its value.
      if (!outer || outer->is_input() || outer->is_output() || outer->is_constant())
        return InvalidModel("it keeps the name of a graph output");
    }
  }
  return CheckUnknownShapes(m, p);
}

namespace {

class Splicer {
 public:
  Splicer(Graph& g, const Match& m, const Patch& p, const SpliceListener& listener)
      : g_(g), m_(m), p_(p), listener_(listener), e_(g) {}

  Status Run() {
    INFER_TRY(Place());
    CollectNames();
    for (size_t i = 0; i < p_.inputs.size(); ++i) outer_[p_.graph.inputs()[i]] = p_.inputs[i];
    for (const auto& v : p_.graph.values())
      if (v->is_constant() && !v->is_dead()) {
        const auto it = p_.constants.find(v.get());
        outer_[v.get()] = it != p_.constants.end() ? it->second : e_.AddConstant(*v->constant());
      }
    for (const auto& n : p_.graph.nodes()) INFER_TRY(Copy(*n));
    MoveReaders();
    std::vector<Node*> producers;
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      Value* from = p_.outputs[i];
      Value* to = outer_.at(p_.graph.outputs()[i]);
      if (Node* n = from->producer()) producers.push_back(n);
      if (p_.graph.outputs()[i]->producer() && !to->is_output())
        names_.emplace_back(to, from->name());
      if ((!to->elements() && from->elements()) || (!to->known() && from->known()))
        e_.CopyElements(to, *from);
      if (Status s = e_.ReplaceAllUses(from, to); !s.ok())
        return Internal(Cat("splicing: ", s.message()));
      if (listener_.replaced) listener_.replaced(*from, *to);
    }
    EraseDead(std::move(producers));
    for (auto& [value, name] : names_)
      if (!value->is_output() && !g_.FindValue(name)) e_.Rename(value, name);
    return {};
  }

 private:
  /// Before the root where only that is replaced: all operands are its ancestors. With several
  /// results each node goes as early as its operands allow; readers before it move behind.
  Status Place() {
    if (p_.outputs.size() == 1 && p_.outputs[0] == m_.root()) {
      e_.InsertBefore(*m_.root()->producer());
      return {};
    }
    early_ = true;
    std::unordered_map<const Value*, const Node*> last;  // what a patch value has to wait for
    const auto later = [](const Node* a, const Node* b) {
      return !a || (b && Graph::Before(*a, *b)) ? b : a;
    };
    for (size_t i = 0; i < p_.inputs.size(); ++i) {
      const Value* inside = p_.graph.inputs()[i];
      if (!inside->uses().empty() &&
          std::find(p_.outputs.begin(), p_.outputs.end(), p_.inputs[i]) != p_.outputs.end())
        return InvalidModel(Cat("'", p_.inputs[i]->name(), "' is read by what takes its place"));
      last[inside] = p_.inputs[i]->producer();
    }
    for (const auto& n : p_.graph.nodes()) {
      const Node* after = nullptr;
      for (const Value* v : n->inputs())
        if (v) after = later(after, last[v]);
      for (const Value* v : n->outputs()) last[v] = after;
    }
    for (const auto& [value, node] : last) last_ = later(last_, node);
    return CollectReaders(last);
  }

  /// Who reads a result before it is there, and who reads them, up to `last_`.
  Status CollectReaders(const std::unordered_map<const Value*, const Node*>& last) {
    const auto dying = DyingNodes(m_, p_);
    std::unordered_set<const Node*> known(dying.begin(), dying.end());
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      const auto it = last.find(p_.graph.outputs()[i]);
      const Node* after = it == last.end() ? nullptr : it->second;
      for (const Use& u : p_.outputs[i]->uses())
        if (after && !Graph::Before(*after, *u.user) && known.insert(u.user).second)
          readers_.push_back(u.user);
    }
    for (size_t i = 0; i < readers_.size(); ++i)
      for (const Value* v : readers_[i]->outputs()) {
        if (!v) continue;
        for (const Use& u : v->uses())
          if (!Graph::Before(*last_, *u.user) && known.insert(u.user).second)
            readers_.push_back(u.user);
      }
    const std::unordered_set<const Node*> moved(readers_.begin(), readers_.end());
    for (size_t i = 0; i < p_.inputs.size(); ++i) {
      const Node* producer = p_.inputs[i]->producer();
      if (moved.contains(producer) && !p_.graph.inputs()[i]->uses().empty())
        return InvalidModel(Cat("'", p_.inputs[i]->name(), "' reads what it takes the place of"));
    }
    std::sort(readers_.begin(), readers_.end(),
              [](const Node* a, const Node* b) { return Graph::Before(*a, *b); });
    return {};
  }

  void MoveReaders() {
    const Node* behind = last_;
    for (const Node* n : made_)
      if (!behind || Graph::Before(*behind, *n)) behind = n;
    for (Node* n : readers_) {
      e_.MoveAfter(*n, *behind);
      behind = n;
    }
  }

  void PlaceEarly(const std::vector<Value*>& operands) {
    const Node* last = nullptr;
    for (const Value* v : operands)
      if (v && v->producer() && (!last || Graph::Before(*last, *v->producer())))
        last = v->producer();
    if (last)
      e_.InsertAfter(*last);
    else
      e_.InsertBefore(*g_.nodes().front());
  }

  void CollectNames() {
    std::vector<Node*> nodes = CoveredNodes(m_, p_);
    std::sort(nodes.begin(), nodes.end(), [](Node* a, Node* b) { return Graph::Before(*a, *b); });
    std::unordered_set<std::string_view> known;
    for (const Node* n : nodes)
      for (const std::string& name : n->fused_from())
        if (!name.empty() && known.insert(name).second) fused_from_.push_back(name);
  }

  Status Copy(const Node& n) {
    std::vector<Value*> inputs;
    for (Value* v : n.inputs()) inputs.push_back(v ? outer_.at(v) : nullptr);
    if (early_) PlaceEarly(inputs);
    const Node* like = m_.root()->producer();
    for (const Node* matched : m_.nodes())
      if (&matched->def() == &n.def()) like = matched;
    NodeOptions options;
    options.name = n.name().empty() ? like->name() : n.name();
    if (&like->def() == &n.def()) options.extra = like->extra();
    options.num_outputs = n.outputs().size();
    for (const Value* v : n.outputs())
      options.output_names.push_back(v ? e_.FreshName("") : std::string());
    options.num_captures = n.num_captures();
    for (const auto& [attr, graph] : n.subgraphs())
      options.subgraphs.emplace_back(attr, std::make_unique<Graph>(graph->Clone()));
    options.fused_from = fused_from_;
    auto added = e_.AddNode(n.def(), std::move(inputs), n.attrs(), std::move(options));
    // The patch was type-checked on the same operands: this is our bug.
    if (!added.ok()) return Internal(Cat("splicing: ", added.status().message()));
    Node* made = *added;
    made_.push_back(made);
    for (size_t i = 0; i < n.outputs().size(); ++i) {
      if (!n.output(i)) continue;
      outer_[n.output(i)] = made->output(i);
      // Extents that only PatchBuilder::HasExtentsOf told.
      if (const auto both = Meet(n.output(i)->type(), made->output(i)->type()); both.ok())
        e_.SetType(made->output(i), *both);
    }
    if (listener_.added) listener_.added(*made);
    return {};
  }

  void EraseDead(std::vector<Node*> candidates) {
    std::unordered_set<const Node*> erased;
    while (!candidates.empty()) {
      Node* n = candidates.back();
      candidates.pop_back();
      if (erased.count(n)) continue;
      const bool dead = std::all_of(n->outputs().begin(), n->outputs().end(),
                                    [](const Value* v) { return !v || v->is_dead(); });
      if (!dead) continue;
      erased.insert(n);
      for (Value* v : n->inputs())
        if (v && v->producer()) candidates.push_back(v->producer());
      if (listener_.erasing) listener_.erasing(*n);
      e_.Erase(*n);
    }
  }

  Graph& g_;
  const Match& m_;
  const Patch& p_;
  const SpliceListener& listener_;
  GraphEditor e_;
  std::unordered_map<const Value*, Value*> outer_;  // patch value -> graph value
  bool early_ = false;
  const Node* last_ = nullptr;  // of what the patch reads
  std::vector<Node*> readers_;  // that move behind the patch
  std::vector<const Node*> made_;
  std::vector<std::string> fused_from_;
  std::vector<std::pair<Value*, std::string>> names_;
};

}  // namespace

Status Splice(Graph& g, const Match& m, const Patch& p, const SpliceListener& listener) {
  return Splicer(g, m, p, listener).Run();
}

}  // namespace infer
