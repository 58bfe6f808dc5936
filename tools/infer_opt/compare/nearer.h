#pragma once
/// Which of two runtimes that disagree is nearer to the reference kernels.
#include <optional>

#include "quant/accuracy/compare.h"

namespace infer {

/// max|d| / max|reference| of the worst float output.
struct FromReference {
  double ours = 0, theirs = 0;
};

/// On the first of `samples`. nullopt: the model is too large for the reference kernels, which take
/// a second for a GFLOP or so, or has no float output.
Result<std::optional<FromReference>> CompareWithReference(const Graph& g, const OutputSource& ours,
                                                          const OutputSource& theirs,
                                                          const Samples& samples,
                                                          const std::stop_token& stop);

}  // namespace infer
