#include "runtime/engine/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <new>
#include <utility>

#include "lib/support/status.h"

namespace infer::engine {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

std::atomic<int64_t> recorded_bytes_of_all{0};

}  // namespace

int64_t Histogram::RecordedBytes() { return recorded_bytes_of_all.load(kRelaxed); }

Histogram::~Histogram() {
  recorded_bytes_of_all.fetch_sub(recorded_bytes_.load(kRelaxed), kRelaxed);
  for (auto& p : powers_) delete p.load(kRelaxed);
}

Histogram::Histogram(Histogram&& o) noexcept { Swap(o); }

Histogram& Histogram::operator=(Histogram o) noexcept {
  Swap(o);
  return *this;
}

void Histogram::Swap(Histogram& o) noexcept {
  for (size_t p = 0; p < kPowers; ++p) o.powers_[p] = powers_[p].exchange(o.powers_[p].load());
  o.count_ = count_.exchange(o.count_);
  o.overflow_ = overflow_.exchange(o.overflow_);
  o.recorded_bytes_ = recorded_bytes_.exchange(o.recorded_bytes_);
}

/// The counts that are there behind this call: `made`, or another thread's that was first.
Histogram::Counts& Histogram::Install(size_t power, Counts* made) {
  Counts* there = nullptr;
  if (powers_[power].compare_exchange_strong(there, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *there;
}

Histogram::Counts& Histogram::At(size_t power) {
  Counts* there = powers_[power].load(std::memory_order_acquire);
  return there ? *there : Install(power, new Counts());
}

/// Null where kMostBytes are taken, or the system has no memory.
Histogram::Counts* Histogram::AtWithinLimit(size_t power) noexcept {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Counts));
  if (Counts* there = powers_[power].load(std::memory_order_acquire)) return there;
  const bool fits = recorded_bytes_of_all.fetch_add(kBytes, kRelaxed) + kBytes <= kMostBytes;
  Counts* made = fits ? new (std::nothrow) Counts() : nullptr;
  Counts* there = made ? &Install(power, made) : nullptr;
  if (there && there == made)
    recorded_bytes_.fetch_add(kBytes, kRelaxed);
  else
    recorded_bytes_of_all.fetch_sub(kBytes, kRelaxed);
  return there;
}

void Histogram::Record(int64_t value) noexcept {
  const auto v = static_cast<uint64_t>(std::max<int64_t>(value, 0));
  const int beyond = std::max(static_cast<int>(std::bit_width(v)) - kBits, 0);
  const uint64_t place = beyond > 1 ? v >> (beyond - 1) : v;
  Counts* counts = value > kMost ? nullptr : AtWithinLimit(static_cast<size_t>(beyond));
  if (!counts) {
    overflow_.fetch_add(1, kRelaxed);
    return;
  }
  (*counts)[place % kPerPower].fetch_add(1, kRelaxed);
  count_.fetch_add(1, kRelaxed);
}

void Histogram::Merge(const Histogram& other) {
  int64_t merged = 0;
  for (size_t p = 0; p < kPowers; ++p) {
    const Counts* from = other.powers_[p].load(std::memory_order_acquire);
    if (!from) continue;
    Counts& to = At(p);
    for (size_t i = 0; i < from->size(); ++i) {
      const int64_t n = (*from)[i].load(kRelaxed);
      if (n > 0) to[i].fetch_add(n, kRelaxed);
      merged += n;
    }
  }
  count_.fetch_add(merged, kRelaxed);
  overflow_.fetch_add(other.overflow(), kRelaxed);
}

void Histogram::Clear() {
  for (auto& p : powers_)
    if (Counts* counts = p.load(std::memory_order_acquire))
      for (auto& n : *counts) n.store(0, kRelaxed);
  count_ = overflow_ = 0;
}

double Histogram::ValueAt(int64_t k) const {
  int64_t below = 0;
  for (size_t p = 0; p < kPowers; ++p) {
    const Counts* counts = powers_[p].load(std::memory_order_acquire);
    for (size_t i = 0; counts && i < counts->size(); ++i) {
      below += (*counts)[i].load(kRelaxed);
      if (below <= k) continue;
      if (p < 2) return static_cast<double>(p * kPerPower + i);
      const auto width = static_cast<double>(int64_t{1} << (p - 1));
      return static_cast<double>(kPerPower + static_cast<int64_t>(i)) * width + (width - 1) / 2;
    }
  }
  return 0;
}

double Histogram::Quantile(double q) const {
  const int64_t n = count();
  if (n == 0) return 0;
  const auto rank = static_cast<int64_t>(std::ceil(q * static_cast<double>(n))) - 1;
  return ValueAt(std::clamp<int64_t>(rank, 0, n - 1));
}

int64_t Histogram::bytes() const {
  int64_t total = sizeof *this;
  for (const auto& p : powers_)
    total += p.load(kRelaxed) ? static_cast<int64_t>(sizeof(Counts)) : 0;
  return total;
}

bool Histogram::operator==(const Histogram& o) const {
  if (count() != o.count() || overflow() != o.overflow()) return false;
  static const Counts kEmpty = {};
  for (size_t p = 0; p < kPowers; ++p) {
    const Counts *a = powers_[p].load(), *b = o.powers_[p].load();
    if (!std::equal((a ? a : &kEmpty)->begin(), (a ? a : &kEmpty)->end(),
                    (b ? b : &kEmpty)->begin(),
                    [](const auto& x, const auto& y) { return x.load() == y.load(); }))
      return false;
  }
  return true;
}

}  // namespace infer::engine
