#pragma once
/// Sets weights of a model to zero: unstructured, N:M or in blocks, without training.
///
/// Layers are pruned from first to last. Each is fitted to what it makes of its inputs in the dense
/// model, while it reads what the pruned layers before it make (moments.h), and takes of several
/// methods the one that errs least on held-out rows (choose.h). How much each layer gives up is
/// chosen by what its pruning alone costs at the model's outputs, measured.
#include "quant/prune/choose.h"
#include "quant/search/record_store.h"

namespace infer {

enum class PruneAllocation : uint8_t {
  kMeasured,  ///< by each layer's measured cost at the outputs; needs data
  kUniform,   ///< the same share of every layer
  kGlobal,    ///< the least |w| over all layers
  kLamp,      ///< the least w^2 over the sum of the layer's w^2 that are no less (arXiv 2010.07611)
};
/// "measured", "uniform", "global", "lamp"; nullopt for others.
std::optional<PruneAllocation> PruneAllocationNamed(std::string_view name);
std::string_view Name(PruneAllocation a);

struct PruneOptions {
  SparsityPattern pattern;
  PruneMethod method = PruneMethod::kAuto;
  std::optional<PruneAllocation> allocation;  ///< unset: measured with data, lamp without
  /// N:M with data: layers that hold at most this share of the weights together may stay dense,
  /// those whose pruning costs most.
  double spare_share = 0.02;
  PruneScope scope;
  /// Weights that are rounded on the way, with how; nullptr: none.
  const WeightGrids* grids = nullptr;
  /// Keeps what each layer costs and became, of one model, data and options: a run that was killed
  /// goes on from it with the same bits. nullptr: nothing is kept.
  RecordStore* store = nullptr;
  int64_t max_bytes = int64_t{256} << 20;  ///< of moments held at once
  int threads = 0;
  std::function<void(const std::string& step, int64_t done, int64_t total)> progress = nullptr;
  std::stop_token stop = {};
};

struct PrunedLayer {
  std::string name, op;
  std::string weights;  ///< the constant
  WeightPlane plane;
  int64_t count = 0;  ///< weights
  int64_t zeros_before = 0, zeros = 0;
  int64_t units = 0, zero_units = 0;  ///< of the pattern; those that the mask makes zero
  bool pruned = false;                ///< selected, whether or not it gave up something
  std::string reason;                 ///< why not, or why it stayed dense
  std::string method, note;           ///< as LayerResult
  double error = -1, magnitude_error = -1, dense_error = -1;
  /// Noise of the model's outputs (HeldOutError) when this layer alone is pruned to the share asked
  /// for; -1: not measured.
  double cost = -1;
};

struct PruneReport {
  std::vector<PrunedLayer> layers;  ///< every constant that layers multiply by, in order
  std::string allocation;
  int64_t calibration_samples = 0;
  /// Weights, units and zeros of the selected layers: what the sparsity is a share of. Weights that
  /// several layers share count once.
  int64_t weights = 0, zeros = 0, units = 0, zero_units = 0;
  std::vector<std::string> warnings;
  /// Codes of the constants that the weights alone do not tell (WeightGrid::from_largest).
  std::map<std::string, BlockQuantized> codes;
};

/// Rewrites `g`, which is prepared as for quantization first (BatchNormalization in weights). On
/// failure it is unchanged. InvalidArgument: a share of 0 or 1, a method or allocation that needs
/// data without samples, a pattern of --include or --exclude that matches nothing, a quantized
/// model. Unsupported: no layer has weights that fit the pattern; the message says why.
Result<PruneReport> PruneModel(Graph& g, const Samples& samples, const Backend& backend,
                               const PruneOptions& options);

/// The same for a graph that is prepared already, in place; `original` is the graph before that. On
/// failure some layers may be pruned.
Result<PruneReport> PrunePrepared(Graph& prepared, const Graph& original, const Samples& samples,
                                  const Backend& backend, const PruneOptions& options);

}  // namespace infer
