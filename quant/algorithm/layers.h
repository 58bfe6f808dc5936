#pragma once
/// What the accuracy algorithms see of a layer that becomes integer, and how they change it. All of
/// them rewrite the f32 graph that is quantized afterwards; none writes integers.
#include <span>

#include "lib/support/function_ref.h"
#include "quant/scheme/plan.h"

namespace infer {

/// A weighted node with constant weights that a plan makes integer. Names, because changing a layer
/// replaces nodes.
struct AlgorithmLayer {
  std::string output;    ///< result 0 of the node
  std::string biased;    ///< the value with the bias and without activation; mostly `output`
  std::string input;     ///< the activation operand
  int channel_axis = 1;  ///< of `output`; -1: the last
};
std::vector<AlgorithmLayer> IntegerLayers(const QuantPlan& plan);

/// The weights as they are after rounding, in f32. Pre: a node of IntegerLayers.
Tensor FakeQuantizedWeights(const Node& node, const QuantScheme& scheme);
/// `node` reads `w` instead of its weights; other readers keep theirs.
void ReplaceWeights(Graph& g, Node& node, Tensor w);
/// Adds `delta` (one per channel of the result) to the layer's bias, which is made where Conv or
/// Gemm has none. False: the layer has no place for a bias.
Result<bool> AddToBias(Graph& g, const AlgorithmLayer& layer, std::span<const double> delta);

/// The weights as [outer, input channel, inner]: for each element the index of its input channel.
/// Conv with groups: the channel of the whole input. Pre: Conv, Gemm or MatMul with a matrix.
int64_t InputChannels(const Node& node);
/// Calls f(element, input channel, output channel) for every weight.
void ForEachWeight(const Node& node, FunctionRef<void(size_t, int64_t in, int64_t out)> f);
/// Whether ForEachWeight knows the layout.
bool HasInputChannels(const Node& node);

}  // namespace infer
