#pragma once
/// `--fine-tune-steps` of infer-opt prune: its options, the run, and its part of the report.
#include "quant/train/fine_tune.h"
#include "tools/common/data_roles.h"

namespace infer {

struct FineTuneFlags {
  int64_t steps = 0;
  double rate = 1e-3, labels = 0.1, activations = 0, temperature = 2;
  int64_t batch = 32;
  std::string copies = "both", checkpoint;

  void Declare(Options& o);
  bool wanted() const { return steps > 0; }
  /// InvalidArgument: what does not go together.
  Status Check() const;
  /// Trains `model` against `golden` on the calibration data where it is wanted; says so, and adds
  /// report["fine_tuning"]. `keep_zeros`: weights that are 0 stay 0.
  Status Run(Context& context, Graph& model, const Graph& golden, const DataRoles& data,
             const Backend& backend, int threads, bool keep_zeros, Json& report) const;
};

}  // namespace infer
