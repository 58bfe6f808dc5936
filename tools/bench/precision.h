#pragma once
/// Precisions that a model can be given on the way to a measurement, without data and without a
/// file: what `infer-opt quantize` makes in the modes that need none.
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ir/graph.h"
#include "runtime/api/program.h"

namespace infer::bench {

inline constexpr std::string_view kAsIs = "as-is";

/// as-is, fp32, fp16, bf16, int8-dynamic, int8-weights, int4-weights.
std::vector<std::string> PrecisionNames();
Status CheckPrecision(const std::string& name);  ///< InvalidArgument for any other

/// Rewrites `g`, which is simplified and fused first (as-is: left alone). InvalidArgument: an
/// unknown name, or a graph that holds quantized numbers; Unsupported: nothing in it has such a
/// form.
Status ConvertPrecision(Graph& g, const std::string& precision, const Backend& backend,
                        const std::stop_token& stop);

}  // namespace infer::bench
