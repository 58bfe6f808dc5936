#pragma once
/// Splits products with constant weights in two of low rank for good, without training: the result
/// is a plain ONNX model with fewer weights.
///
/// A layer has levels: ranks at which two products take fewer bytes than one and, by the cost
/// table, less time (rank_space.h). What a level costs at the model's outputs is measured with one
/// layer split alone (rank_costs.h); the solver of the mixed search (quant/search/solver.h) chooses
/// a level for each layer. Layers are then fitted, first to last, to what they make in the dense
/// model (in_order.h), and the graph is rewritten (split_layer.h).
#include "quant/prune/in_order.h"
#include "quant/recipe/cost_table.h"
#include "quant/search/store.h"

namespace infer {

struct LowRankGoal {
  enum class Kind : uint8_t {
    kRank,     ///< `value`: the share of its full rank that each layer keeps
    kBytes,    ///< `value`: bytes of constants that stay at most
    kSpeedup,  ///< `value`: how many times as fast the result has to run
    kDrop      ///< `value`: the accuracy that may be lost, as a share; as fast as it allows
  };
  Kind kind = Kind::kRank;
  double value = 0.25;
};

struct LowRankOptions {
  LowRankGoal goal;
  PruneScope scope;
  /// Of ranks, where a layer has a full rank of twice as many: what kernels like.
  int64_t multiple = 16;
  /// Two products count as faster where the table tells at most this share of one's time: what it
  /// errs by.
  double sure = 0.9;
  const CostTable* costs = &CostTable::BuiltIn();
  /// Of kSpeedup: time of the first graph over that of the second.
  std::function<Result<double>(const Graph& dense, const Graph& split)> speedup = nullptr;
  MeasurementStore* store = nullptr;       ///< what was measured before; nullptr: nothing
  int64_t max_bytes = int64_t{256} << 20;  ///< of moments held at once
  /// Seconds of work by the cost table, not of a clock: layers that are not measured by then stay
  /// whole. Those that can save most are measured first.
  double max_seconds = 600;
  int threads = 0;
  std::function<void(const std::string& step, int64_t done, int64_t total)> progress = nullptr;
  std::stop_token stop = {};
};

struct SplitProduct {
  std::string name, op, weights;
  int64_t rows = 0, depth = 0;  ///< of the matrix: numbers that it makes, numbers that it reads
  int64_t readers = 1;          ///< layers that share the weights
  int64_t rank = 0;             ///< 0: one product, as before; `reason` says why
  std::string reason;
  double us = -1, us_after = -1;  ///< by the cost table, of all readers; -1: not known
  std::string method;             ///< as FactoredLayer, of split layers
  /// Of its outputs relative to the dense model's, root of the squares, on held-out rows: as it is,
  /// by the plain decomposition at the same rank, and of the dense weights.
  double error = -1, plain_error = -1, dense_error = -1;
  double cost = -1;  ///< noise at the model's outputs when it alone is split so; -1: not measured
  int64_t parameters() const { return rows * depth; }
  int64_t parameters_after() const { return rank > 0 ? rank * (rows + depth) : parameters(); }
  int64_t full_rank() const { return rows < depth ? rows : depth; }
};

struct LowRankReport {
  std::vector<SplitProduct> layers;  ///< every constant that layers multiply by, in order
  int64_t calibration_samples = 0;
  int64_t fitted = 0;                            ///< other layers that were fitted anew
  int64_t flops = -1, flops_after = -1;          ///< of one run; -1: open extents
  int64_t parameters = 0, parameters_after = 0;  ///< elements of floating-point constants
  int64_t constant_bytes = 0, constant_bytes_after = 0;
  double us = 0, us_after = 0;  ///< of a run of all layers with levels, by the cost table
  double drop = -1;             ///< kDrop: that was expected on samples that no layer was fitted to
  double speedup = -1;          ///< kSpeedup: that was measured
  int64_t measured = 0, reused = 0;  ///< in this run; found in the store
};

/// Rewrites `g`, which is prepared as for quantization first. On failure it is unchanged. The same
/// bytes for any number of threads, but for kSpeedup. InvalidArgument: a goal out of range or
/// without what it needs, no samples, a pattern that matches nothing, a quantized model.
/// Unsupported: no layer is smaller and faster as two products, or the goal is out of reach; the
/// message says why.
Result<LowRankReport> SplitProducts(Graph& g, const Samples& samples, const Backend& backend,
                                    const LowRankOptions& options);

}  // namespace infer
