#pragma once
/// Plan: a graph cut into steps, before any backend knows how it computes them. Values have dense
/// ids (their position in Graph::values(), the same in every clone), so that nothing on a run path
/// looks up a name.
///
/// A step computes one *main* node, or a group: the main node with what is folded around it
/// (dequantisation of its operands, an epilogue, requantisation). Values inside a group do not
/// exist at run time unless somebody outside reads them.
#include <vector>

#include "runtime/api/program.h"
#include "runtime/plan_ir/packed_memory.h"
#include "runtime/plan_ir/weight_source.h"

namespace infer {

struct PlanStep {
  const Node* main = nullptr;
  std::vector<const Node*> nodes;  ///< all nodes of the step, in graph order
  /// The first `borrowed` nodes (dequantisation of operands) are computed by steps of their own,
  /// too, where somebody else reads them.
  size_t borrowed = 0;
  std::vector<int> inputs;   ///< external operands, each once; constants included
  std::vector<int> outputs;  ///< values that somebody outside the step reads
  std::vector<int> dies;     ///< values whose last reader this step is (outputs never)
  /// Steps that a group may run as where no kernel takes it whole (groups/parts.h): those that
  /// begin with the same node longest first, the last of them with that node alone.
  std::vector<PlanStep> parts = {};
};

struct Plan {
  explicit Plan(Graph g) : graph(std::move(g)) {}
  Graph graph;
  std::vector<const Value*> values;  ///< by id
  std::vector<int> inputs, outputs;  ///< value ids in graph order
  size_t watched = 0;                ///< CompileOptions::watched
  /// By input and by output: lies in the device's memory (CompileOptions::resident); empty: none.
  std::vector<bool> resident_inputs = {}, resident_outputs = {};
  bool is_resident_input(size_t i) const {
    return i < resident_inputs.size() && resident_inputs[i];
  }
  bool is_resident_output(size_t o) const {
    return o < resident_outputs.size() && resident_outputs[o];
  }
  /// A body, or the late steps, of another plan. The symbols of its inputs come from inference and
  /// from what the model declares inside, and promise nothing to whoever binds them.
  bool is_part = false;
  /// Whether output `o` is only watched.
  bool is_watched(size_t o) const { return o + watched >= outputs.size(); }
  std::vector<PlanStep> steps;  ///< in execution order
  /// What kernels pack lies there.
  std::shared_ptr<PackedMemory> packed = std::make_shared<PackedMemory>();
  /// Constants as the kernels that pack them read them.
  std::shared_ptr<WeightSources> sources = std::make_shared<WeightSources>();
  /// By value id, empty where none is: the f32 value may lie in bf16, as all that read it do.
  std::vector<bool> in_bf16;
  bool lies_in_bf16(int id) const { return !in_bf16.empty() && in_bf16[static_cast<size_t>(id)]; }
  std::vector<Tensor> folded;  ///< by value id: constants found while compiling
  /// The value of `v` where it is constant; nullptr else.
  const Tensor* constant(const Value* v) const;
  const Tensor* constant(int id) const;  ///< of the value with this id
  /// The constant keeps its type, and loses its elements.
  void DropElements(int id);
  /// Those of the constant `id`; from its source where the plan has lost them. Pre: a source still
  /// has them then.
  Result<Tensor> Elements(int id) const;
  int id(const Value* v) const { return ids.at(v); }  ///< compile time only
  std::unordered_map<const Value*, int> ids;
};

/// One step per node. The plan takes the graph.
Plan PartitionByNode(Graph graph);

/// Recomputes inputs, outputs and dies of every step from its nodes, and drops steps that nobody
/// reads.
void Relink(Plan& plan);

/// Evaluates the steps of `op` whose operands are all constant, what moves or converts their
/// results, and what makes f32 weights of codes (MakesStoredWeights) or of f16 and bf16, by their
/// reference kernels; the results become constants of the plan. For what a backend leaves unfused,
/// such as the dequantisation of weights.
Status FoldConstants(Plan& plan, std::string_view op);

/// "Conv+Relu", "com.microsoft::Gelu": all operators of the step.
std::string OperatorOf(const PlanStep& step);

/// Node, operator, fused-from, outputs and cost of each step; kernel and precision stay empty.
std::vector<StepInfo> DescribeSteps(const Plan& plan);

/// FLOPs and traffic of a node whose types are static; zeros else.
Cost StaticCost(const Node& node, const OpRegistry& ops);

}  // namespace infer
