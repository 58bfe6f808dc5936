#pragma once
/// Latencies in bounded memory: a log-linear histogram, 128 buckets to each power of two.
#include <cstdint>
#include <vector>

namespace infer::bench {

/// Of nanoseconds up to 2^63. A value read back is within 0.4 % of the one that was added.
class Histogram {
 public:
  void Add(double ms);
  int64_t count() const { return count_; }
  /// The k-th smallest of what was added, from 0. Pre: 0 <= k < count().
  double ValueAt(int64_t k) const;

 private:
  std::vector<int64_t> buckets_;
  int64_t count_ = 0;
};

}  // namespace infer::bench
