#pragma once
/// Static INT8: observe -> choose -> rewrite, in one call. What `infer-opt quantize` runs.
#include <stop_token>

#include "quant/scheme/qdq.h"

namespace infer {

struct QuantizeOptions {
  QuantScheme scheme;
  ObserverFactory observer = AutoObserver();
  /// Simplify and fuse first (BatchNormalization into weights, bias Adds, constants); off for a
  /// graph that is prepared already.
  bool prepare = true;
  std::string calibration_cache = "";                      ///< CalibrationOptions::cache
  std::function<void(const std::string&)> tell = nullptr;  ///< what calibration says of its cache
  int threads = 0;
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// How `options` say that values are calibrated.
CalibrationOptions CalibrationOf(const QuantizeOptions& options);

/// Rewrites `g` with parameters from `samples`, run on `backend`. On failure `g` is unchanged.
/// InvalidArgument: no samples, a pattern that matches nothing, a graph that has Q/DQ already.
/// InvalidModel: weights hold NaN or infinity; the message names the tensor.
/// Unsupported: nothing in the graph can be quantized; the message says why for each candidate.
Result<QuantizeReport> QuantizeStatic(Graph& g, const Samples& samples, const Backend& backend,
                                      const QuantizeOptions& options = {});

/// A model between preparation and rewriting: what the algorithms of quant/algorithm change.
struct StaticModel {
  Graph graph;              ///< f32, prepared
  CalibrationTable ranges;  ///< of every value that `scheme` may quantize
  QuantScheme scheme;
};
struct StaticResult {
  Graph graph;  ///< with Q/DQ
  QuantizeReport report;
};

/// The first part of QuantizeStatic: checks `g` and returns it prepared. Errors as there.
Result<Graph> PrepareStatic(const Graph& g, bool prepare = true);
/// Every value that a plan with more nodes kept f32 could observe, too.
std::vector<std::string> ObservedValues(const QuantPlan& plan);
/// Layers of `scheme` that would read or make a value which `ranges` saw no number of (its extents
/// were 0 in every sample) are kept f32, with the reason. Returns the plan that is left.
Result<QuantPlan> KeepUnseen(const Graph& g, const Graph& original, const CalibrationTable& ranges,
                             QuantScheme& scheme);
/// The last part: plans and rewrites a copy. `original` as for PlanQuantization. Unsupported:
/// nothing is left to quantize.
Result<StaticResult> RewriteStatic(const StaticModel& model, const Graph& original,
                                   int64_t calibration_samples);

/// The simplifications and fusions that quantization relies on.
Status PrepareForQuantization(Graph& g);

/// InvalidModel: weights of a product, a convolution or a normalization hold NaN or infinity, which
/// no integer stands for; the message names the first.
Status CheckFiniteWeights(const Graph& g);
/// The first twelve reasons why layers stay as they are, and how many more there are.
std::string FirstReasons(std::vector<std::string> reasons);

/// Of all constants of `g`.
int64_t ConstantBytes(const Graph& g);

}  // namespace infer
