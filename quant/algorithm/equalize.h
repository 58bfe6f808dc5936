#pragma once
/// Cross-layer equalization: channels of an activation between two layers are scaled to similar
/// ranges, so that one scale per tensor serves all of them; the factors go into the weights on both
/// sides. Source: Nagel et al. 2019 (arXiv 1906.04721) section 4.1 and 4.1.3 (high bias
/// absorption); the choice of factors by activation and weight range is that of SmoothQuant (arXiv
/// 2211.10438).
///
/// Laws: the f32 graph computes the same up to the rounding of f32. Between the layers stand only
/// operators with f(s x) = s f(x) for s > 0, channel by channel: Relu, LeakyRelu, PRelu, MaxPool,
/// AveragePool, GlobalAveragePool. A Clip with an upper bound (ReLU6) has no such law: there only
/// channels that stayed a quarter below the bound on all samples are scaled, and no further than to
/// a fifth below it, so that nothing is cut that was not.
#include "quant/algorithm/channel_stats.h"
#include "quant/scheme/quantize.h"

namespace infer {

struct EqualizeOptions {
  /// s = range(activation)^a / range(weights that read it)^(1-a); depthwise readers, which have a
  /// scale per channel, take a = 1.
  double activation_share = 0.5;
  bool depthwise_only = false;  ///< only pairs whose second layer is depthwise
  double max_factor = 256;      ///< factors relative to the geometric mean of their pair
  bool absorb_high_bias = true;
};

/// Changes `model.graph` only: its ranges are those of the graph before. Returns how many pairs.
Result<int> EqualizeLayers(StaticModel& model, const Graph& original, const Samples& samples,
                           const ChannelRun& run, const EqualizeOptions& options = {});

}  // namespace infer
