#pragma once
/// A graph as loose parts that refer to each other by name: easy to bend, checked only when it is
/// built. What random tests of rules work on (rewrite/rule_fuzz.h).
#include <memory>

#include "lib/ir/graph.h"

namespace infer {

struct Sketch {
  struct Input {
    std::string name;
    ValueType type;   ///< as the graph declares it
    ValueType value;  ///< what a run gets: at least as specific
  };
  struct NamedTensor {
    std::string name;
    Tensor tensor;
  };
  struct Op {
    const OpDef* def;
    std::vector<std::string> inputs, outputs;  ///< "": omitted
    AttrMap attrs = {};
    size_t num_captures = 0;
    std::vector<std::pair<std::string, std::shared_ptr<const Graph>>> subgraphs = {};
  };

  std::vector<Input> inputs;
  std::vector<NamedTensor> constants;
  std::vector<Op> nodes;  ///< in topological order
  std::vector<std::string> outputs;
  int next_name = 0;

  static Sketch Of(const Graph& g);
  /// InvalidModel when it is ill-typed or a name stands for nothing. Dead nodes are left out.
  Result<Graph> Build(const OpRegistry& ops) const;
  /// Random values for the inputs (RandomInputs).
  Result<std::vector<Datum>> Values(const OpRegistry& ops, uint64_t seed) const;

  std::string Fresh() { return "new_" + std::to_string(next_name++); }
  bool IsConstant(std::string_view name) const;
  /// Every value that nodes make.
  std::vector<std::string> Results() const;
  /// Operands [from node `first` on] and outputs (if wanted) that are `name` become `with`.
  void Replace(const std::string& name, const std::string& with, size_t first = 0,
               bool outputs_too = false);
};

}  // namespace infer
