#pragma once
/// Which constants of a graph are weights that can be pruned, and how they lie. Reads the graph,
/// changes nothing.
#include "quant/algorithm/hessian.h"
#include "quant/algorithm/layers.h"
#include "quant/prune/pattern.h"
#include "quant/scheme/node_filter.h"

namespace infer {

/// Where the weights of a WeightPlane lie in their tensor: row (a, b), tap t and channel c at
/// a * outer_step + b * row_step + t * tap_step + c * channel_step, rows (a, b) in that order.
struct WeightPlace {
  WeightPlane plane;
  int64_t outer = 1, outer_step = 0, row_step = 0, tap_step = 0, channel_step = 0;
  bool operator==(const WeightPlace&) const = default;

  /// Calls f(element) for [all_rows, depth] in order.
  template <typename F>
  void ForEach(F f) const {
    const int64_t rows = plane.all_rows() / outer;
    for (int64_t a = 0; a < outer; ++a)
      for (int64_t b = 0; b < rows; ++b)
        for (int64_t t = 0; t < plane.taps; ++t)
          for (int64_t c = 0; c < plane.channels; ++c)
            f(a * outer_step + b * row_step + t * tap_step + c * channel_step);
  }
  /// [all_rows, depth] of the tensor's numbers, whatever floating-point type they have.
  std::vector<float> Read(const Tensor& t) const;
  /// A tensor like `like` with these numbers.
  Tensor Write(std::span<const float> weights, const Tensor& like) const;
};
/// Of the constant `operand` of Conv, ConvTranspose, Gemm, MatMul, LSTM, GRU or RNN. nullopt: no
/// weights, or no floating-point constant.
std::optional<WeightPlace> PlaceOf(const Node& node, size_t operand);

/// The same of weights [w] that are no constant of the node: dequantized, for instance.
std::optional<WeightPlace> PlaceOf(const Node& node, size_t operand, const Dims& w);
/// Of weights [w] in a layout; nullopt: they are no matrix.
std::optional<WeightPlace> PlaceOf(const WeightLayout& layout, const Dims& w);

/// A constant that layers multiply by: it is pruned once, whoever reads it.
struct PrunableWeights {
  std::string weights;    ///< name of the constant
  std::string layer, op;  ///< of the first reader, for people
  WeightPlace place;
  std::string reason;  ///< why they stay as they are; "" where they do not
  /// What they are multiplied with. Empty: `no_data` says why that is not known.
  std::vector<RowSource> sources;
  std::string no_data;
  /// Where a number per row can be added to the layer's result; nullopt: nowhere, or several layers
  /// share the weights.
  std::optional<AlgorithmLayer> bias;
  int64_t size() const { return place.plane.size(); }
};

struct PruneScope {
  std::vector<NodePattern> include, exclude;  ///< as those of QuantScheme
};

/// Nodes with constant weights in bodies of If, Loop and Scan, at any depth: they stay as they are.
int64_t LayersInBodies(const Graph& g);
/// InvalidArgument: a graph with quantized values; pruning comes first.
Status CheckNotQuantized(const Graph& g);

/// In topological order, each constant once. Nodes of subgraphs are not among them. `original`: the
/// graph before it was prepared. InvalidArgument: a pattern that matches nothing or does not
/// compile.
Result<std::vector<PrunableWeights>> FindPrunable(const Graph& g, const Graph& original,
                                                  const PruneScope& scope);

}  // namespace infer
