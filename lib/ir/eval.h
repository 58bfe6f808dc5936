#pragma once
/// Runs a graph on reference kernels. Slow and obviously right: the oracle of every test, and what
/// constant folding calls.
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "lib/ir/graph.h"

namespace infer {

struct EvalOptions {
  /// Called with every value as it is produced (graph inputs first). Not for inner subgraphs.
  std::function<void(const Value&, const Datum&)> tap = {};
};

/// Inputs and outputs in graph order. InvalidArgument when an input does not fit its type;
/// Cancelled when a StopScope of the thread asks for it (between nodes, and iterations of loops).
Result<std::vector<Datum>> Evaluate(const Graph& g, std::span<const Datum> inputs,
                                    const EvalOptions& options = {});
/// One node on given operands (nullptr = omitted; captures last): by its reference kernel, its body
/// (whose operators `ops` knows) or its subgraphs.
Result<std::vector<Datum>> EvaluateNode(const Node& node, std::span<const Datum* const> inputs,
                                        const OpRegistry& ops);
/// The same of a node all of whose operands are constants (or omitted).
Result<std::vector<Datum>> EvaluateConstant(const Node& node, const OpRegistry& ops);
/// Checks a datum against a declared type ("input 'x': is f32[2], wants f32[3]").
Status CheckDatum(const Datum& d, const ValueType& type, std::string_view name);

/// Checks what a run made against what the model says of the value; InvalidModel names the value.
Status CheckResult(const Datum& d, const Value& value);

/// Checks what a run makes of the values of a graph, node by node in the graph's order.
class ResultCheck {
 public:
  /// Both outlive the check; `inputs` in the graph's order.
  ResultCheck(const Graph& g, std::span<const Datum> inputs) : g_(&g), inputs_(inputs) {}
  /// InvalidModel, which names the value, unless `d` is what the model says, or has the extents
  /// that inference finds for these inputs and for the results so far that the model leaves open:
  /// what exporters declare of results may hold for one batch only.
  Status operator()(const Datum& d, const Value& value);

 private:
  /// Infers the types of this run up to the node that makes `value`.
  void InferUpTo(const Value& value);
  /// Gives the results of `own`, the copy of `node`, the types that they had, where the model
  /// leaves these open.
  void TakeSeen(const Node& node, Node& own);

  const Graph* g_;
  std::span<const Datum> inputs_;
  std::unordered_map<const Value*, TensorType> seen_;  // results that the model leaves open
  // From the first result on that is another than the model says:
  std::optional<Graph> own_;
  std::list<std::unique_ptr<Node>>::const_iterator next_, own_next_;  // not inferred yet
  std::unordered_map<const Value*, ValueType> types_;                 // of what is inferred
};

}  // namespace infer
