#pragma once
/// Codes of static INT8 weights chosen by what the layer's inputs are, in place of rounding to
/// nearest, by the rounders of code_rounder.h. The moments are those of the inputs as the
/// quantized model has them; convolutions are products of windows (im2col), grouped ones a product
/// per group. Scales stay as they are.
///
/// Cost: one run of the quantized model over the samples per `max_bytes` of moments, and per layer
/// a factorisation of [depth, depth] and some products with it.
#include <map>

#include "quant/algorithm/channel_stats.h"
#include "quant/algorithm/code_rounder.h"
#include "quant/scheme/quantize.h"

namespace infer {

struct StaticRoundingOptions {
  std::vector<const CodeRounder*> rounders = {&CodeRounders().front()};
  int64_t samples = 128;
  int64_t conv_windows = 64;  ///< of each image
  int64_t max_depth = 2304;   ///< deeper layers, whose factorisation is slow, keep their codes
  int64_t max_bytes = int64_t{256} << 20;
  /// Of each rounder that counts them, over all layers; later layers go without it.
  double max_operations = 2e12;
  std::function<bool()> out_of_time = nullptr;
};

struct StaticRoundingResult {
  std::map<std::string_view, int> by;  ///< layers that have codes of the rounder (its name) now
  int layers = 0;                      ///< that were tried
  /// Sums over them of the outputs' relative squared error, on rows that no rounder saw.
  double nearest_noise = 0, noise = 0;
};

/// Fills model.scheme.rounded. Each layer takes the codes that err least on the held-out quarter of
/// the data; it stays with the nearest ones where nothing errs less, and where there are fewer rows
/// of data than inputs. Equal weights of several layers stay.
Result<StaticRoundingResult> RoundStaticWeights(StaticModel& model, const Graph& original,
                                                const Samples& samples, const ChannelRun& run,
                                                const StaticRoundingOptions& options = {});

}  // namespace infer
