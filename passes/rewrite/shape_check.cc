#include "passes/rewrite/shape_check.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int kMostSampledAxes = 5;

bool RankUnknown(const ValueType& t) { return t.is_tensor() && !t.tensor().shape.has_rank(); }
bool ShapeUnknown(const ValueType& t) {
  if (!t.is_tensor() || RankUnknown(t)) return t.is_tensor();
  const auto& dims = t.tensor().shape.dims();
  return std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_unknown(); });
}

/// For certain of different shapes. An extent that is still not known may be the other.
bool Contradict(const ValueType& a, const ValueType& b) {
  if (!a.is_tensor() || !b.is_tensor() || RankUnknown(a) || RankUnknown(b)) return false;
  const Shape &x = a.tensor().shape, &y = b.tensor().shape;
  if (x.rank() != y.rank()) return true;
  // A sum or quotient may be written in two ways; a number or one symbol may not.
  const auto plain = [](const Dim& d) { return d.is_static() || !d.symbol().empty(); };
  for (int i = 0; i < x.rank(); ++i)
    if (plain(x[i]) && plain(y[i]) && !(x[i] == y[i])) return true;
  return false;
}

/// Graph `g` becomes what the match, or the patch, computes where operands of unknown rank have
/// `rank` dimensions, and unknown extents are extents of their own.
class Instance {
 public:
  Instance(Graph& g, int rank) : editor_(g), rank_(rank) {}

  /// An operand from outside.
  Value* Boundary(const Value* v) {
    if (const auto it = values_.find(v); it != values_.end()) return it->second;
    ValueType type = v->type();
    if (ShapeUnknown(type)) {
      std::vector<Dim> dims;
      if (RankUnknown(type))
        for (int i = 0; i < rank_; ++i) dims.push_back(Dim::Symbol(Cat("shape_check_", i)));
      else
        dims = type.tensor().shape.dims();
      for (Dim& d : dims)
        if (d.is_unknown()) d = Dim::Symbol(Cat("shape_check_of_", v->name(), fresh_++));
      type = ValueType(TensorType{type.tensor().dtype, Shape(std::move(dims))});
    }
    Value* mine = v->is_constant() ? editor_.AddConstant(*v->constant())
                                   : editor_.AddInput("", std::move(type));
    if (!v->is_constant()) editor_.CopyElements(mine, *v);
    return values_[v] = mine;
  }
  void Bind(const Value* v, Value* mine) { values_[v] = mine; }
  Status Add(const Node& n) {
    if (!n.subgraphs().empty()) return Unsupported("subgraphs");
    std::vector<Value*> operands;
    for (const Value* v : n.inputs()) operands.push_back(v ? Boundary(v) : nullptr);
    NodeOptions options;
    options.num_outputs = n.outputs().size();
    INFER_ASSIGN(Node * made, editor_.AddNode(n.def(), operands, n.attrs(), std::move(options)));
    for (size_t i = 0; i < n.outputs().size(); ++i)
      if (n.outputs()[i]) values_[n.outputs()[i]] = made->output(i);
    return {};
  }

 private:
  GraphEditor editor_;
  int rank_, fresh_ = 0;
  std::unordered_map<const Value*, Value*> values_;
};

Status CheckAtRank(const std::vector<Node*>& nodes, const Patch& p, int rank) {
  Graph before(p.graph.ops(), "match"), after(p.graph.ops(), "patch");
  Instance match(before, rank), patch(after, rank);
  for (const Node* n : nodes)
    if (!match.Add(*n).ok()) return {};  // no such operands
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    // A value inside of the match has the type that follows there.
    const Value* v = match.Boundary(p.inputs[i]);
    GraphEditor e(after);
    patch.Bind(p.graph.inputs()[i], e.AddInput("", v->type()));
  }
  for (const auto& n : p.graph.nodes())
    if (const Status s = patch.Add(*n); !s.ok())
      return InvalidModel(Cat("needs known shapes: ", s.message()));
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    // Of what the rule found further away we know too little.
    if (std::find(nodes.begin(), nodes.end(), p.outputs[i]->producer()) == nodes.end()) continue;
    const Value *from = match.Boundary(p.outputs[i]), *to = patch.Boundary(p.graph.outputs()[i]);
    if (Contradict(from->type(), to->type()))
      return InvalidModel(Cat("needs known shapes: the result may be ", ToString(to->type()),
                              " instead of ", ToString(from->type())));
  }
  return {};
}

}  // namespace

Status CheckUnknownShapes(const Match& m, const Patch& p) {
  if (std::none_of(p.outputs.begin(), p.outputs.end(),
                   [](const Value* v) { return ShapeUnknown(v->type()); }))
    return {};
  std::vector<Node*> nodes = CoveredNodes(m, p);
  std::sort(nodes.begin(), nodes.end(), [](Node* a, Node* b) { return Graph::Before(*a, *b); });
  const bool any_rank = std::any_of(nodes.begin(), nodes.end(), [](const Node* n) {
    return std::any_of(n->inputs().begin(), n->inputs().end(),
                       [](const Value* v) { return v && RankUnknown(v->type()); });
  });
  for (int rank = 0; rank <= (any_rank ? kMostSampledAxes : 0); ++rank)
    INFER_TRY(CheckAtRank(nodes, p, rank));
  return {};
}

}  // namespace infer
