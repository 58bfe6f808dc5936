#pragma once
/// The error of a candidate against the f32 model on samples that no algorithm fits itself to: what
/// a recipe decides by.
#include <span>

#include "quant/calibrate/calibrate.h"
#include "quant/recipe/cost_table.h"

namespace infer {

/// Of the outputs that a model is judged by (JudgedOutputs): caches of what others are computed
/// from do not count, since an error in them is seen in those.
struct HeldOutError {
  /// Mean over the outputs of sum d^2 / sum r^2 (r golden, d
  /// difference); for outputs that are no floats the share of elements that differ. An output whose
  /// NaN or infinities differ counts 1 more.
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
  int64_t rows = 0;            ///< rows of class scores; 0: output 0 has none
  bool probabilities = false;  ///< all of them are not negative and sum to 1
  /// Of the rows that have a label: how many only golden and only the candidate got right, and the
  /// loss of accuracy that is expected. Computed like `flips`: golden's answer less the chance that
  /// the label stays or becomes the best class, so that rows near a decision count on both sides.
  int64_t labelled = 0, lost = 0, gained = 0;
  double drop = 0, drop_error = 0;  ///< with its standard error
  double others_sure_worst = 0;     ///< `sure_worst` of the outputs but output 0; 0: there are none
  double worst_of_all = 0;          ///< `worst` of all outputs, caches too
  double us = 0;                    ///< of a run, by HeldOut::Options::costs
};
/// Whether `after` is less than `before`: by more than a hundredth, and for at least half of the
/// samples, so that it is not the luck of a few.
bool IsLess(const HeldOutError& after, const HeldOutError& before);
/// Whether `a` is in no respect that a target asks for worse than `b`, on the same samples.
bool IsNoWorse(const HeldOutError& a, const HeldOutError& b);
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
    const CostTable* costs = &CostTable::BuiltIn();  ///< lives as long
    const CostTable* elsewhere = nullptr;            ///< of ONNX Runtime: ModelCost::elsewhere_us
    FileReader reader = {};                          ///< of the tables of ONNX Runtime
    WorkClock* clock = nullptr;  ///< told what is compiled and run; lives as long
  };
  /// Runs `golden` once over the samples and keeps its outputs. InvalidArgument: no samples.
  static Result<HeldOut> Make(const Graph& golden, Samples samples, const Backend& backend,
                              const Options& options);
  int64_t count() const { return static_cast<int64_t>(golden_.size()); }
  /// On the first `most` samples (0: all).
  Result<HeldOutError> Measure(const Graph& candidate, int64_t most = 0) const;
  /// Costs of a run and the file of `g`, by the table: of our kernels one run is made for it; of
  /// the first sample.
  Result<ModelCost> CostOf(const Graph& g) const;
  /// Of a run of `g` by Options::elsewhere; 0 where there is none.
  Result<double> ElsewhereMicroseconds(const Graph& g) const;

 private:
  Samples samples_;
  const Backend* backend_ = nullptr;
  Options options_;
  void Spend(const Program& program, double run_us, int64_t runs) const;
  /// Of `g`, by the table. Pre: `t` is of `g`, and has run.
  Result<double> MicrosecondsOf(const Graph& g, const TappedProgram& t) const;

  std::vector<std::vector<Datum>> golden_;
  std::vector<bool> is_judged_;               ///< by output: it counts
  std::vector<std::vector<int64_t>> labels_;  ///< as golden_; empty: there are none
};

}  // namespace infer
