#pragma once
/// Which rewrite breaks a model: bisection over how many rewrites are applied.
#include <functional>
#include <optional>

#include "lib/support/status.h"

namespace infer {

struct BisectStep {
  int64_t rewrites = 0;
  bool good = false;
  double error = 0;  ///< worst of the outputs
};
struct Bisection {
  BisectStep before, after;  ///< `after` has one rewrite more, the first that is bad
  int tried = 0;             ///< how many were judged
};

/// Judges the model after the first `n` rewrites.
using JudgeRewrites = std::function<Result<BisectStep>(int64_t n)>;

/// The first rewrite after which the model is bad, of `total`; nullopt where all together are good.
/// About log2(total) judgements. InvalidArgument where the model is bad
/// without any rewrite. Where goodness comes and goes, some rewrite that makes it bad.
Result<std::optional<Bisection>> FindFirstBad(int64_t total, const JudgeRewrites& judge);

}  // namespace infer
