#pragma once
/// Options of recommendations by predicted times.
#include "tools/infer_bench/load/served_model.h"

namespace infer::bench {

/// The settings that recommendations are predicted for.
struct PredictOptions {
  std::string machine;                            ///< "": nothing is predicted
  std::vector<std::string> precisions, variants;  ///< beside the model's own
  void Declare(Options& options);
  /// InvalidArgument, Unsupported: settings that contradict each other.
  Status Check(const ServeOptions& serve, const std::string& device) const;
};

}  // namespace infer::bench
