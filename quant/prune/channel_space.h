#pragma once
/// What of a model can be narrowed at all: its groups, how far each may go, and what that saves.
#include "quant/prune/group_costs.h"

namespace infer {

struct ChannelSpace {
  /// Errors as PruneChannels, but for those of the goal's value.
  static Result<ChannelSpace> Make(const Graph& original, const Samples& samples,
                                   const Backend& backend, const ChannelOptions& options);

  Graph work;              ///< prepared, dense
  Graph counted;           ///< the same, of static extents where samples or the options tell them
  int64_t flops = -1;      ///< of one run of the model; -1: open extents
  ConstantSize constants;  ///< of the model
  bool by_bytes = false;   ///< the goal is of bytes, else of FLOPs
  std::vector<PrunableWeights> layers;       ///< of `work`
  std::vector<PrunedGroup> groups;           ///< all, those that stay with the reason
  std::vector<size_t> usable;                ///< those that can be narrowed
  std::vector<std::vector<int64_t>> levels;  ///< by usable group: units that may go, ascending
  /// By usable group and level: whether its layers take less time than at every wider level, by the
  /// cost table; all where the goal is no time or extents are open.
  std::vector<std::vector<bool>> saves_time;
  bool AllSaveTime() const;
  std::vector<WorkItem> items;  ///< groups by their position in `usable`

 private:
  explicit ChannelSpace(const Graph& original) : work(original.Clone()), counted(original.ops()) {}
  Status Count(const Samples& samples, const ChannelOptions& options);
  /// Layers that may be fitted get their biases before anything is counted.
  Status GiveBiases(const Graph& original, const ChannelOptions& options);
  Status FindUsable(const Graph& original, const ChannelOptions& options);
  Status TimeLevels(const Backend& backend, const ChannelOptions& options);
};

}  // namespace infer
