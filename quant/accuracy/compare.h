#pragma once
/// Golden against candidate, streamed: outputs, inner values by name, and the task metric where
/// there are labels.
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "quant/accuracy/metrics.h"
#include "quant/accuracy/next_token.h"
#include "quant/accuracy/paired.h"
#include "quant/calibrate/samples.h"
#include "runtime/api/program.h"

namespace infer {

struct ValueAccuracy {
  std::string name;  ///< golden's name of the value
  std::string op;    ///< operator that makes it in the golden graph; "" for an output read as is
  bool is_float = true;  ///< numbers that are compared by their distance, also inside maps
  double least = 0;  ///< f16: its smallest positive number, the least error that there is; else 0
  TensorMetrics metrics;
  std::optional<RowMetrics> rows;
  /// max|d| / max|golden|; 0 where no element is off by more than `least`: rounded the other way.
  double error_ratio() const {
    return least > 0 && metrics.max_abs_error <= least ? 0 : metrics.max_error_ratio;
  }
};
/// What `v` is, and what `comparer` found.
ValueAccuracy AccuracyOf(const Value& v, const TensorComparer& comparer);

/// Whether watching inner values changed what is computed.
struct TapCheck {
  int64_t tapped = 0;
  /// Shared values that the candidate's program never has, as it computes them within a step; to
  /// watch them would take that step apart, so they are left out.
  int64_t within_steps = 0;
  /// The tapped candidate gave the same bits as the one without taps, at every output of every run.
  bool same_bits = true;
  double max_error_ratio = 0;  ///< else how far it was off: max|d| / max|output|
};

struct AccuracyReport {
  int64_t samples = 0;
  std::vector<ValueAccuracy> outputs;  ///< in graph order, without those left out
  std::set<size_t> left_out;           ///< outputs that a source could not give in some run
  std::vector<ValueAccuracy> layers;   ///< in golden's topological order; empty unless asked for
  int64_t layer_samples = 0;
  TapCheck taps;
  std::optional<PairedAccuracy> task;          ///< with labels, by output 0
  std::optional<PairedPerplexity> perplexity;  ///< of causal language models
  std::vector<std::string> warnings;
};

struct CompareOptions {
  bool per_layer = false;
  int64_t layer_samples = 16;  ///< inner values are compared on the first so many runs
  int golden_level = 0;        ///< the golden model runs as written
  int candidate_level = 2;
  Compute candidate_compute = Compute::kF32;
  int threads = 0;
  std::optional<NextToken> next_token = {};  ///< perplexity is taken by it; see CausalTask
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// The outputs of run `run`, whose inputs are `inputs`, in graph order: a program, a cache, another
/// engine. One that it cannot give is an undefined tensor, and is not compared.
using OutputSource =
    std::function<Result<std::vector<Datum>>(int64_t run, const std::vector<Datum>& inputs)>;

/// InvalidArgument: inputs or outputs that differ by name.
Status CheckInterfaces(const Graph& golden, const Graph& candidate);

/// Compiles `g` (which it keeps nothing of) and runs it.
Result<OutputSource> RunsOf(const Graph& g, const Backend& backend, int level, int threads,
                            const std::stop_token& stop, Compute compute = Compute::kF32);

/// NextTokenOf a graph that is causal: `source`, which runs it, is asked twice for the first
/// sample, once with another last token. nullopt also for random samples, and where one sequence is
/// too short to tell.
Result<std::optional<NextToken>> CausalTask(const Graph& g, const OutputSource& source,
                                            const Samples& samples);

/// The first `count` outputs of the last run, as copies that the next one does not write over.
std::vector<Datum> TakeOutputs(const RunContext& context, size_t count);
/// Asks `source` once for each of the samples, and keeps what it says: memory for all of it.
Result<OutputSource> Kept(const OutputSource& source, const Samples& samples);

/// Values of both graphs, made by nodes, f32 or of equal other type, by golden's order.
std::vector<std::string> SharedValues(const Graph& golden, const Graph& candidate);

/// Runs `samples` through both. InvalidArgument: no samples, or interfaces that differ (inputs by
/// name and type, outputs by name). The candidate's layers are tapped in a program of its own, so
/// the outputs come from an undisturbed one, and only where its program has them in memory anyhow;
/// TapCheck tells whether both computed the same. Finds the perplexity of causal language models.
Result<AccuracyReport> Compare(const Graph& golden, const Backend& golden_backend,
                               const Graph& candidate, const Backend& candidate_backend,
                               const Samples& samples, const CompareOptions& options = {});

/// The same against outputs that are stored, or come from elsewhere.
Result<AccuracyReport> CompareWithStored(const OutputSource& golden, const Graph& candidate,
                                         const Backend& candidate_backend, const Samples& samples,
                                         const CompareOptions& options = {});

/// Any two sources; `interface` tells names and types of the outputs. InvalidArgument: no samples.
/// Unsupported: no output that both give.
Result<AccuracyReport> CompareSources(const OutputSource& golden, const OutputSource& candidate,
                                      const Graph& interface, const Samples& samples,
                                      const CompareOptions& options = {});

/// Adds accumulated errors of inner values to `report`, as Compare does with per_layer.
Status AddLayers(const Graph& golden, const Backend& golden_backend, const Graph& candidate,
                 const Backend& candidate_backend, const Samples& samples,
                 const CompareOptions& options, AccuracyReport& report);

/// Adds golden[i] and candidate[i] to comparers[i], as AddDatum (datum_error.h), where both are
/// there.
Status AddOutputs(const std::vector<Datum>& golden, const std::vector<Datum>& candidate,
                  std::vector<TensorComparer>& comparers);

/// Golden's and the candidate's scores of one row, and its label.
using LabelledRow = std::function<void(std::span<const float> golden,
                                       std::span<const float> candidate, int64_t label)>;
/// Calls `f` for every row of scores. InvalidModel: no floats, or labels that do not fit the rows.
Status ForLabelledRows(const Tensor& golden, const Tensor& candidate,
                       const std::vector<int64_t>& labels, const LabelledRow& f);

}  // namespace infer
