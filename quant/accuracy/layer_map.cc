#include "quant/accuracy/layer_map.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lib/ir/editor.h"
#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "quant/accuracy/compare.h"

namespace infer {
namespace {

constexpr Side kSides[] = {Side::kGolden, Side::kCandidate};
constexpr size_t kMaxOps = 6;

bool Sharable(const Value& g, const Value* c) {
  if (!c || !g.producer() || !c->producer() || g.is_constant() || c->is_constant()) return false;
  if (!g.type().is_tensor() || !c->type().is_tensor() || g.dtype() != c->dtype()) return false;
  return Meet(g.shape(), c->shape()).ok();
}

/// Adds what lies between `value` and the values of `index`: nodes, and the layers read.
void Walk(const Value* value, const std::unordered_map<const Value*, size_t>& index,
          LayerNodes& layer) {
  std::set<const Node*> seen;
  std::set<size_t> reads;
  std::vector<const Node*> open = {value->producer()};
  while (!open.empty()) {
    const Node* n = open.back();
    open.pop_back();
    if (!seen.insert(n).second) continue;
    for (const Value* v : n->inputs()) {
      if (!v || !v->producer()) continue;
      const auto at = index.find(v);
      if (at != index.end())
        reads.insert(at->second);
      else
        open.push_back(v->producer());
    }
  }
  layer.value = value;
  layer.nodes.assign(seen.begin(), seen.end());
  std::sort(layer.nodes.begin(), layer.nodes.end(),
            [](const Node* a, const Node* b) { return Graph::Before(*a, *b); });
  layer.reads.assign(reads.begin(), reads.end());
}

/// An order in which each layer comes after all that either side reads. Empty: there is none, and
/// `stuck` tells which layers could not be placed.
std::vector<size_t> Order(const std::vector<MappedLayer>& layers, std::vector<size_t>& stuck) {
  std::vector<std::set<size_t>> waits(layers.size());
  std::vector<std::vector<size_t>> readers(layers.size());
  std::set<size_t> ready;
  for (size_t i = 0; i < layers.size(); ++i) {
    for (const Side s : kSides)
      waits[i].insert(layers[i].of(s).reads.begin(), layers[i].of(s).reads.end());
    for (const size_t r : waits[i]) readers[r].push_back(i);
    if (waits[i].empty()) ready.insert(i);
  }
  std::vector<size_t> order;
  std::vector<bool> placed(layers.size(), false);
  while (!ready.empty()) {
    const size_t i = *ready.begin();
    ready.erase(ready.begin());
    placed[i] = true;
    order.push_back(i);
    for (const size_t r : readers[i]) {
      waits[r].erase(i);
      if (waits[r].empty()) ready.insert(r);
    }
  }
  stuck.clear();
  for (size_t i = 0; i < layers.size(); ++i)
    if (!placed[i]) stuck.push_back(i);
  return order;
}

std::vector<std::pair<std::string, std::unique_ptr<Graph>>> CloneSubgraphs(const Node& n) {
  std::vector<std::pair<std::string, std::unique_ptr<Graph>>> clones;
  for (const auto& [name, g] : n.subgraphs())
    clones.emplace_back(name, std::make_unique<Graph>(g->Clone()));
  return clones;
}

}  // namespace

/// Copies nodes of both graphs into a new one. What a node reads is the layer's value where there
/// is one, whoever made it, so one copy of a node serves all its readers.
class LayerMap::Builder {
 public:
  explicit Builder(const LayerMap& map)
      : map_(map), graph(map.graph_[0]->ops(), map.graph_[0]->name()), editor(graph) {
    side.assign(map.layers_.size(), Side::kGolden);
    layer.assign(map.layers_.size(), nullptr);
  }

  Value* AddInput(const Value& like) {
    return inputs_[like.name()] = editor.AddInput(like.name(), like.type());
  }
  void AddModelInputs() {
    for (const Value* v : map_.graph_[0]->inputs()) AddInput(*v);
  }

  Result<Value*> Layer(size_t i) {
    if (layer[i]) return layer[i];
    INFER_ASSIGN(layer[i], Made(side[i], *map_.layers_[i].of(side[i]).value));
    return layer[i];
  }

