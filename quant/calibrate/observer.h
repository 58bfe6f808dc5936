#pragma once
/// Observers watch the numbers of one value over the calibration data and choose the range that
/// quantization should cover. They know numbers, not graphs, and hold constant memory.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/support/status.h"
#include "quant/calibrate/histogram.h"
#include "quant/scheme/quant_params.h"
#include "runtime/api/program.h"

namespace infer {

/// A range that an observer weighed.
struct RangeCandidate {
  std::string observer;  ///< whose range it is: "minmax", "percentile:99.99"
  Interval range;
  double error = 0;  ///< mean squared error of all numbers seen, rounding and clipping
};

struct ObservedRange {
  Interval range;
  std::string observer = {};                    ///< whose it is, where there was a choice
  std::vector<RangeCandidate> candidates = {};  ///< among which; "auto" only
};

class Observer {
 public:
  virtual ~Observer() = default;
  /// One run's elements. NaN and infinities are counted and otherwise ignored. By the lanes of the
  /// thread, and the same for any number of them.
  void See(std::span<const float> values);
  /// The same of a value in the layout that it has. Pre: it is f32.
  void See(const RawValue& value);

  int64_t count() const { return count_; }  ///< finite values seen
  int64_t non_finite() const { return non_finite_; }
  Interval seen() const { return seen_; }  ///< exact minimum and maximum; [0, 0] for none
  /// The range to cover with `grid`; lies within seen(). InvalidModel when no finite value was
  /// seen.
  Result<ObservedRange> Choose(const QuantGrid& grid) const;
  /// What was seen, where the observer keeps it.
  virtual const Histogram* histogram() const { return nullptr; }
  virtual int64_t memory_bytes() const = 0;

  /// What kind of state Save writes; observers of equal states may take each other's.
  virtual std::string state() const = 0;
  void Save(std::string& out) const;
  bool Load(std::string_view& in);  ///< false for bytes that no Save of this state wrote

 protected:
  /// Some elements of a run, `scan` being theirs; called only when one is finite.
  virtual void Update(std::span<const float>, const Scan&) {}
  /// A run is over in which a finite element was; `range` is theirs.
  virtual void EndRun(const Interval&) {}
  virtual ObservedRange Range(const QuantGrid& grid) const = 0;  ///< Pre: count() > 0
  virtual void SaveMore(std::string&) const {}
  virtual bool LoadMore(std::string_view&) { return true; }

 private:
  void SeePart(std::span<const float> values, Scan& run);
  void End(const Scan& run);

  int64_t count_ = 0, non_finite_ = 0;
  Interval seen_;
};

/// What makes the observer of one value.
using ObserverFactory = std::function<std::unique_ptr<Observer>()>;

/// [min, max] of everything seen.
ObserverFactory MinMaxObserver();
/// Cuts (100 - percentile)/2 percent of the values at each end; a symmetric grid cuts
/// (100 - percentile) percent of the magnitudes. 100 is min-max. Pre: 50 < percentile <= 100.
ObserverFactory PercentileObserver(double percentile);
/// Exponential moving average of each run's minimum and maximum (arXiv 1712.05877, section 3.1):
/// r <- momentum * r + (1 - momentum) * run, first run as it is. Depends on the order of samples.
/// Pre: 0 <= momentum < 1.
ObserverFactory MovingAverageObserver(double momentum);

/// LeastDivergenceRange and LeastSquaresRange of range_search.h.
ObserverFactory EntropyObserver();
ObserverFactory MseObserver();
/// Of the ranges of "minmax", "percentile:99.999", "percentile:99.99", "entropy" and "mse" the one
/// with the least mean squared error of all numbers seen.
ObserverFactory AutoObserver();

/// "minmax", "percentile[:99.99]", "moving-average[:0.9]", "entropy", "mse", "auto".
/// InvalidArgument lists what there is.
Result<ObserverFactory> ParseObserver(std::string_view text);

}  // namespace infer
