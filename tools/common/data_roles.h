#pragma once
/// --data, --calib and --eval: which samples a command may fit to, and which judge the result.
/// Shared by quantize and prune.
#include "tools/common/data_options.h"
#include "tools/common/report.h"

namespace infer {

struct DataRoles {
  DataFlags data, calib, eval;
  int64_t calib_count = 0;
  uint64_t seed = 0;
  Samples calibration, evaluation;  ///< disjoint; count 0: none

  void Declare(Options& o);
  /// Fills both roles for the inputs of `g`: --calib and --eval, or --data split by seed.
  /// report["data"] says which samples were what. `needed`: calibration data must be there;
  /// `unjudged`: evaluation data need not be. InvalidArgument: what does not go together, or
  /// samples that are in both roles.
  Status Split(const Graph& g, bool needed, bool unjudged, Json& report);

 private:
  Status SplitOne(const Graph& g, Json& report);
  Status EvaluationAlone(const Graph& g, Json& report);
  void ShareHowToRead();
};

}  // namespace infer
