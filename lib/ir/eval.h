#pragma once
/// Runs a graph on reference kernels. Slow and obviously right: the oracle of every test, and what
/// constant folding calls.
#include <functional>
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

/// Checks what a run makes of the values of a graph.
class ResultCheck {
 public:
  /// Both outlive the check; `inputs` in the graph's order.
  ResultCheck(const Graph& g, std::span<const Datum> inputs) : g_(&g), inputs_(inputs) {}
  /// InvalidModel, which names the value, unless `d` is what the model says, or has the extents
  /// that inference finds for these inputs: what exporters declare of results may hold for one
  /// batch only.
  Status operator()(const Datum& d, const Value& value);

 private:
  void Infer();

  const Graph* g_;
  std::span<const Datum> inputs_;
  bool inferred_ = false;
  std::unordered_map<const Value*, ValueType> types_;  // where the model's did not fit
};

}  // namespace infer
