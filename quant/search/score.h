#pragma once
/// How far a candidate's outputs are from the golden model's, on a few samples whose golden
/// outputs are computed once.
#include <chrono>
#include <stop_token>

#include "quant/accuracy/compare.h"
#include "quant/search/store.h"

namespace infer {

struct Score {
  double noise = 0;  ///< noise over signal, mean of the float outputs: 1 / SQNR
  double kl = 0;     ///< mean over rows of the first output that has rows
  double loss = 0;   ///< with labels: mean cross-entropy, candidate - golden
  // What gates limit, each of the output that is worst in it.
  double worst_noise = 0;
  double cosine = 1;
  double error_ratio = 0;  ///< max|d| / max|golden|
  double agreement = 1;    ///< of rows, with the same top-1 class
  double mismatches = 0;   ///< elements of all outputs that are NaN or infinite on one side
  double drop = 0;         ///< with labels: top-1, (lost - gained) / samples
  double sqnr_db() const;  ///< of the worst output
  Numbers numbers() const;
  /// InvalidModel: a number is missing; they were stored by another version.
  static Result<Score> From(const Numbers& n);
};

/// Which number of a score layers are ranked by. All of them add up over layers nearly, as long as
/// they are small.
enum class ErrorMeasure { kNoise, kKl, kLoss };
double ErrorOf(const Score& s, ErrorMeasure m);

class Judge {
 public:
  /// Runs the first `count` of `samples` through `golden` at level 0. Memory: their inputs and
  /// golden outputs.
  /// Past `until` only the first kLeastSamples are run.
  static Result<Judge> Make(
      const Graph& golden, const Samples& samples, int64_t count, const Backend& backend,
      int threads, std::stop_token stop,
      std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());
  static constexpr int64_t kLeastSamples = 16;
  double golden_seconds() const { return golden_seconds_; }  ///< of one sample
  int64_t samples() const { return static_cast<int64_t>(inputs_.size()); }
  bool has_labels() const { return !labels_.empty(); }
  /// Of the first `count` samples (0: all), compiled as it would run.
  Result<Score> Of(Graph candidate, int64_t count = 0) const;
  /// Inner values of `candidate` against those of `golden`, on 16 samples at most.
  Result<std::vector<ValueAccuracy>> Layers(const Graph& golden, const Graph& candidate) const;
  const std::vector<Datum>& inputs(int64_t i) const { return inputs_[static_cast<size_t>(i)]; }

 private:
  Judge(const Backend& backend, int threads, std::stop_token stop)
      : backend_(&backend), threads_(threads), stop_(std::move(stop)) {}
  const Backend* backend_;
  int threads_;
  std::stop_token stop_;
  std::vector<std::vector<Datum>> inputs_, golden_;
  std::vector<std::vector<int64_t>> labels_;
  double golden_seconds_ = 0;
};

}  // namespace infer
