#pragma once
/// Removes channels of a model for good, without training: the result is a plain smaller model.
///
/// Groups of channels that depend on each other (groups.h) give up units. Which ones: those that
/// cost the layers that read them least (unit_sweep.h). How many of each group: by the noise that
/// its removal alone causes at the outputs, measured, for the work that it saves (widths.h). Layers
/// are then fitted, first to last, to what they make in the dense model (in_order.h), and the graph
/// is shrunk (shrink.h).
#include "quant/prune/groups.h"
#include "quant/prune/in_order.h"
#include "quant/prune/unit_sweep.h"
#include "quant/recipe/cost_table.h"

namespace infer {

struct ChannelGoal {
  enum class Kind : uint8_t {
    kFlops,    ///< `value`: the share of the FLOPs that stays at most
    kBytes,    ///< `value`: bytes of constants that stay at most
    kSpeedup,  ///< `value`: how many times as fast the result has to run
    kDrop      ///< `value`: the accuracy that may be lost, as a share; as few FLOPs as it allows
  };
  Kind kind = Kind::kFlops;
  double value = 0.7;
};

struct ChannelOptions {
  ChannelGoal goal;
  PruneScope scope;
  /// Of inputs by name, where the graph leaves them open and there are no samples to tell.
  std::map<std::string, Dims> extents;
  /// Of widths that stay, where a group has twice as many: whole vectors of AVX-512, without which
  /// Winograd kernels refuse.
  int64_t multiple = 16;
  /// Of kSpeedup: tells widths that save no time, which are avoided where that costs less.
  const CostTable* costs = &CostTable::BuiltIn();
  /// Of kSpeedup: time of the first graph over that of the second.
  std::function<Result<double>(const Graph& dense, const Graph& pruned)> speedup = nullptr;
  RecordStore* store = nullptr;            ///< as PruneOptions::store
  int64_t max_bytes = int64_t{256} << 20;  ///< of moments held at once
  int threads = 0;
  std::function<void(const std::string& step, int64_t done, int64_t total)> progress = nullptr;
  std::stop_token stop = {};
};

struct PrunedGroup {
  ChannelGroup group;
  int64_t units = 0;    ///< that it had; 0: `group.reason` says why none can go
  int64_t removed = 0;  ///< units
  int64_t width_after = 0;
  int64_t parameters = 0, parameters_after = 0;  ///< of the weights that make and read it
  /// Sum over the readers of their squared error relative to their outputs, by the moments of the
  /// dense model (without data: the share of the weights' energy); -1: nothing was removed.
  double error = -1;
  double cost = -1;  ///< noise at the model's outputs when it alone is cut so; -1: not measured
};

struct FittedLayer {
  std::string name, op, method, note;
  double error = -1, dense_error = -1;  ///< as PrunedLayer
};

struct ChannelReport {
  std::vector<PrunedGroup> groups;  ///< those that cannot be narrowed as well
  std::vector<FittedLayer> layers;
  bool by_data = false;
  int64_t calibration_samples = 0;
  int64_t flops = -1, flops_after = -1;          ///< of one run; -1: open extents
  int64_t parameters = 0, parameters_after = 0;  ///< elements of floating-point constants
  int64_t constant_bytes = 0, constant_bytes_after = 0;
  double drop = -1;     ///< kDrop: that was expected on samples that no layer was fitted to
  double speedup = -1;  ///< kSpeedup: that was measured
  /// BatchNormalizations of the graph whose statistics are those of the pruned model
  /// (statistics.h); 0: the old ones err less at the outputs, on samples that judge.
  int64_t statistics = 0;
};

/// Rewrites `g`, which is prepared as for quantization first. On failure it is unchanged.
/// InvalidArgument: a goal out of range or without what it needs, a pattern that matches nothing, a
/// quantized model, open extents in a FLOP goal without samples. Unsupported: no group can be
/// narrowed, or the goal is out of reach; the message says why.
Result<ChannelReport> PruneChannels(Graph& g, const Samples& samples, const Backend& backend,
                                    const ChannelOptions& options);

}  // namespace infer
