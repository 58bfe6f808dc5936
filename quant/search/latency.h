#pragma once
/// What whole programs, and layers in them, take beside a program that stays: in turns and in
/// blocks of runs, since a single run between those of another program finds cold caches.
#include <stop_token>

#include "quant/calibrate/calibrate.h"

namespace infer {

/// In shares of the time of the base program.
struct LayerTimes {
  double whole = 0;
  std::vector<double> layers;  ///< by the index in the tag "layer:INDEX" (MixedModel::Apply)
  double other = 0;            ///< steps without a layer: pools, additions, changes of type
};

class LatencyProbe {
 public:
  static Result<LatencyProbe> Make(const Graph& base, const std::vector<Datum>& inputs,
                                   const Backend& backend, int threads, double enough_ms,
                                   std::stop_token stop);
  double base_ms() const { return base_ms_; }
  /// How long a run of `g` takes. Low quantiles of both: other processes only add.
  Result<double> Ratio(Graph g, double times = 1);  ///< `times` as long as usual
  /// The same, and of profiled runs what each layer has of it. A step that computes several layers
  /// counts in equal parts. Pre: tagged.
  Result<LayerTimes> Layers(Graph g, size_t layers, double times = 1);

 private:
  LatencyProbe(const std::vector<Datum>& inputs, const Backend& backend, int threads,
               double enough_ms, std::stop_token stop)
      : inputs_(&inputs),
        backend_(&backend),
        threads_(threads),
        enough_ms_(enough_ms),
        stop_(std::move(stop)) {}
  Result<TappedProgram> Compiled(Graph g) const;
  /// A block of runs of `t`, the first of which is not counted. `steps`: by step, of profiled runs.
  Status Block(const TappedProgram& t, std::vector<double>* whole,
               std::vector<std::vector<double>>* steps) const;

  const std::vector<Datum>* inputs_;
  const Backend* backend_;
  int threads_;
  double enough_ms_;  ///< of both sides together
  std::stop_token stop_;
  TappedProgram base_;
  double base_ms_ = 0;
};

}  // namespace infer
