#pragma once
/// Static INT8: observe -> choose -> rewrite, in one call. What `infer-opt quantize` runs.
#include <stop_token>

#include "quant/scheme/qdq.h"

namespace infer {

struct QuantizeOptions {
  QuantScheme scheme;
  ObserverFactory observer = MinMaxObserver();
  /// Simplify and fuse first (BatchNormalization into weights, bias Adds, constants); off for a
  /// graph that is prepared already.
  bool prepare = true;
  int threads = 0;
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// Rewrites `g` with parameters from `samples`, run on `backend`. On failure `g` is unchanged.
/// InvalidArgument: no samples, a pattern that matches nothing, a graph that has Q/DQ already.
/// InvalidModel: weights hold NaN or infinity; the message names the tensor.
/// Unsupported: nothing in the graph can be quantized; the message says why for each candidate.
Result<QuantizeReport> QuantizeStatic(Graph& g, const Samples& samples, const Backend& backend,
                                      const QuantizeOptions& options = {});

/// The simplifications and fusions that quantization relies on.
Status PrepareForQuantization(Graph& g);

}  // namespace infer
