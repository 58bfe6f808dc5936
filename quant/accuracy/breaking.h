#pragma once
/// Which layers of the candidate break a tolerance: the first value that leaves it, and the
/// smallest set of layers that, put into golden, breaks the outputs.
#include "quant/accuracy/gate.h"
#include "quant/accuracy/isolate.h"
#include "quant/accuracy/minimal_set.h"

namespace infer {

struct BreakOptions {
  GateLimits limits;  ///< of the outputs; intervals are not looked at
  bool exact =
      false;  ///< also: what is no float is equal, NaN and infinity stand where golden's do
  IsolateOptions runs;                       ///< samples, level, budget of the ranking
  std::optional<NextToken> next_token = {};  ///< for a limit on perplexity
  int max_tries = 200;
};

struct BreakReport {
  /// The candidate breaks the limits when each of its nodes runs by itself. If not, they broke (if
  /// they did) by what the runtime does at a higher level (runtime_fault.h), and nothing else here
  /// is set.
  bool breaks = false;
  /// First layer, as both sides compute them, whose value leaves the tolerance with all layers
  /// before it from the candidate. Empty where the limits are of outputs only (a drop, agreement).
  std::optional<size_t> first;
  TensorMetrics first_metrics;
  MinimalSet set;                      ///< of layers
  std::vector<IsolatedLayer> ranking;  ///< guiltiest first
};

/// Whether the outputs keep the limits, as measured.
bool Keeps(const AccuracyReport& report, const BreakOptions& options);

/// Without limits, or where nothing differs, nothing breaks.
Result<BreakReport> FindBreakingLayers(const LayerMap& map, const Backend& backend,
                                       const Samples& samples, const BreakOptions& options);

}  // namespace infer
