#pragma once
/// One cell of the grid: cold starts, load, compile, first run, steady runs, memory, profile.
#include <optional>

#include "tools/bench/sampling.h"
#include "tools/common/profile.h"
#include "tools/infer_bench/run/grid.h"

namespace infer::bench {

struct CellOptions {
  SessionOptions session;
  SamplingOptions sampling;
  int cold = 3;          ///< cold starts
  bool profile = false;  ///< the time of each step, too
};

struct CellResult {
  Json entry;  ///< of "results" in docs/schemas/infer-bench-run.schema.json
  std::optional<ModelProfile> profile;
};

/// An interrupted measurement gives what there is, marked.
Result<CellResult> MeasureCell(Context& context, const Cell& cell, const CellOptions& options);

}  // namespace infer::bench
