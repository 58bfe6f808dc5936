#include "quant/calibrate/histogram.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "lib/support/parallel.h"
#include "lib/support/status.h"
#include "quant/calibrate/number_loops.h"
#include "quant/calibrate/state.h"

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

void Histogram::CountBlocks(std::span<const float> values) {
  constexpr size_t kWorthTables = size_t{4} * kBins;  // else clearing and summing them costs more
  const NumberLoops& loops = TheNumberLoops();
  const BinWindow window{std::ldexp(1.0f, -exponent_), static_cast<int32_t>(first_)};
  std::mutex mutex;
  const auto count = [&](size_t begin, size_t end) {
    thread_local std::vector<uint32_t> tables;
    tables.assign(size_t{2} * kBins, 0);
    loops.count(values.data() + begin, end - begin, window, tables.data());
    const std::lock_guard lock(mutex);
    for (size_t k = 0; k < counts_.size(); ++k)
      counts_[k] += int64_t{tables[k]} + int64_t{tables[kBins + k]};
  };
  const size_t parts = values.size() / kWorthTables;
  if (parts < 2 || CurrentLanes() < 2) return count(0, values.size());
  ParallelFor(static_cast<int64_t>(parts), 1, [&](int64_t begin, int64_t end) {
    const auto at = [&](int64_t part) {
      return static_cast<size_t>(part) == parts ? values.size()
                                                : static_cast<size_t>(part) * kWorthTables;
    };
    count(at(begin), at(end));
  });
}

void Histogram::Add(std::span<const float> values, const Scan& scan) {
  non_finite_ += scan.non_finite;
  if (scan.finite == 0) return;
  const bool any = count_ > 0;
  Include(any ? std::min(min_, scan.range.lo) : scan.range.lo,
          any ? std::max(max_, scan.range.hi) : scan.range.hi);
  count_ += scan.finite;
  // Indices that f32 and int32 hold exactly, and widths by which dividing cannot underflow.
  constexpr int64_t kExact = int64_t{1} << 24;
  const bool blocks = values.size() >= static_cast<size_t>(kBins) && scan.non_finite == 0 &&
                      exponent_ <= 0 && exponent_ >= -126 && first_ > -kExact &&
                      first_ + kBins < kExact && values.size() < (size_t{1} << 32);
  if (blocks) return CountBlocks(values);
  const double inverse = std::ldexp(1.0, -exponent_);  // exact: a power of two
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    const double scaled = static_cast<double>(v) * inverse;
    auto bin = static_cast<int64_t>(scaled);  // towards zero; a call-free floor
    if (static_cast<double>(bin) > scaled) --bin;
    ++counts_[static_cast<size_t>(bin - first_)];
  }
}

void Histogram::Save(std::string& out) const {
  PutNumber(out, static_cast<uint64_t>(count_));
  PutNumber(out, static_cast<uint64_t>(non_finite_));
  if (count_ == 0) return;
  PutDouble(out, min_);
  PutDouble(out, max_);
  for (const int64_t n : bins()) PutNumber(out, static_cast<uint64_t>(n));
}

bool Histogram::Load(std::string_view& in) {
  *this = Histogram();
  uint64_t count = 0, non_finite = 0;
  if (!TakeNumber(in, count) || !TakeNumber(in, non_finite)) return false;
  non_finite_ = static_cast<int64_t>(non_finite);
  if (count == 0) return true;
  double lo = 0, hi = 0;
  if (!TakeDouble(in, lo) || !TakeDouble(in, hi) || !std::isfinite(lo) || !std::isfinite(hi) ||
      lo > hi)
    return false;
  Include(lo, hi);
  const size_t used = bins().size();
  uint64_t sum = 0;
  for (size_t k = 0; k < used; ++k) {
    uint64_t n = 0;
    if (!TakeNumber(in, n)) return false;
    counts_[k] = static_cast<int64_t>(n);
    sum += n;
  }
  count_ = static_cast<int64_t>(count);
  return sum == count;
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
