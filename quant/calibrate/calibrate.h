#pragma once
/// Calibration: runs a graph over data and observes the ranges of its values. Chooses no scheme and
/// rewrites nothing.
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/ir/graph.h"
#include "quant/calibrate/observer.h"
#include "quant/calibrate/samples.h"
#include "runtime/api/program.h"

namespace infer {

struct CalibratedValue {
  Interval seen;              ///< exact minimum and maximum of the finite elements
  Interval range;             ///< what the observer chose to cover
  int64_t count = 0;          ///< finite elements; 0: the value was empty in all samples
  int64_t non_finite = 0;     ///< NaN and infinities, left out of both
  std::string observer = {};  ///< whose range it is, where there was a choice ("auto")
  std::vector<RangeCandidate> candidates = {};  ///< and what else there was, with the errors
  /// Mean squared error of the tensor's numbers with `range`; unset for observers without a
  /// histogram. Where `range` begins below 0: the best range from 0 on, and its error.
  std::optional<double> error = {};
  std::optional<RangeCandidate> from_zero = {};
};
using CalibrationTable = std::map<std::string, CalibratedValue>;  ///< by value name

/// What was seen of one graph and its samples: by Observer::state(), then by value. Another
/// observer of the same state chooses by it without a run.
using CalibrationMemory = std::map<std::string, std::map<std::string, std::string>>;

struct CalibrationOptions {
  ObserverFactory observer = MinMaxObserver();
  QuantGrid grid;  ///< what the ranges will be quantized with; observers may choose by it
  /// Of the program that runs (CompileOptions). 1: no number is rounded in another way than in the
  /// golden model, and no weights are held in the larger forms of level 2, which gains little here.
  int level = 1;
  int threads = 0;
  /// A file, or a folder for files of several models: what was seen is kept there (cache.h) every
  /// `checkpoint_seconds`, when stopped and at the end. "": nowhere. What is there for the same
  /// model, data and observer is used or continued; anything else in a file is replaced.
  std::string cache = "";
  double checkpoint_seconds = 3;
  /// Used where it knows every value, and added to. Pre: the graph and the samples are those that
  /// it is of.
  CalibrationMemory* memory = nullptr;
  /// Told a line when the cache is used, continued or replaced.
  std::function<void(const std::string&)> tell = nullptr;
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// Runs every sample through `graph` on `backend` with the values `wanted` (names; graph inputs,
/// inner values and outputs alike) as extra outputs, once. Memory does not grow with the samples;
/// shapes may differ from sample to sample, and extents may be 0 (an empty cache of keys and
/// values). InvalidArgument: no samples, a name that is no f32 value of the graph, or a damaged
/// cache. InvalidModel: a value whose elements are all NaN or infinite. Cancelled: the stop token
/// fired.
Result<CalibrationTable> Calibrate(const Graph& graph, const std::vector<std::string>& wanted,
                                   const Samples& samples, const Backend& backend,
                                   const CalibrationOptions& options = {});
/// The same of a graph that nobody else needs: its weights are let go as kernels take them.
Result<CalibrationTable> CalibrateOwned(Graph graph, const std::vector<std::string>& wanted,
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
/// The same of a graph that nobody else needs.
Result<TappedProgram> CompileOwnedWithTaps(Graph graph, const std::vector<std::string>& taps,
                                           const Backend& backend, const CompileOptions& options);
/// Binds and runs; `watch` as RunOptions::watch.
Status RunInputs(RunContext& context, std::vector<Datum> inputs, std::stop_token stop,
                 std::function<void(const RawValue&)> watch = {});

/// Shows values of a graph run by run: its inputs as they come, the others in the layout that they
/// have, as soon as they are there. Nothing is copied or kept.
class Watch {
 public:
  using See = std::function<void(size_t k, const RawValue& value)>;  ///< wanted[k]
  /// InvalidArgument: a name that `graph` does not know, or of a constant.
  static Result<Watch> Make(Graph graph, const std::vector<std::string>& wanted,
                            const Backend& backend, CompileOptions options);
  /// One run. `see` is called in the thread that runs, with its lanes.
  Status Run(std::vector<Datum> inputs, const See& see, std::stop_token stop);

 private:
  Watch() = default;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<RunContext> context_;
  std::vector<std::pair<size_t, size_t>> from_inputs_;  // number of the input, of wanted
  std::vector<size_t> watched_;                         // by watched output: of wanted
  size_t first_ = 0;                                    // watched output
};

}  // namespace infer
