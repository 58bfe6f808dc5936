#include "lib/ir/graph.h"

#include <bit>
#include <cstdint>
#include <unordered_map>

#include "lib/support/hash.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Numbers values as they come. One table of twice their number: a map of nodes would allocate for
/// each value, after every pass.
class ValueNumbers {
 public:
  explicit ValueNumbers(size_t values) : slots_(std::bit_ceil(2 * values + 2)) {}
  /// The number, and whether it is new.
  std::pair<uint64_t, bool> Of(const Value* v) {
    const size_t mask = slots_.size() - 1;
    // Fibonacci hashing; the low bits of an address are 0.
    size_t i = (reinterpret_cast<uintptr_t>(v) >> 4) * 0x9e3779b97f4a7c15u >> 20 & mask;
    while (slots_[i].first && slots_[i].first != v) i = (i + 1) & mask;
    if (slots_[i].first) return {slots_[i].second, false};
    slots_[i] = {v, next_};
    return {next_++, true};
  }

 private:
  std::vector<std::pair<const Value*, uint64_t>> slots_;
  uint64_t next_ = 0;
};

/// Numbers values in the order in which a traversal meets them, so that names do not count.
class Fingerprinter {
 public:
  explicit Fingerprinter(const Graph& g) : ids_(g.values().size()) {}
  uint64_t Run(const Graph& g, bool names) {
    h_.Add(g.inputs().size()).Add(g.outputs().size());
    for (const Value* v : g.inputs()) {
      AddValue(v);
      if (names) h_.Add(v->name());
    }
    for (const auto& n : g.nodes()) AddNode(*n);
    for (const Value* v : g.outputs()) {
      AddValue(v);
      if (names) h_.Add(v->name());
    }
    return h_.value();
  }

 private:
  void AddValue(const Value* v) {
    if (!v) {
      h_.Add(~uint64_t{0});
      return;
    }
    if (v->is_constant()) {  // by content: two equal constants are one value to a reader
      h_.Add(uint64_t{1}).Add(HashOf(*v->constant()));
      return;
    }
    const auto [id, fresh] = ids_.Of(v);
    h_.Add(id);
    if (fresh) AddType(v->type());
  }

  void AddType(const ValueType& t) {
    if (!t.is_tensor() || !t.tensor().shape.has_rank()) {
      h_.Add(std::string_view(ToString(t)));
      return;
    }
    const auto& dims = t.tensor().shape.dims();
    h_.Add(static_cast<uint64_t>(t.tensor().dtype)).Add(dims.size());
    for (const Dim& d : dims)
      if (d.is_static())
        h_.Add(static_cast<uint64_t>(d.value()));
      else
        h_.Add(std::string_view(d.ToString()));
  }

  void AddNode(const Node& n) {
    h_.Add(n.def().domain).Add(n.def().name).Add(HashOf(n.attrs()));
    h_.Add(n.inputs().size()).Add(n.outputs().size()).Add(n.num_captures());
    for (const Value* v : n.inputs()) AddValue(v);
    for (const Value* v : n.outputs()) AddValue(v);
    for (const auto& [name, sub] : n.subgraphs())
      h_.Add(std::string_view(name)).Add(Fingerprinter(*sub).Run(*sub, false));
  }

  Hasher h_;
  ValueNumbers ids_;
};

}  // namespace

const Graph* Node::subgraph(std::string_view attr) const {
  for (const auto& [name, g] : subgraphs_)
    if (name == attr) return g.get();
  return nullptr;
}

Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

Graph Graph::Clone() const {
  Graph out(*ops_, name_);
  out.extra_ = extra_;
  out.next_id_ = next_id_;
  std::unordered_map<const Value*, Value*> map;
  map.reserve(values_.size());
  for (const auto& v : values_) {
    auto copy = std::make_unique<Value>();
    copy->name_ = v->name_;
    copy->type_ = v->type_;
    copy->producer_index_ = v->producer_index_;
    copy->constant_ = v->constant_;
    copy->elements_ = v->elements_;
    copy->known_ = v->known_;
    copy->is_input_ = v->is_input_;
    copy->output_count_ = v->output_count_;
    copy->uses_.resize(v->uses_.size(), Use{nullptr, 0});
    Value* raw = copy.get();
    raw->self_ = out.values_.insert(out.values_.end(), std::move(copy));
    out.by_name_[raw->name_] = raw;
    map[v.get()] = raw;
  }
  auto mapped = [&](Value* v) { return v ? map.at(v) : nullptr; };
  for (const auto& n : nodes_) {
    auto copy = std::make_unique<Node>();
    Node* raw = copy.get();
    raw->def_ = n->def_;
    raw->name_ = n->name_;
    raw->fused_from_ = n->fused_from_;
    raw->attrs_ = n->attrs_;
    raw->prepared_.store(n->prepared_.load());
    raw->num_captures_ = n->num_captures_;
    raw->extra_ = n->extra_;
    raw->order_ = n->order_;
    raw->use_slots_ = n->use_slots_;
    for (const auto& [name, sub] : n->subgraphs_)
      raw->subgraphs_.emplace_back(name, std::make_unique<Graph>(sub->Clone()));
    for (size_t i = 0; i < n->inputs_.size(); ++i) {
      raw->inputs_.push_back(mapped(n->inputs_[i]));
      if (raw->inputs_[i]) raw->inputs_[i]->uses_[raw->use_slots_[i]] = {raw, i};
    }
    for (Value* v : n->outputs_) {
      raw->outputs_.push_back(mapped(v));
      if (v) raw->outputs_.back()->producer_ = raw;
    }
    raw->self_ = out.nodes_.insert(out.nodes_.end(), std::move(copy));
  }
  for (Value* v : inputs_) out.inputs_.push_back(map.at(v));
  for (Value* v : outputs_) out.outputs_.push_back(map.at(v));
  return out;
}

size_t Graph::total_nodes() const {
  size_t n = nodes_.size();
  for (const auto& node : nodes_)
    for (const auto& [name, sub] : node->subgraphs()) n += sub->total_nodes();
  return n;
}

Value* Graph::FindValue(std::string_view name) const {
  auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : it->second;
}

std::optional<WeightLayout> WeightLayoutOf(const Node& node) {
  if (!node.def().weights) return std::nullopt;
  return node.def().weights(OpCall(node.def(), node.attrs(), 0, 0));
}

OpCall CallOf(const Node& node) {
  const size_t operands = node.inputs().size() - node.num_captures();
  OpCall call(node.def(), node.attrs(), operands, node.outputs().size());
  if (node.def().prepare) call.BindPrepared(node.prepared());
  for (size_t i = 0; i < operands; ++i)
    if (const Value* v = node.input(i))
      call.BindInput(i, &v->type(), v->known(), v->elements() ? &*v->elements() : nullptr);
  for (size_t i = 0; i < node.outputs().size(); ++i)
    if (const Value* v = node.output(i)) call.SetOut(i, v->type());
  return call;
}

uint64_t Fingerprint(const Graph& g) { return Fingerprinter(g).Run(g, true); }

std::string Describe(const Node& n) {
  std::string out(n.op());
  if (!n.name().empty()) out += Cat(" '", n.name(), "'");
  for (const Value* v : n.outputs())
    if (v) return out + Cat(" -> '", v->name(), "'");
  return out;
}

}  // namespace infer
