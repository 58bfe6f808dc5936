#pragma once
/// Whether requests may be made longer along an axis of variable extent, so that those of different
/// lengths share a run: proved from the links between axes of the operators (lib/ops/axes.h).
#include <span>
#include <string>
#include <vector>

#include "lib/ir/graph.h"
#include "lib/tensor/datum.h"

namespace infer::engine {

/// What is known of making every input longer along all axes of one extent, by zeros.
struct PaddedAxes {
  bool proved = false;
  std::string symbol = {};  ///< the extent, as the model names it
  std::string reason = {};  ///< why not: names the first node that stands against it
  /// Axes of that extent, of each input and output, in ascending order.
  std::vector<std::vector<int>> inputs = {}, outputs = {};
  /// Positions of inputs by which the model leaves out what was added (attention masks). The proof
  /// holds for requests whose masks have a 1 in every row along the extent.
  std::vector<size_t> masks = {};
  /// The proof takes what the model computes in the added places to be finite.
  bool takes_finite = false;
  /// The proof holds for requests that are at least so long: the model picks fixed places.
  int64_t least = 1;
};

/// Proved: of a request that is made longer by zeros, the outputs, cut to the length before, are
/// what they were. Every value that depends on an input then holds in its first places, along each
/// axis of the extent, what it held before. That is so where operators keep the axis apart;
/// Softmax may run along it where a mask puts what was added out of sight (the number added to
/// scores is -10,000 or less, or takes their place); products may sum over it, and sums run over
/// it, where a factor is 0 there. Refused, with the node and the reason: what reduces, windows,
/// normalizes, turns round or carries along the axis, numbers made of the extent, and extents made
/// of it.
///
/// The proof takes numbers as real ones: scores are below 4,000 in magnitude, and what the model
/// computes in the added places is finite, since 0 times infinity is no zero (`takes_finite`: the
/// engine makes runs with other outputs than finite ones again, without padding).
///
/// Linear in the nodes. The graph as it was imported.
PaddedAxes ProvePadding(const Graph& graph, const std::string& symbol);

/// One for each extent of inputs that the model leaves open and names, in the order of the inputs,
/// but for `batch`.
std::vector<PaddedAxes> ProvePaddings(const Graph& graph, const std::string& batch);

/// Whether masks of a request are as the proof asks for.
bool MasksAllowPadding(const PaddedAxes& axes, std::span<const Datum> inputs);

}  // namespace infer::engine