  /// What `side`'s own node makes, layer or not.
  Result<Value*> Made(Side s, const Value& v) {
    INFER_ASSIGN(Node * n, Copy(s, *v.producer()));
    return n->output(v.producer_index());
  }

  Result<Value*> Of(Side s, const Value& v) {
    if (v.is_constant()) {
      Value*& c = constants_[&v];
      if (!c) c = editor.AddConstant(*v.constant(), v.name());
      return c;
    }
    if (const auto at = map_.index_.find(&v); at != map_.index_.end()) return Layer(at->second);
    if (v.producer()) return Made(s, v);
    const auto at = inputs_.find(v.name());
    if (at == inputs_.end()) return Internal(Cat("no input '", v.name(), "'"));
    return at->second;
  }

 private:
  Result<Node*> Copy(Side s, const Node& n) {
    if (const auto at = nodes_.find(&n); at != nodes_.end()) return at->second;
    std::vector<Value*> operands;
    for (const Value* v : n.inputs()) {
      if (!v) {
        operands.push_back(nullptr);
        continue;
      }
      INFER_ASSIGN(Value * o, Of(s, *v));
      operands.push_back(o);
    }
    NodeOptions o{.name = n.name(), .num_outputs = n.outputs().size()};
    for (const Value* v : n.outputs()) o.output_names.push_back(v ? NameOf(s, *v) : "");
    o.subgraphs = CloneSubgraphs(n);
    o.num_captures = n.num_captures();
    o.fused_from = n.fused_from();
    editor.InsertAtEnd();
    INFER_ASSIGN(Node * copy,
                 editor.AddNode(n.def(), std::move(operands), n.attrs(), std::move(o)));
    nodes_[&n] = copy;
    return copy;
  }

  /// Only the side that a layer is taken from may use its name.
  std::string NameOf(Side s, const Value& v) const {
    const auto at = map_.index_.find(&v);
    if (at != map_.index_.end() && side[at->second] == s) return v.name();
    return v.name() + (s == Side::kGolden ? ".golden" : ".candidate");
  }

  const LayerMap& map_;
  std::map<std::string, Value*> inputs_;
  std::unordered_map<const Node*, Node*> nodes_;
  std::unordered_map<const Value*, Value*> constants_;

