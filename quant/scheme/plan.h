#pragma once
/// Which nodes become integer and which values carry quantization parameters. Reads the graph,
/// changes nothing, measures nothing.
///
/// Laws: a weighted node is integer when it can be. Its result is rounded only where integers are
/// *wanted*: always after operators whose integer kernels cannot return f32, else where a consumer
/// multiplies again. Element-wise operators, pools and movement are integer only between integers.
/// A graph output is never rounded.
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "quant/algorithm/weight_grid.h"
#include "quant/scheme/node_filter.h"
#include "quant/scheme/op_rules.h"
#include "quant/scheme/quant_params.h"

namespace infer {

/// What to quantize, and to what.
struct QuantScheme {
  QuantGrid activations{DType::kU8, false, false};
  QuantGrid weights{DType::kI8, true, false};
  bool per_channel = true;  ///< a scale per output channel of the weights, where that has an axis
  /// Whether DequantizeLinear of the file's opset has scales per channel (13).
  bool has_channel_scales = true;
  int keep_first = 0;                ///< so many weighted layers at the start stay f32
  int keep_last = 0;                 ///< and at the end
  std::vector<NodePattern> include;  ///< empty: every operator of the table
  std::vector<NodePattern> exclude;  ///< wins over include
  /// Nodes that stay f32, by the name of their first result, with the reason that reports tell.
  std::map<std::string, std::string> keep;
  /// Nodes that stay f32, by the name of their first result, whose constant weights are stored in 8
  /// bits per channel; names that are no such nodes say nothing.
  std::set<std::string> store;
  /// Codes of weights that are not rounded to nearest, by the name of the layer's first result.
  /// They stand for the layer's constant as it is in the graph.
  std::map<std::string, RoundedCodes> rounded;
};

/// What the plan says about one node.
struct PlannedNode {
  Node* node = nullptr;
  std::string first_result;     ///< its name before anything is rewritten
  const QuantOp* op = nullptr;  ///< nullptr: not in the table
  bool integer = false;
  std::string reason;     ///< why not integer
  bool unwanted = false;  ///< the user wants it as it is
  /// Nodes computed with it before its result is rounded: a bias Add of a MatMul, Relu, Clip.
  std::vector<Node*> followers;
  Node* bias = nullptr;     ///< of the followers: the Add of a bias
  Value* result = nullptr;  ///< of the last follower, or of the node (its output 0)
};

struct QuantPlan {
  std::vector<PlannedNode> nodes;  ///< every node that is no follower, in topological order
  /// Computed f32 values that get a Q/DQ pair, in topological order, graph inputs first.
  std::vector<Value*> values;
  /// values[i] shares its parameters with all values of the same group; groups are
  /// 0...num_groups-1.
  std::vector<int> group;
  int num_groups = 0;
  /// Constant operands (not weights) that are quantized: with their group, or -1 for their own.
  std::map<const Value*, int> constants;
  /// values[i]: its producer is integer and returns integers: every reader reads the rounded value.
  std::vector<bool> integer_result;
  /// Indices into `values` of those that calibration must observe; the others follow.
  std::vector<size_t> observed;
  int FindValue(const Value* v) const;  ///< index into values, or -1
  /// Rows of QuantizeReport::layers by node: a report has layers alone, not arithmetic on extents.
  std::unordered_map<const Node*, size_t> ReportRows() const;

 private:
  friend class QuantPlanner;
  std::map<const Value*, int> index_;
};

/// The constant table that a Gather looks up, where it is 64 KiB or more: smaller ones cost a model
/// more in nodes than they spare. nullptr: none.
const Value* LargeTableOf(const Node& n);

/// How the weights of the plan's integer layers will be stored, where each row of them has a scale
/// of its own, or all share one.
WeightGrids GridsOf(const QuantPlan& plan, const QuantScheme& scheme);

/// `original`: the graph before it was prepared; its names also count for patterns (may be `g`).
/// InvalidArgument: a pattern that matches nothing or does not compile.
Result<QuantPlan> PlanQuantization(const Graph& g, const Graph& original,
                                   const QuantScheme& scheme);

}  // namespace infer
