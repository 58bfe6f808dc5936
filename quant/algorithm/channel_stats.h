#pragma once
/// Statistics of values per channel over data: what equalization and bias correction need. Constant
/// memory in the number of samples.
#include "quant/calibrate/calibrate.h"

namespace infer {

struct ChannelStats {
  std::vector<double> lo, hi, mean;  ///< by channel; non-finite elements left out
  std::vector<int64_t> count;
  double magnitude(size_t c) const { return std::max(-lo[c], hi[c]); }
};
struct ChannelRequest {
  std::string value;
  int axis = 1;  ///< negative: from the end
};
struct ChannelRun {
  const Backend* backend = nullptr;
  int threads = 0;
  int level = 0;
  std::stop_token stop = {};
};

/// By value name. Values whose rank has no such axis, or whose channels change from run to run, are
/// left out. InvalidArgument: a name that the graph does not compute.
Result<std::map<std::string, ChannelStats>> ObserveChannels(
    const Graph& graph, const std::vector<ChannelRequest>& requests, const Samples& samples,
    const ChannelRun& run);

}  // namespace infer
