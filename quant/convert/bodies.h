#pragma once
/// Weights in bodies of control flow. A decoder that is merged of one with and one without a past
/// (as Optimum writes it) holds all of its layers in the two branches of an If, and their weights
/// in the graph around, which both capture.
#include <functional>
#include <string>

#include "quant/scheme/node_filter.h"
#include "quant/scheme/report.h"

namespace infer {

/// Quantizes a body as a graph of its own. Unsupported: there is nothing in it to quantize.
using QuantizeBody = std::function<Result<QuantizeReport>(Graph& body)>;

/// Hands each body in `g`, with the constants that it captures as constants of its own, to
/// `quantize`, and adds the layers that this reports to `report`. What two bodies of a node, or a
/// body and the graph around, hold alike then lies once in the graph around. Values between bodies
/// and `g` keep their types. Gives why a body stays as it is, "" where none does. Errors of
/// `quantize` other than Unsupported are returned; `g` may have changed then.
Result<std::string> QuantizeBodies(Graph& g, const QuantizeBody& quantize, QuantizeReport& report);

/// " (in a body: WHY)" behind a message that nothing can be quantized; "" for none.
inline std::string InABody(const std::string& refusal) {
  return refusal.empty() ? "" : " (in a body: " + refusal + ")";
}

/// Leaves the patterns that match a node of `body` or of its own bodies; the others are about other
/// graphs. Unsupported: there were patterns to include, and none of them matches here.
/// InvalidArgument: a pattern does not compile.
Status FitPatterns(const Graph& body, std::vector<NodePattern>& include,
                   std::vector<NodePattern>& exclude);

}  // namespace infer
