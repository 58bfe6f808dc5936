#pragma once
/// The layer database: error, bytes and time of every precision of every layer.
///
/// Error: the layer alone, f32 elsewhere. Time: where INT8 is among the precisions, that of the
/// uniform INT8 model is what costs are counted from. A layer that leaves the integers is timed
/// there, as a whole model, so that the changes of type around it are in its cost; and so is each
/// pair of neighbours, which share such a change (ChainTerms). What precisions that compute in f32
/// differ by comes from profiles of uniform models.
#include "quant/search/latency.h"
#include "quant/search/measuring.h"

namespace infer {

struct LayerDatabase {
  std::vector<LayerRecord> layers;
  ChainTerms chain;
  int64_t other_bytes = 0;  ///< constants of no layer
  double other_ms = 0;      ///< of uniform INT8 (f32 without it): steps of no layer

  /// Costs of the options that were measured, in their order.
  std::vector<std::vector<LayerCost>> Costs() const;
  ChainTerms Chain() const;  ///< of those options
  LayerCost TotalOf(const Policy& policy) const;
  /// Errors of what there was no time to score, from policies that are uniform in one precision.
  void EstimateUnscored(const std::vector<FrontPoint>& uniform, ErrorMeasure measure);
};

class DatabaseBuilder {
 public:
  DatabaseBuilder(Measuring& measuring, const Backend& backend, SearchResult& result)
      : m_(measuring), backend_(backend), result_(result) {}
  Result<LayerDatabase> Build();
  /// Time of the model with `policy`, in ms; nullopt when time is up.
  Result<std::optional<double>> WholeTime(const std::string& key, const Policy& policy,
                                          double until, double times = 1);
  /// Samples that a point of the front is verified on: all, or fewer to keep the deadline.
  Result<int64_t> SamplesPerPoint();

 private:
  void PlanLayers();
  Status MeasureBytes();
  Status MeasureTimes();
  Result<std::optional<Numbers>> ProfileUniform(Precision p, double until);
  /// By layer: what the integer model takes more with it in f32, and with 8-bit weights, which
  /// integer kernels may take between integer layers and only leave the result as it is.
  struct NearTimes {
    std::vector<std::optional<double>> f32, stored;
  };
  Result<NearTimes> MeasureAlone(const std::vector<size_t>& order);
  Status MeasurePairs(const NearTimes& near, const std::vector<size_t>& order);
  /// In the neighbourhood of integer layers.
  Status MeasureNear(const std::vector<std::vector<double>>& own);
  Result<LatencyProbe*> Probe();
  Status MeasureErrors();
  Status MeasureError(const std::string& key, LayerOption& option, int64_t samples, double until);
  /// Those that matter most for bytes and time come first: it is what is measured if time runs out.
  std::vector<size_t> ImportantFirst() const;
  Result<int64_t> SamplesPerLayer();
  /// How many samples score one model in so many seconds.
  Result<double> SamplesIn(double seconds);
  /// What the integer model takes more with these layers in `p`.
  Result<std::optional<double>> MoreWith(const std::string& key, Precision p,
                                         std::initializer_list<size_t> at, double until);

  Measuring& m_;
  const Backend& backend_;
  SearchResult& result_;
  LayerDatabase db_;
  std::optional<LatencyProbe> probe_;
  std::vector<size_t> classes_;  ///< TimeClasses: one layer is timed for all of its class
  double base_ms_ = 0, f32_ms_ = 0;
};

}  // namespace infer
