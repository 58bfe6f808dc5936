#pragma once
/// Two forms of a quantized model, from quantizer to quantizer.
///
/// Other arithmetic in f32 rounds otherwise. Where a number lies next to the border between two
/// codes, its code becomes the neighbour, and all that follows differs by far more than rounding:
/// outputs alone cannot tell that from an error. So the candidate runs from golden's codes:
/// wherever golden quantizes a value that the candidate has, too, its readers there get golden's
/// codes, and what the candidate makes of the value is compared with them.
#include <stop_token>
#include <string>
#include <vector>

#include "quant/accuracy/compare.h"

namespace infer {

struct CodeCheck {
  int64_t values = 0;  ///< of codes, that both graphs have; 0: nothing was checked
  int64_t codes = 0;   ///< their elements, over all samples
  int64_t moved = 0;   ///< of those, how many differ
  /// The largest change of a number before its quantizer that explains a code which differs, over
  /// the largest such number of the tensor: 0 where none differs, infinity where no change would
  /// (codes that are not made of real numbers).
  double shift = 0;
  std::string worst;       ///< where that was
  AccuracyReport outputs;  ///< the candidate's from golden's codes; those that are codes left out
};

struct CodeCheckOptions {
  int golden_level = 0, candidate_level = 0;
  int threads = 0;
  std::stop_token stop = {};
};

/// Values of codes by which the graphs can be cut: golden quantizes them (by scales and zero points
/// that do not run in blocks) or computes them on codes, and the candidate makes them, too.
std::vector<std::string> SharedCodes(const Graph& golden, const Graph& candidate);

/// Each of `samples` runs through both. Without shared codes nothing runs.
Result<CodeCheck> CheckCodes(const Graph& golden, const Graph& candidate, const Backend& backend,
                             const Samples& samples, const CodeCheckOptions& options = {});

}  // namespace infer
