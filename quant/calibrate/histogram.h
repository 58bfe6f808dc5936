#pragma once
/// A streaming histogram whose contents depend only on the multiset of values seen, not on their
/// order or batching, in memory that does not grow with their number.
///
/// Law: bins are [i*w, (i+1)*w) for integers i, with w = 2^e. When a value falls outside the
/// window of kBins consecutive bins, w doubles and bins 2i and 2i+1 merge into i: exact, because
/// floor(floor(x/w)/2) = floor(x/(2w)). The final e is the smallest for which all values fit, which
/// is a function of min and max alone.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/calibrate/scan.h"

namespace infer {

class Histogram {
 public:
  static constexpr int kBins = 8192;

  /// Non-finite values are counted apart.
  void Add(std::span<const float> values) { Add(values, ScanValues(values)); }
  /// The same where ScanValues(values) is known.
  void Add(std::span<const float> values, const Scan& scan);

  int64_t count() const { return count_; }  ///< finite values
  int64_t non_finite() const { return non_finite_; }
  double min() const { return min_; }  ///< exact; 0 when count() is 0
  double max() const { return max_; }
  double bin_width() const;
  /// Bins that may be non-zero: [first_bin(), first_bin() + bins().size()).
  int64_t first_bin() const { return first_; }
  std::span<const int64_t> bins() const;
  /// Smallest x such that a fraction `p` of the values is <= x, within one bin width (linear inside
  /// the bin) and within [min(), max()]. Pre: count() > 0, 0 <= p <= 1.
  double Quantile(double p) const;
  /// The same of |x|. Bins are anchored at zero, so those of -x and x coincide.
  double MagnitudeQuantile(double p) const;
  /// Bytes held, whatever was seen.
  int64_t memory_bytes() const;

  /// Appends the state to `out`; Load takes it from the front of `in` again, and is false for bytes
  /// that no Save wrote.
  void Save(std::string& out) const;
  bool Load(std::string_view& in);

 private:
  void CountBlocks(std::span<const float> values);
  void Include(double lo, double hi);

  std::vector<int64_t> counts_;  // empty before the first value; kBins else
  int64_t first_ = 0;            // index of counts_[0]
  int exponent_ = 0;             // w = 2^exponent_
  double min_ = 0, max_ = 0;
  int64_t count_ = 0, non_finite_ = 0;
};

}  // namespace infer