 public:
  Graph graph;
  GraphEditor editor;
  std::vector<Side> side;     // of each layer
  std::vector<Value*> layer;  // its value; nullptr until it is made
};

Result<LayerMap> LayerMap::Of(const Graph& golden, const Graph& candidate) {
  INFER_TRY(CheckInterfaces(golden, candidate));
  LayerMap map;
  map.graph_[0] = &golden;
  map.graph_[1] = &candidate;
  std::vector<std::pair<const Value*, const Value*>> shared;
  for (const auto& node : golden.nodes())
    for (const Value* v : node->outputs())
      if (const Value* c = v ? candidate.FindValue(v->name()) : nullptr; v && Sharable(*v, c))
        shared.emplace_back(v, c);
  std::vector<size_t> order, stuck;
  while (true) {
    map.index_.clear();
    for (size_t i = 0; i < shared.size(); ++i)
      map.index_[shared[i].first] = map.index_[shared[i].second] = i;
    map.layers_.assign(shared.size(), {});
    for (size_t i = 0; i < shared.size(); ++i) {
      Walk(shared[i].first, map.index_, map.layers_[i].golden);
      Walk(shared[i].second, map.index_, map.layers_[i].candidate);
    }
    order = Order(map.layers_, stuck);
    if (stuck.empty()) break;
    const auto inner = std::find_if(stuck.begin(), stuck.end(),
                                    [&](size_t i) { return !shared[i].first->is_output(); });
    if (inner == stuck.end())
      return Unsupported(Cat("golden and candidate compute '", shared[stuck[0]].first->name(),
                             "' in opposite orders"));
    shared.erase(shared.begin() + static_cast<ptrdiff_t>(*inner));
  }
  std::vector<size_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<MappedLayer> sorted;
  for (const size_t i : order) sorted.push_back(std::move(map.layers_[i]));
  map.layers_ = std::move(sorted);
  for (auto& [value, i] : map.index_) i = place[i];
  for (MappedLayer& l : map.layers_)
    for (LayerNodes* nodes : {&l.golden, &l.candidate}) {
      for (size_t& r : nodes->reads) r = place[r];
      std::sort(nodes->reads.begin(), nodes->reads.end());
    }
  for (size_t i = 0; i < map.layers_.size(); ++i) {
    MappedLayer& l = map.layers_[i];
    if (l.golden.nodes.size() != l.candidate.nodes.size() || l.golden.reads != l.candidate.reads)
      continue;
    INFER_ASSIGN(const Graph g, map.Cut({i}, Side::kGolden));
    INFER_ASSIGN(const Graph c, map.Cut({i}, Side::kCandidate));
    l.same = Fingerprint(g) == Fingerprint(c);
  }
  return map;
}

std::vector<size_t> LayerMap::Changed() const {
  std::vector<size_t> changed;
  for (size_t i = 0; i < layers_.size(); ++i)
    if (!layers_[i].same) changed.push_back(i);
  return changed;
}

std::string LayerMap::OpsOf(size_t layer, Side side) const {
  std::vector<std::string> ops;
  for (const Node* n : layers_[layer].of(side).nodes) {
    if ((n->Is(Trait::kDequantize) && n->input(0)->is_constant()) || MakesStoredWeights(*n))
      continue;
    ops.emplace_back(n->op());
  }
  if (ops.size() > kMaxOps) {
    const size_t more = ops.size() - kMaxOps;
    ops.resize(kMaxOps);
    ops.push_back(Cat(more, " more"));
  }
  return Join(ops, "+");
}

Result<Graph> LayerMap::Mix(const std::vector<size_t>& from_candidate) const {
  Builder b(*this);
  b.AddModelInputs();
  for (const size_t i : from_candidate) b.side[i] = Side::kCandidate;
  for (size_t i = 0; i < layers_.size(); ++i) INFER_TRY(b.Layer(i).status());
  for (const Value* out : graph_[0]->outputs()) {
    INFER_ASSIGN(Value * v, b.Of(Side::kGolden, *out));
    if (v->name() != out->name()) {
      b.editor.InsertAtEnd();
      INFER_ASSIGN(v, b.editor.Add("Identity", {v}, {}, "", {.output_names = {out->name()}}));
    }
    b.editor.MarkOutput(v);
  }
  b.editor.Sweep();
  return std::move(b.graph);
}

Result<Graph> LayerMap::Twins(const std::vector<size_t>& layers) const {
  Builder b(*this);
  b.AddModelInputs();
  for (size_t i = 0; i < layers_.size(); ++i) INFER_TRY(b.Layer(i).status());
  for (const size_t i : layers) b.editor.MarkOutput(b.layer[i]);
  for (const size_t i : layers) {
    INFER_ASSIGN(Value * v, b.Made(Side::kCandidate, *layers_[i].candidate.value));
    b.editor.MarkOutput(v);
  }
  b.editor.Sweep();
  return std::move(b.graph);
}

Result<Graph> LayerMap::Cut(const std::vector<size_t>& layers, Side side) const {
  Builder b(*this);
  const std::set<size_t> in(layers.begin(), layers.end());
  std::set<size_t> from_outside;
  std::set<std::string> model_inputs;
  std::set<const Node*> inside;
  for (const size_t i : in)
    for (const Side s : kSides) {
      const LayerNodes& l = layers_[i].of(s);
      for (const size_t r : l.reads)
        if (!in.contains(r)) from_outside.insert(r);
      for (const Node* n : l.nodes) {
        inside.insert(n);
        for (const Value* v : n->inputs())
          if (v && v->is_input()) model_inputs.insert(v->name());
      }
    }
  for (const Value* v : graph_[0]->inputs())
    if (model_inputs.contains(v->name())) b.AddInput(*v);
  for (const size_t i : from_outside) b.layer[i] = b.AddInput(*layers_[i].golden.value);
  for (const size_t i : in) {
    b.side[i] = side;
    INFER_TRY(b.Layer(i).status());
  }
  for (const size_t i : in) {
    bool read = false;
    for (const Side s : kSides) {
      const Value* v = layers_[i].of(s).value;
      read = read || v->is_output();
      for (const Use& u : v->uses()) read = read || !inside.contains(u.user);
    }
    if (read) b.editor.MarkOutput(b.layer[i]);
  }
  b.editor.Sweep();
  return std::move(b.graph);
}

}  // namespace infer
