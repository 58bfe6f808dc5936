#pragma once
/// --data, --labels, --preprocess: a data set as the samples of a graph.
#include <memory>

#include "datasets/dataset.h"
#include "lib/ir/graph.h"
#include "quant/calibrate/samples.h"
#include "tools/common/options.h"

namespace infer {

struct DataFlags {
  std::string data, labels, preprocess, raw_type;
  int64_t max_samples = 0;  ///< 0: all
  /// `role` is "" for --data, or "calib" / "eval" for --calib and --calib-labels.
  void Declare(Options& options, const std::string& role, const std::string& what);
  bool given() const { return !data.empty(); }
};

/// Image files become RGB, or grey where the model has one channel, unless --preprocess says more.
/// One sample (batch extent 1) per run, cast and reshaped only as far as the graph's input types
/// say without doubt. Where the model fixes a larger batch a run takes so many samples, in their
/// order; those that fill no batch are left out. InvalidArgument names an input that the data do
/// not have, or a batch that they do not fill.
Result<Samples> MakeSamples(const std::shared_ptr<const Dataset>& data, const Graph& g,
                            const std::vector<int64_t>& which);
Result<std::shared_ptr<const Dataset>> OpenData(const DataFlags& flags);
/// 0 ... n-1, at most `max_samples` (0: all).
std::vector<int64_t> FirstSamples(const Dataset& data, int64_t max_samples);

}  // namespace infer
