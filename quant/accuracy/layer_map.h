#pragma once
/// Golden and candidate as layers: between two values that both graphs have lies one layer, in
/// golden as one set of nodes, in the candidate as another (fused, quantized, or the same).
///
/// A layer is named after the value that it makes. Since both sides compute the same values, a
/// layer can be taken from either side: golden with one quantized layer, or the candidate with one
/// layer of golden's. Isolated errors, bisection and cutting out are all built from that.
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

enum class Side { kGolden = 0, kCandidate = 1 };

/// What makes values()[i] in one graph.
struct LayerNodes {
  const Value* value = nullptr;
  std::vector<const Node*> nodes;  ///< in topological order
  std::vector<size_t> reads;       ///< layers whose values they read, ascending
};

struct MappedLayer {
  LayerNodes golden, candidate;
  bool same = false;  ///< both sides have the same operators, attributes and constants
  const std::string& name() const { return golden.value->name(); }
  const LayerNodes& of(Side s) const { return s == Side::kGolden ? golden : candidate; }
};

class LayerMap {
 public:
  /// Both graphs must outlive the map. Shared are tensors of one name and element type, of extents
  /// that do not contradict, that nodes of both graphs make. Where the graphs disagree on what
  /// comes first, values are left out until they agree.
  /// InvalidArgument: inputs or outputs differ by name. Unsupported: outputs that depend on each
  /// other in opposite ways.
  static Result<LayerMap> Of(const Graph& golden, const Graph& candidate);

  /// In an order in which either side can compute them.
  const std::vector<MappedLayer>& layers() const { return layers_; }
  std::vector<size_t> Changed() const;  ///< layers that are not the same
  /// "Conv+Relu": the operators of one side's nodes; weights' own DequantizeLinear left out.
  std::string OpsOf(size_t layer, Side side) const;

  /// The whole model with these layers as the candidate has them and all others as golden has
  /// them. Values of layers keep their names.
  Result<Graph> Mix(const std::vector<size_t>& from_candidate) const;

  /// Golden, with these layers a second time as the candidate has them, reading golden's values.
  /// The outputs are golden's values of `layers`, then the candidate's, in the order given.
  Result<Graph> Twins(const std::vector<size_t>& layers) const;

  /// These layers alone, as `side` has them. Inputs: the model's and the values of other layers
  /// that either side's nodes read, by the name of the value; outputs: of these layers, those that
  /// others or the model's outputs read.
  Result<Graph> Cut(const std::vector<size_t>& layers, Side side) const;

 private:
  class Builder;
  const Graph* graph_[2] = {nullptr, nullptr};
  std::vector<MappedLayer> layers_;
  std::unordered_map<const Value*, size_t> index_;  ///< of both graphs
};

}  // namespace infer
