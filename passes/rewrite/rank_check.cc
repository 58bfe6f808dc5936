#include "passes/rewrite/rank_check.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int kMaxRank = 5;

bool RankUnknown(const ValueType& t) { return t.is_tensor() && !t.tensor().shape.has_rank(); }

/// Graph `g` becomes what the match, or the patch, computes where operands of unknown rank have
/// `rank` dimensions.
class Instance {
 public:
  Instance(Graph& g, int rank) : editor_(g), rank_(rank) {}

  /// An operand from outside.
  Value* Boundary(const Value* v) {
    if (const auto it = values_.find(v); it != values_.end()) return it->second;
    ValueType type = v->type();
    if (RankUnknown(type)) {
      std::vector<Dim> dims;
      for (int i = 0; i < rank_; ++i) dims.push_back(Dim::Symbol(Cat("rank_check_", i)));
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
  int rank_;
  std::unordered_map<const Value*, Value*> values_;
};

Status CheckAtRank(const Match& m, const std::vector<Node*>& nodes, const Patch& p, int rank) {
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
      return InvalidModel(Cat("needs a known rank: with ", rank, " dimensions, ", s.message()));
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    const Value *from = match.Boundary(p.outputs[i]), *to = patch.Boundary(p.graph.outputs()[i]);
    if (!to->type().Refines(from->type()))
      return InvalidModel(Cat("needs the rank of '", m.root()->name(), "': where an operand has ",
                              rank, " dimensions, the result would be ", ToString(to->type()),
                              " instead of ", ToString(from->type())));
  }
  return {};
}

}  // namespace

Status CheckUnknownRanks(const Match& m, const Patch& p) {
  if (std::none_of(p.outputs.begin(), p.outputs.end(),
                   [](const Value* v) { return RankUnknown(v->type()); }))
    return {};
  std::vector<Node*> nodes = m.nodes();
  std::sort(nodes.begin(), nodes.end(), [](Node* a, Node* b) { return Graph::Before(*a, *b); });
  for (int rank = 0; rank <= kMaxRank; ++rank) INFER_TRY(CheckAtRank(m, nodes, p, rank));
  return {};
}

}  // namespace infer
