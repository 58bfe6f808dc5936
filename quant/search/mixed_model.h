#pragma once
/// A model that is prepared and calibrated once, from which a graph of any policy is made without
/// running anything.
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quant/algorithm/weight_grid.h"
#include "quant/scheme/quantize.h"
#include "quant/search/policy.h"
#include "quant/weight_only/block.h"

namespace infer {

/// A layer whose precision can be chosen: a convolution or matrix product, or a table of
/// embeddings. What lies between follows: it is integer between integer layers.
struct SearchLayer {
  std::string key;   ///< the value that it makes in the prepared graph
  std::string name;  ///< of the node, or key
  std::string op;
  int64_t bytes = 0;                         ///< of weights and bias in f32
  std::map<Precision, std::string> refused;  ///< why not
  bool Allows(Precision p) const { return !refused.count(p); }
};

using Instant = std::chrono::steady_clock::time_point;

/// How many of the first layers had their weights in blocks rounded at most so cheaply; those
/// behind `squares` are rounded to the nearest code.
struct RoundedLayers {
  int64_t data = 0;     ///< by calibration data, where that was to be
  int64_t squares = 0;  ///< or for the least squared error
  int64_t samples = 0;  ///< of those data
};

struct MixedOptions {
  std::vector<Precision> precisions{kPrecisions.begin(), kPrecisions.end()};
  /// Weights in blocks are rounded by calibration data (GPTQ and clipping, what errs least on rows
  /// held out), in layers that sum over at most so many inputs; else for the least squared error of
  /// the weights, which costs less. 0: none.
  int64_t data_depth = 1152;
  /// Calibration samples that are rounded by; fewer, kLeastDataSamples at least, where their runs
  /// would take more than half of what is left until `data_until`.
  int64_t data_samples = 128;
  static constexpr int64_t kLeastDataSamples = 16;
  /// Layers whose turn comes after `data_until` are rounded for the least squared error, those
  /// after `squares_until` to the nearest code; so are all that follow them.
  Instant data_until = Instant::max(), squares_until = Instant::max();
  std::optional<RoundedLayers> rounded = {};  ///< instead of times: as an interrupted search began
  std::function<void(int64_t done, int64_t total)> rounding = nullptr;
  /// Changes the weights of the prepared model before anything is calibrated (pruning); no grids.
  WeightChange change = nullptr;
};

struct MixedGraph {
  Graph graph;
  QuantizeReport report;
  /// Bytes of each layer's constants (weights, bias, scales), as MixedModel::layers().
  std::vector<int64_t> layer_bytes;
};

class WeightWriter;

class MixedModel {
 public:
  /// Calibrates every value that uniform INT8 rounds; those of any policy are among them.
  /// `options.scheme.include` and `exclude` say which layers may be anything but f32. Errors: as
  /// QuantizeStatic; Unsupported where there is no layer.
  static Result<MixedModel> Make(const Graph& g, const Samples& calibration, const Backend& backend,
                                 const QuantizeOptions& options, const MixedOptions& mixed = {});

  const Graph& prepared() const { return prepared_; }
  const std::vector<SearchLayer>& layers() const { return layers_; }  ///< topological order
  int FindLayer(const std::string& key) const;                        ///< or -1
  RoundedLayers rounded_layers() const { return rounded_layers_; }
  /// Values that uniform INT8 rounds, in topological order.
  const std::vector<std::string>& values() const { return values_; }

  /// Every layer that allows `p`; the others f32, with the reason.
  Policy Uniform(Precision p) const;
  /// `tagged`: fused_from of a layer's node also has "layer:INDEX", for profiles.
  /// InvalidArgument: a layer that does not exist, or a precision that it refuses.
  Result<MixedGraph> Apply(const Policy& policy, bool tagged = false) const;
  /// The prepared graph in which `value` alone is rounded as uniform INT8 does.
  Result<Graph> RoundOne(const std::string& value) const;

 private:
  explicit MixedModel(const Graph& g) : original_(g.Clone()), prepared_(g.Clone()) {}
  Status FindLayers(const QuantPlan& plan);
  Status CheckPolicy(const Policy& policy) const;
  /// Replaces the weights of layer `i`, which is `node` of a copy; what they take more bytes.
  Result<int64_t> WriteWeights(size_t i, Precision p, Node& node, WeightWriter& writer,
                               QuantizedLayer& told) const;
  /// That weights are rounded by; `seconds`: that calibrating took, of one sample.
  int64_t DataSamples(int64_t calibration, double seconds) const;
  Status RoundWeights(const Samples& calibration, double seconds, const Backend& backend);

  Graph original_, prepared_;
  QuantizeOptions options_;
  MixedOptions mixed_;
  /// By layer: weights in blocks are rounded once, not for every policy.
  std::map<std::pair<size_t, Precision>, RoundedWeights> rounded_;
  int64_t bytes_before_ = 0, samples_ = 0;
  RoundedLayers rounded_layers_;
  CalibrationTable table_;
  std::vector<SearchLayer> layers_;
  std::map<std::string, size_t> index_;
  std::vector<std::string> values_;
};

/// Bytes of all constants.
int64_t ConstantBytesOf(const Graph& g);

}  // namespace infer
