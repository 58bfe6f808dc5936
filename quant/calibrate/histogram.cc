#include "quant/calibrate/histogram.h"

#include <algorithm>
#include <cmath>

#include "lib/support/status.h"

namespace infer {
namespace {

/// Where the running count reaches `wanted`, linear inside the bin; bin k starts at (first + k) *
/// w.
double QuantileOf(std::span<const int64_t> bins, double wanted, int64_t first, double w) {
  double below = 0;
  for (size_t k = 0; k < bins.size(); ++k) {
    const double here = static_cast<double>(bins[k]);
    const double left = static_cast<double>(first + static_cast<int64_t>(k)) * w;
    if (here > 0 && below + here >= wanted) return left + w * (wanted - below) / here;
    below += here;
  }
  return static_cast<double>(first + static_cast<int64_t>(bins.size())) * w;
}

int64_t BinOf(double x, int exponent) {
  return static_cast<int64_t>(std::floor(std::ldexp(x, -exponent)));
}

/// Smallest e with which [lo, hi] spans at most kBins bins and indices are exact in a double. Every
/// f32 is a multiple of 2^-149, so a smaller e says nothing more.
int SmallestExponent(double lo, double hi) {
  const double extent = std::max({hi - lo, std::fabs(lo), std::fabs(hi)});
  if (extent == 0) return -149;
  // hi - lo >= (kBins + 1) * w never fits; start where it might.
  const int reach = std::ilogb(std::max(std::fabs(lo), std::fabs(hi))) - 51;
  const int span = hi > lo ? std::ilogb((hi - lo) / Histogram::kBins) - 1 : -149;
  int e = std::max({-149, reach, span});
  while (BinOf(hi, e) - BinOf(lo, e) >= Histogram::kBins) ++e;
  return e;
}

}  // namespace

double Histogram::bin_width() const { return std::ldexp(1.0, exponent_); }

std::span<const int64_t> Histogram::bins() const {
  if (counts_.empty()) return {};
  const int64_t used = BinOf(max_, exponent_) - first_ + 1;
  return {counts_.data(), static_cast<size_t>(used)};
}

int64_t Histogram::memory_bytes() const {
  return static_cast<int64_t>(sizeof(*this) + counts_.capacity() * sizeof(int64_t));
}

void Histogram::Include(double lo, double hi) {
  const int e = SmallestExponent(lo, hi);
  const int64_t first = BinOf(lo, e);
  if (counts_.empty()) {
    counts_.assign(kBins, 0);
  } else if (e != exponent_ || first != first_) {
    // Old bin i covers part of new bin floor(i / 2^shift) and nothing else.
    std::vector<int64_t> moved(kBins, 0);
    const int64_t old_used = BinOf(max_, exponent_) - first_ + 1;
    for (int64_t k = 0; k < old_used; ++k) {
      const double left = std::ldexp(static_cast<double>(first_ + k), exponent_);
      moved[static_cast<size_t>(BinOf(left, e) - first)] += counts_[static_cast<size_t>(k)];
    }
    counts_ = std::move(moved);
  }
  exponent_ = e;
  first_ = first;
  min_ = lo;
  max_ = hi;
}

void Histogram::Add(std::span<const float> values) {
  double lo = min_, hi = max_;
  bool any = count_ > 0;
  for (const float v : values) {
    if (!std::isfinite(v)) {
      ++non_finite_;
      continue;
    }
    const double d = static_cast<double>(v);
    lo = any ? std::min(lo, d) : d;
    hi = any ? std::max(hi, d) : d;
    any = true;
  }
  if (!any) return;
  Include(lo, hi);
  const double inverse = std::ldexp(1.0, -exponent_);  // exact: a power of two
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    const double scaled = static_cast<double>(v) * inverse;
    auto bin = static_cast<int64_t>(scaled);  // towards zero; a call-free floor
    if (static_cast<double>(bin) > scaled) --bin;
    ++counts_[static_cast<size_t>(bin - first_)];
    ++count_;
  }
}

double Histogram::Quantile(double p) const {
  INFER_CHECK(count_ > 0 && p >= 0 && p <= 1);
  const auto b = bins();
  return std::clamp(QuantileOf(b, p * static_cast<double>(count_), first_, bin_width()), min_,
                    max_);
}

double Histogram::MagnitudeQuantile(double p) const {
  INFER_CHECK(count_ > 0 && p >= 0 && p <= 1);
  const auto b = bins();
  const auto fold = [](int64_t i) { return i < 0 ? -i - 1 : i; };
  const int64_t last = first_ + static_cast<int64_t>(b.size()) - 1;
  const int64_t low = first_ <= 0 && last >= -1 ? 0 : std::min(fold(first_), fold(last));
  std::vector<int64_t> folded(static_cast<size_t>(std::max(fold(first_), fold(last)) - low + 1), 0);
  for (size_t k = 0; k < b.size(); ++k)
    folded[static_cast<size_t>(fold(first_ + static_cast<int64_t>(k)) - low)] += b[k];
  const double x = QuantileOf(folded, p * static_cast<double>(count_), low, bin_width());
  const double least = min_ <= 0 && max_ >= 0 ? 0 : std::min(std::fabs(min_), std::fabs(max_));
  return std::clamp(x, least, std::max(std::fabs(min_), std::fabs(max_)));
}

}  // namespace infer
