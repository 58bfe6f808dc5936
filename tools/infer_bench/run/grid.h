#pragma once
/// The grid of `infer-bench run`: models x precisions x batches x extents x threads, each cell
/// measured by itself and named the same in every report.
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/session.h"

namespace infer::bench {

struct GridOptions {
  std::vector<std::string> batch, threads, seq, precision;
  void Declare(Options& options);
};

struct Cell {
  std::string path;
  std::string precision;
  int64_t batch = 0;                                 ///< 0: as the model and --set have it
  std::vector<std::pair<std::string, int64_t>> seq;  ///< extents of symbolic dimensions
  int threads = 1;
  /// "m.onnx/precision:fp16/batch:8/length:64/threads:2": stable from run to run, so that series
  /// can be followed. What was not asked for is left out, but for the threads.
  std::string Name() const;
  /// `base` with this cell's choices.
  SessionOptions Session(SessionOptions base) const;
};

/// In the order in which they are measured: models outermost, threads innermost. InvalidArgument: a
/// value that is no number, or a --seq without a name.
Result<std::vector<Cell>> Grid(const std::vector<std::string>& paths, const GridOptions& options);

}  // namespace infer::bench
