#pragma once
/// Bias correction: rounding weights shifts the mean of a layer's result; the bias takes it back.
/// Source: Nagel et al. 2019 (arXiv 1906.04721) section 4.2; the sequential form is section 4.2.1's
/// empirical one, in topological order from quantized inputs.
#include "quant/algorithm/channel_stats.h"
#include "quant/algorithm/layers.h"
#include "quant/scheme/quantize.h"

namespace infer {

/// One pass over `samples` in f32: the shift of a layer is what the rounding of its weights does to
/// the mean of its inputs. Borders of padded convolutions count as inner places. Returns how many
/// layers changed.
Result<int> CorrectBiasFast(StaticModel& model, const Graph& original, const Samples& samples,
                            const ChannelRun& run);

struct SequentialOptions {
  int max_rounds = 24;  ///< layers are corrected in so many groups at most, first to last
  std::function<bool()> out_of_time = nullptr;  ///< asked before each round
};
/// Layer by layer: the quantized model so far runs over `samples`, and the difference of the means
/// of each layer's result to the f32 model's goes to its bias. Sees everything: rounded inputs,
/// saturation, the layers before.
Result<int> CorrectBiasSequential(StaticModel& model, const Graph& original, const Samples& samples,
                                  const ChannelRun& run, const SequentialOptions& options = {});

}  // namespace infer
