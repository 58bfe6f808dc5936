#pragma once
/// Golden against candidate, streamed: outputs, inner values by name, and the task metric where
/// there are labels.
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "quant/accuracy/metrics.h"
#include "quant/accuracy/paired.h"
#include "quant/calibrate/samples.h"
#include "runtime/api/program.h"

namespace infer {

struct ValueAccuracy {
  std::string name;  ///< golden's name of the value
  std::string op;    ///< operator that makes it in the golden graph; "" for an output read as is
  bool is_float = true;
  double least = 0;  ///< f16: its smallest positive number, the least error that there is; else 0
  TensorMetrics metrics;
  std::optional<RowMetrics> rows;
};

struct AccuracyReport {
  int64_t samples = 0;
  std::vector<ValueAccuracy> outputs;  ///< in graph order
  std::vector<ValueAccuracy> layers;   ///< in golden's topological order; empty unless asked for
  int64_t layer_samples = 0;
  std::optional<PairedAccuracy> task;  ///< with labels, by output 0
  std::vector<std::string> warnings;
};

struct CompareOptions {
  bool per_layer = false;
  int64_t layer_samples = 16;  ///< inner values are compared on the first so many runs
  int golden_level = 0;        ///< the golden model runs as written
  int candidate_level = 2;
  int threads = 0;
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// Values of both graphs, made by nodes, f32 or of equal other type, by golden's order.
std::vector<std::string> SharedValues(const Graph& golden, const Graph& candidate);

/// Runs `samples` through both. InvalidArgument: no samples, or interfaces that differ (inputs by
/// name and type, outputs by name). The candidate's layers are tapped in a program of its own, so
/// the outputs come from an undisturbed one.
Result<AccuracyReport> Compare(const Graph& golden, const Backend& golden_backend,
                               const Graph& candidate, const Backend& candidate_backend,
                               const Samples& samples, const CompareOptions& options = {});

/// The same against stored golden outputs: golden(i) are the outputs of run i in graph order.
Result<AccuracyReport> CompareWithStored(
    const std::function<Result<std::vector<Datum>>(int64_t)>& golden, const Graph& candidate,
    const Backend& candidate_backend, const Samples& samples, const CompareOptions& options = {});

/// Adds golden[i] and candidate[i] (tensors, and the tensors inside sequences) to comparers[i].
Status AddOutputs(const std::vector<Datum>& golden, const std::vector<Datum>& candidate,
                  std::vector<TensorComparer>& comparers);

}  // namespace infer
