#pragma once
/// The error of a candidate against the f32 model on samples that no algorithm fits itself to: what
/// a recipe decides by.
#include <span>

#include "quant/calibrate/calibrate.h"

namespace infer {

struct HeldOutError {
  /// Mean over the outputs of sum d^2 / sum r^2 (r golden, d difference); for outputs that are no
  /// floats the share of elements that differ. An output whose NaN or infinities differ counts 1
  /// more.
  double noise = 0;
  double worst = 0;  ///< the largest of them
  /// By sample: the same mean with d of the sample and r of all samples; their mean is `noise`.
  std::vector<double> by_sample;
  /// What `worst` will hardly exceed on other samples: the largest upper end of its one-sided 95 %
  /// interval (jackknife over the samples, of the logarithm, Student's t). At most four times
  /// `worst`; twice, where there are fewer than three samples and no spread can be seen.
  double sure_worst = 0;
  /// Where output 0 has class scores (one row of numbers per sample): the share of rows whose best
  /// class is expected to change. Counting few samples says little, so it is computed: the error of
  /// best less second, root mean square over the half of the rows where they are nearest, against
  /// each row's own distance, as if errors were normal. Of probabilities the logarithms are taken.
  double flips = 0;
};
/// Whether `after` is less than `before`: by more than a hundredth, and for at least half of the
/// samples, so that it is not the luck of a few.
bool IsLess(const HeldOutError& after, const HeldOutError& before);
/// The upper end of that interval for sum(noise) / sum(signal). Pre: equally many of both, signals
/// not all 0.
double UpperBound(std::span<const double> noise, std::span<const double> signal);
/// 10 log10(1 / noise).
double Decibels(double noise);

class HeldOut {
 public:
  struct Options {
    int threads = 0;
    int64_t max_samples = 128;
    int64_t max_bytes = int64_t{128} << 20;  ///< of golden outputs kept; fewer samples beyond
    std::stop_token stop = {};
  };
  /// Runs `golden` once over the samples and keeps its outputs. InvalidArgument: no samples.
  static Result<HeldOut> Make(const Graph& golden, Samples samples, const Backend& backend,
                              const Options& options);
  int64_t count() const { return static_cast<int64_t>(golden_.size()); }
  /// On the first `most` samples (0: all).
  Result<HeldOutError> Measure(const Graph& candidate, int64_t most = 0) const;

 private:
  Samples samples_;
  const Backend* backend_ = nullptr;
  Options options_;
  std::vector<std::vector<Datum>> golden_;
};

}  // namespace infer
