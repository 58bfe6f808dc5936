#pragma once
/// Calibration: runs a graph over data and observes the ranges of its values. Chooses no scheme and
/// rewrites nothing.
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/ir/graph.h"
#include "quant/calibrate/observer.h"
#include "quant/calibrate/samples.h"
#include "runtime/api/program.h"

namespace infer {

struct CalibratedValue {
  Interval seen;           ///< exact minimum and maximum of the finite elements
  Interval range;          ///< what the observer chose to cover
  int64_t count = 0;       ///< finite elements
  int64_t non_finite = 0;  ///< NaN and infinities, left out of both
};
using CalibrationTable = std::map<std::string, CalibratedValue>;  ///< by value name

struct CalibrationOptions {
  ObserverFactory observer = MinMaxObserver();
  QuantGrid grid;  ///< what the ranges will be quantized with; observers may choose by it
  int threads = 0;
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// Runs every sample through `graph` on `backend` with the values `wanted` (names; graph inputs,
/// inner values and outputs alike) as extra outputs. Memory does not grow with the samples.
/// InvalidArgument: no samples, or a name that is no f32 value of the graph. InvalidModel: a value
/// without one finite element. Cancelled: the stop token fired.
Result<CalibrationTable> Calibrate(const Graph& graph, const std::vector<std::string>& wanted,
                                   const Samples& samples, const Backend& backend,
                                   const CalibrationOptions& options = {});

/// A compiled graph that also returns inner values. Used wherever inner values are watched.
struct TappedProgram {
  std::shared_ptr<const Program> program;
  std::unique_ptr<RunContext> context;
  size_t num_outputs = 0;           ///< the graph's own outputs come first
  std::vector<std::string> tapped;  ///< names; taps[k] is output num_outputs + k
};
/// InvalidArgument for a name that is not an inner value of `graph`.
Result<TappedProgram> CompileWithTaps(const Graph& graph, const std::vector<std::string>& taps,
                                      const Backend& backend, const CompileOptions& options);
/// Binds and runs.
Status RunInputs(RunContext& context, std::vector<Datum> inputs, std::stop_token stop);

}  // namespace infer
