#pragma once
/// A Patch is a replacement that does not touch the graph yet: a small graph of its own and a map
/// of its boundary. The driver type-checks it, may evaluate it beside what it replaces, prices it,
/// and only then splices it in.
#include <unordered_map>
#include <unordered_set>

#include "lib/ir/editor.h"
#include "lib/pattern/match.h"

namespace infer {

struct Patch {
  explicit Patch(const OpRegistry& ops) : graph(ops, "patch") {}
  Graph graph;
  /// graph.inputs()[i] stands for region value inputs[i].
  std::vector<Value*> inputs;
  /// Constants of the patch that are constants of the region's graph: they are not copied.
  std::unordered_map<const Value*, Value*> constants;
  /// graph.outputs()[i] replaces region value outputs[i].
  std::vector<Value*> outputs;
  /// Nodes beyond those of the match that the patch stands for.
  std::vector<Node*> covers;
};

/// Makes a patch. Operands may be values of the region's graph (they become the boundary) or of the
/// patch.
class PatchBuilder {
 public:
  PatchBuilder(const OpRegistry& ops) : patch_(ops), editor_(patch_.graph) {}  // NOLINT
  /// One result of "Op" or "domain::Op"; nullptr operands are omitted.
  Result<Value*> operator()(std::string_view op, std::vector<Value*> inputs, AttrMap attrs = {},
                            NodeOptions options = {});
  /// As above for several results.
  Result<Node*> Add(std::string_view op, std::vector<Value*> inputs, AttrMap attrs,
                    NodeOptions options);
  /// The first result of what `n`, a node of the region, is made of. Pre: its operator has such
  /// parts (OpDef::decompose). Unsupported where they do not say this call.
  Result<Value*> PartsOf(const Node& n);
  Value* Const(Tensor t);
  Value* Ints(const std::vector<int64_t>& values) { return Const(Tensor::Int64s(values)); }
  /// A further value of the region that `with` takes the place of (the root's is what the rule
  /// returns).
  void Replace(Value* outer, Value* with);
  /// `made`, a value of the patch, has the extents of `outer`, which inference may not find out.
  void HasExtentsOf(Value* made, const Value& outer);
  /// The patch stands for `node`, too, which is none of the match: a rule may follow the graph
  /// further than its pattern says. Its results that are still read must be replaced.
  void Cover(Node* node);
  Patch Finish() && { return std::move(patch_); }

 private:
  Value* In(Value* v);
  Patch patch_;
  GraphEditor editor_;
  std::unordered_set<const Value*> own_;
  std::unordered_map<const Value*, Value*> inner_;  // region value -> patch value
};

/// Nothing where a type is not static. With `ops` a fused operator computes what its body does; to
/// a rewrite, which compares what moves, it is free.
std::optional<Cost> StaticCostOf(const Node& n, const OpRegistry* ops = nullptr);

/// What a match is worth. FLOPs and bytes count only nodes with static types.
struct Price {
  int nodes_removed = 0, nodes_added = 0;
  Cost before, after;
  bool is_static = true;  ///< false: some node's cost is unknown
};

/// Nodes of the match and those that the patch covers beside them, each once.
std::vector<Node*> CoveredNodes(const Match& m, const Patch& p);
/// The covered nodes that nothing will need once the patch is in.
std::vector<Node*> DyingNodes(const Match& m, const Patch& p);
Price PriceOf(const Match& m, const Patch& p);
/// Each result must say at least what the replaced value's type says, and must not leave the
/// graph's interface where it is ("replaces output 'y' by input 'x'" again and again).
Status CheckPatch(const Match& m, const Patch& p);

/// What splicing did, for whoever keeps tables by node or value.
struct SpliceListener {
  std::function<void(Node&)> added = {};
  std::function<void(const Value& from, const Value& to)> replaced = {};
  std::function<void(Node&)> erasing = {};
};
/// Puts the patch in place of the match and erases what is dead then. Nodes that continue a matched
/// operator take its name, others the root's; all list what they stand for (fused_from), and
/// replacing values take over the names. Pre: CheckPatch. InvalidModel when a result's reader
/// stands before an operand of the patch; the graph is unchanged then.
Status Splice(Graph& g, const Match& m, const Patch& p, const SpliceListener& listener = {});

}  // namespace infer
