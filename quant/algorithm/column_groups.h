#pragma once
/// Per-embedding-group quantization: the columns of an activation are sorted by range and split
/// into groups, each with a scale of its own, so that a few outlier columns do not coarsen all
/// others. Every product that reads the activation becomes one integer product per group, over the
/// rows of its weights that belong to the group; their f32 results are added, the bias in the
/// first. Source: Bondarenko et al. 2021 (arXiv 2109.12948), section 4; there the groups are of
/// equal size, here they are those of least error.
///
/// Law: the f32 graph computes the same up to the order of its sums.
#include "quant/algorithm/channel_stats.h"
#include "quant/scheme/quantize.h"

namespace infer {

struct ColumnGroupOptions {
  int groups = 2;  ///< at most; fewer where another one gains too little
  /// Another group must lower the expected squared error of the products, as far as the rounding of
  /// the activation causes it, to at most this share.
  double most_error = 0.5;
};

struct ColumnGroupResult {
  int values = 0;    ///< that are split
  int products = 0;  ///< in place of those that read them: their number before and after
  int parts = 0;
};

/// Columns of `lo` and `hi` (their ranges, which include 0) with weights `energy`, the squares that
/// they are multiplied with, in at most `options.groups` groups: by column the number of its group,
/// 0 for the narrowest. Minimises the sum of squared group ranges, each times the energy of its
/// group, over all cuts of the columns sorted by range.
std::vector<int> GroupColumns(std::span<const double> lo, std::span<const double> hi,
                              std::span<const double> energy, const ColumnGroupOptions& options);

/// Changes `model.graph`, and `model.scheme` so that the columns are taken in f32; its ranges are
/// those of the graph before. Values: those that MatMul or Gemm with constant weights read as
/// integers, and no integer kernel makes.
Result<ColumnGroupResult> SplitColumnGroups(StaticModel& model, const Graph& original,
                                            const Samples& samples, const ChannelRun& run,
                                            const ColumnGroupOptions& options);

}  // namespace infer
