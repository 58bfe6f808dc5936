#pragma once
/// `--fine-tune-steps` of infer-opt prune and infer-opt quantize: options, request and report.
#include "quant/train/fine_tune.h"
#include "tools/common/data_roles.h"

namespace infer {

struct FineTuneFlags {
  int64_t steps = 0;
  double rate = 1e-3, labels = 0.1, activations = 0, temperature = 2;
  int64_t batch = 32;
  std::string copies = "both", checkpoint;
  double checkpoint_seconds = 2;

  /// `what` is trained, in the help.
  void Declare(Options& o, const std::string& what);
  bool wanted() const { return steps > 0; }
  /// InvalidArgument: what does not go together.
  Status Check() const;
  /// Before any other work, where training is wanted. InvalidArgument: no calibration data; errors
  /// as CheckFineTune.
  Status CheckData(const Graph& golden, const Samples& calibration, std::stop_token stop) const;
  /// What they ask for. `context` lives as long as the training: it takes notes and progress.
  FineTuneOptions Request(Context& context, uint64_t seed, int threads) const;
  /// The samples that something may be fitted to before the training: without those that it holds
  /// out.
  Samples ToFit(const Samples& calibration) const;
};

/// Warns, prints a line, and returns the report's `fine_tuning`.
Json TellFineTuning(Context& context, const FineTuneReport& done, const FineTuneOptions& options);

}  // namespace infer
