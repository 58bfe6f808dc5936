#include "tools/infer_bench/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lib/support/status.h"

namespace infer::bench {
namespace {

constexpr int kBits = 7;
constexpr uint64_t kPerPower = uint64_t{1} << kBits;
constexpr double kNsPerMs = 1e6;
constexpr double kMostNs = 9e18;

size_t BucketOf(uint64_t ns) {
  if (ns < 2 * kPerPower) return ns;
  const int shift = static_cast<int>(std::bit_width(ns)) - kBits - 1;
  return static_cast<size_t>(shift) * kPerPower + (ns >> shift);
}

double MiddleNs(size_t bucket) {
  if (bucket < 2 * kPerPower) return static_cast<double>(bucket);
  const uint64_t shift = bucket / kPerPower - 1;
  const double first =
      std::ldexp(static_cast<double>(bucket - shift * kPerPower), static_cast<int>(shift));
  return first + std::ldexp(1.0, static_cast<int>(shift)) / 2;
}

}  // namespace

void Histogram::Add(double ms) {
  const double ns = std::clamp(std::round(ms * kNsPerMs), 0.0, kMostNs);
  const size_t bucket = BucketOf(static_cast<uint64_t>(ns));
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
  ++count_;
}

double Histogram::ValueAt(int64_t k) const {
  INFER_CHECK(k >= 0 && k < count_);
  size_t bucket = 0;
  for (int64_t below = buckets_[0]; below <= k; below += buckets_[bucket]) ++bucket;
  return MiddleNs(bucket) / kNsPerMs;
}

}  // namespace infer::bench
