#pragma once
/// Counts of values in buckets of equal relative width: 128 to each power of two. A value read back
/// is within 0.4 % of the one that was recorded, and histograms merge without loss, in any order
/// and with the same bits.
///
/// Memory comes with the values: 1 KB for each power of two that occurs, and for what is recorded
/// at most kMostBytes in the process. Record may be called by many threads at once, also while
/// others read.
#include <array>
#include <atomic>
#include <cstdint>

namespace infer::engine {

class Histogram {
 public:
  /// Larger values (nanoseconds: 104 days) are only counted. Negative ones count as 0.
  static constexpr int64_t kMost = (int64_t{1} << 53) - 1;

  /// Of all histograms of the process together, for values that Record took.
  static constexpr int64_t kMostBytes = int64_t{64} << 20;
  static int64_t RecordedBytes();  ///< of kMostBytes, taken now

  Histogram() = default;
  ~Histogram();
  Histogram(const Histogram& o) : Histogram() { Merge(o); }
  Histogram(Histogram&& o) noexcept;
  Histogram& operator=(Histogram o) noexcept;

  /// A value for whose power of two there is no memory counts as overflow.
  void Record(int64_t value) noexcept;
  void Merge(const Histogram& other);  ///< may throw std::bad_alloc; kMostBytes does not bind it
  /// Counts become 0, memory stays. What is recorded meanwhile may be lost.
  void Clear();

  int64_t count() const { return count_.load(std::memory_order_relaxed); }  ///< without overflow
  /// Values above kMost, and those for which there was no memory.
  int64_t overflow() const { return overflow_.load(std::memory_order_relaxed); }
  /// The k-th smallest recorded value, from 0: the middle of its bucket. Pre: 0 <= k < count().
  double ValueAt(int64_t k) const;
  /// The smallest value that a share `q` does not exceed; 0 of an empty histogram.
  double Quantile(double q) const;
  int64_t bytes() const;
  bool operator==(const Histogram& o) const;  ///< the same counts

 private:
  static constexpr int kBits = 7;
  static constexpr int64_t kPerPower = int64_t{1} << kBits;
  static constexpr size_t kPowers = 53 - kBits + 1;
  using Counts = std::array<std::atomic<int64_t>, kPerPower>;

  Counts& At(size_t power);
  Counts* AtWithinLimit(size_t power) noexcept;
  Counts& Install(size_t power, Counts* made);
  void Swap(Histogram& o) noexcept;

  std::array<std::atomic<Counts*>, kPowers> powers_ = {};
  std::atomic<int64_t> count_{0}, overflow_{0};
  std::atomic<int64_t> recorded_bytes_{0};  // of RecordedBytes(), given back with the histogram
};

}  // namespace infer::engine
