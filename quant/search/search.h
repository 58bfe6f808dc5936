#pragma once
/// The search: builds the layer database, solves for the Pareto front, and verifies points of it by
/// running them. Everything measured goes through a store, so a search that was killed goes on.
#include <chrono>
#include <functional>
#include <optional>

#include "quant/accuracy/gate.h"
#include "quant/search/mixed_model.h"
#include "quant/search/score.h"
#include "quant/search/solver.h"

namespace infer {

/// What the search tries to make small, within the limits.
enum class SearchGoal { kLatency, kSize };

struct SearchOptions {
  SearchGoal goal = SearchGoal::kLatency;
  /// Accuracy that the result must keep on the judge's samples. None: at most the error of uniform
  /// INT8 as it was measured.
  GateLimits limits;
  std::optional<int64_t> max_bytes;     ///< of all constants
  std::optional<ErrorMeasure> measure;  ///< default: KL with labels, else noise
  /// For one-at-a-time scores, or fewer to keep the deadline; verification takes all.
  int64_t layer_samples = 32;
  int front_points = 6;    ///< so many points of the front are verified besides
  double timing_ms = 60;   ///< of one comparison of two whole models; of points 4 times that
  bool per_value = false;  ///< also score every activation tensor by itself
  std::vector<Precision> precisions{kPrecisions.begin(), kPrecisions.end()};
  Instant deadline = Instant::max();
  std::function<Instant()> now = std::chrono::steady_clock::now;
  int threads = 0;
  std::stop_token stop = {};
  Progress progress = nullptr;  ///< measurements done and planned
};

/// One precision of one layer.
struct LayerOption {
  Precision precision = Precision::kF32;
  bool measured = false;  ///< false: time was up
  Score score;            ///< only this layer, f32 elsewhere
  LayerCost cost;
  /// Time was up, and the error is an equal share of what the uniform policy errs beyond its
  /// measured layers. What is chosen by it is verified by running it.
  bool estimated = false;
  bool usable() const { return measured || estimated; }
};

struct LayerRecord {
  SearchLayer layer;
  std::vector<LayerOption> options;  ///< f32 first
  const LayerOption* Find(Precision p) const;
};

/// A policy with what was predicted and what running it gave.
struct FrontPoint {
  std::string name;  ///< "uniform int8", "front", "chosen"
  Policy policy;
  LayerCost predicted;            ///< of the whole model
  int64_t bytes = 0;              ///< of all constants of the graph
  Score score;                    ///< on all samples of the judge
  std::optional<double> ms = {};  ///< of the whole model as it runs
  bool verified = false;
  bool within_limits = false;
  /// Uniform policies than which it is no larger, no slower (within what measuring tells apart)
  /// and errs no more, and is better in one.
  std::vector<std::string> beats = {};
};

struct ValueScore {
  std::string name;
  Score score;
};

struct SearchResult {
  ErrorMeasure measure = ErrorMeasure::kNoise;
  std::vector<LayerRecord> layers;
  std::vector<ValueScore> values;  ///< with per_value
  /// Inner values of uniform INT8 against those of f32 by name, golden's order, 16 samples at most:
  /// what errors add up to, where the layers tell what each brings.
  std::vector<ValueAccuracy> accumulated;
  std::vector<FrontPoint> uniform;  ///< every precision alone
  std::vector<FrontPoint> front;    ///< verified points, by bytes
  FrontPoint chosen;
  int64_t measured = 0;  ///< in this run
  int64_t reused = 0;    ///< found in the store
  int64_t skipped = 0;   ///< because time was up
  std::vector<std::string> warnings;
};

/// Pre: `judge` was made of the graph that `model` was made of. Errors: Cancelled; what a store or
/// a program gives. A result that keeps the limits always exists: f32 does.
Result<SearchResult> SearchPolicy(const MixedModel& model, const Judge& judge,
                                  const Backend& backend, const SearchOptions& options,
                                  MeasurementStore& store);

/// Whether `limits` has one on outputs.
bool LimitsOutputs(const GateLimits& limits);
/// Whether `score` keeps `limits`, as it was measured: intervals are the gates'.
bool Keeps(const Score& score, const GateLimits& limits);

}  // namespace infer
