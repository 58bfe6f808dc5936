#pragma once
/// SmoothQuant: channels of a normalization's result that are much larger than the others are made
/// smaller there and larger in the weights that read them, so that one scale per tensor serves all.
/// Source: Xiao et al. 2022 (arXiv 2211.10438); the exponent is searched per normalization by the
/// error of the products that read it, on rows of the samples.
///
/// Law: the f32 graph computes the same up to the rounding of f32.
#include "quant/algorithm/channel_stats.h"
#include "quant/scheme/quantize.h"

namespace infer {

struct SmoothOptions {
  std::vector<double> exponents = {0.25, 0.4, 0.5, 0.6, 0.75, 0.9};
  int64_t rows = 256;        ///< of the activation, over all samples
  int64_t samples = 16;      ///< they come from so many
  double least_gain = 0.05;  ///< of the products' squared error; a smaller gain leaves the layer
};

/// Changes `model.graph` only: its ranges are those of the graph before. Normalizations:
/// LayerNormalization, RMSNormalization, and x * constant + constant, all of whose readers are
/// MatMul or Gemm that become integer. Returns how many changed.
Result<int> SmoothLayers(StaticModel& model, const Graph& original, const Samples& samples,
                         const ChannelRun& run, const SmoothOptions& options = {});

}  // namespace infer
