#pragma once
/// Which layers are to blame: isolated errors as tables and JSON. Shared by compare, eval and
/// quantize.
#include "quant/accuracy/isolate.h"
#include "tools/common/model_options.h"
#include "tools/common/report.h"

namespace infer {

/// "layer", what it is in both models, errors alone and carried on (from `accuracy`'s layers).
std::string LayersText(const std::vector<IsolatedLayer>& layers, const AccuracyReport& accuracy,
                       size_t max_layers = 20);
Json ToJson(const std::vector<IsolatedLayer>& layers, const AccuracyReport& accuracy);

/// "guilty" of the report, and lines for people: the three layers that harm the outputs most when
/// they alone are the candidate's. `isolated`: guiltiest first. Nothing where it is empty.
void TellGuilty(Context& context, const std::vector<IsolatedLayer>& isolated,
                const AccuracyReport& accuracy, Json& report);

/// Isolates every layer of `candidate` on the first samples. Empty with a note where the two graphs
/// have no layers in common, or do not differ.
std::vector<IsolatedLayer> Isolate(Context& context, const Graph& golden, const Graph& candidate,
                                   const DeviceOptions& device, const Samples& samples,
                                   const IsolateOptions& options = {});

}  // namespace infer
