#pragma once
/// Quantization-aware fine-tuning: trains the codes and scales of a quantized graph against the
/// golden model (Jacob and others, arXiv:1712.05877, section 3; scales by Esser and others,
/// arXiv:1902.08153).
#include "quant/scheme/report.h"
#include "quant/train/codes.h"

namespace infer {

struct CodesReport {
  FineTuneReport training;
  int64_t codes = 0;    ///< of weights that were trained
  int64_t changed = 0;  ///< of them that differ from those before
  int64_t scales = 0;   ///< numbers
};

/// Trains weights, scales, biases and what else layers learn of `quantized`, which RewriteStatic
/// made of `prepared`; `grid`: of its weights. The held-out loss that decides is that of the graph
/// with codes, so the result is never worse there than it came. Extents, types and zero points
/// stay, and so do weights that are 0. `report.values` get their scales and ranges. `options`:
/// constants, keep_zeros and as_written are set here.
///
/// As FineTune, whose errors it has and those of LatentCodes::Of.
Result<CodesReport> FineTuneCodes(Graph& quantized, QuantizeReport& report, const Graph& prepared,
                                  const QuantGrid& grid, const Graph& golden,
                                  const Samples& samples, const Backend& backend,
                                  const FineTuneOptions& options);

}  // namespace infer
