#include "quant/calibrate/range_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace infer {
namespace {

/// Half away from zero; a call-free stand-in for halves to even, which bins cannot tell apart.
double Round(double x) {
  return static_cast<double>(static_cast<int64_t>(x < 0 ? x - 0.5 : x + 0.5));
}

/// The codes that QuantizeLinear knows: it saturates at the type's ends, not at the grid's.
struct Codes {
  explicit Codes(const QuantParams& p)
      : scale(static_cast<double>(p.scale[0])),
        lowest(static_cast<double>(IntegerMin(p.dtype) - p.zero_point[0])),
        highest(static_cast<double>(IntegerMax(p.dtype) - p.zero_point[0])) {}
  double scale, lowest, highest;
};

Interval Within(const Interval& seen, double lo, double hi) {
  return {std::min(std::max(seen.lo, lo), seen.hi), std::max(std::min(seen.hi, hi), seen.lo)};
}

constexpr int kSteps = 64;  // of a search over one end
constexpr int kFine = kSteps / 2;
constexpr double kFinest = 64;  // ranges are at least 1 / kFinest of what was seen
/// Below an eighth the bins would be too few for the codes to spread over.
constexpr int kDivergenceSteps = 128, kLeastDivergenceStep = 16;

}  // namespace

BinnedValues::BinnedValues(const Histogram& h)
    : width_(h.bin_width()), count_(static_cast<double>(h.count())), seen_{h.min(), h.max()} {
  const auto bins = h.bins();
  for (size_t k = 0; k < bins.size(); ++k) {
    if (bins[k] == 0) continue;
    const int64_t i = h.first_bin() + static_cast<int64_t>(k);
    const double middle = (static_cast<double>(i) + 0.5) * width_;
    const bool zero = i == 0 && h.min() >= 0;
    bins_.push_back(
        {zero ? 0 : std::clamp(middle, h.min(), h.max()), static_cast<double>(bins[k])});
  }
}

double BinnedValues::SquaredError(const QuantParams& p) const {
  const Codes codes(p);
  const double inverse = 1 / codes.scale;
  const double even = codes.scale * codes.scale / 12;
  const bool wide = width_ * 8 > codes.scale && width_ > std::ldexp(1, -149);
  double sum = 0;
  for (const Bin& b : bins_) {
    const double at = std::clamp(b.x * inverse, codes.lowest - 1, codes.highest + 1);
    const double q = std::clamp(Round(at), codes.lowest, codes.highest);
    const double e = b.x - q * codes.scale;
    const bool inside = at >= codes.lowest && at <= codes.highest;
    sum += b.count * (wide && inside && b.x != 0 ? std::max(e * e, even) : e * e);
  }
  return sum / count_;
}

double BinnedValues::Divergence(const QuantParams& p) const {
  const Codes codes(p);
  const double low = (codes.lowest - 0.5) * codes.scale, high = (codes.highest + 0.5) * codes.scale;
  const auto holds_zero = [&](const Bin& b) { return std::fabs(b.x) <= width_ * 0.5; };
  const auto first = std::find_if(bins_.begin(), bins_.end(), [&](auto& b) { return b.x >= low; });
  const auto last = std::find_if(first, bins_.end(), [&](auto& b) { return b.x > high; });
  if (first == last) return std::numeric_limits<double>::infinity();
  double below = 0, above = 0, kept = 0;
  for (auto b = bins_.begin(); b != first; ++b) below += b->count;
  for (auto b = last; b != bins_.end(); ++b) above += b->count;
  double sum = 0, whole = 0;
  for (auto b = first; b != last;) {
    const double code = Round(b->x / codes.scale);
    auto end = b;
    double together = 0, bins = 0;
    for (; end != last && Round(end->x / codes.scale) == code; ++end) {
      if (holds_zero(*end)) continue;
      together += end->count;
      bins += 1;
    }
    for (; b != end; ++b) {
      if (holds_zero(*b)) continue;
      const double is = b->count + (b == first ? below : 0) + (b + 1 == last ? above : 0);
      sum += is * std::log(is * bins / together);
      whole += is;
    }
    kept += together;
  }
  if (whole == 0) return 0;  // all numbers are zero
  return sum / whole + std::log(kept / whole);
}

Interval LeastSquaresRange(const BinnedValues& values, const QuantGrid& grid) {
  const Interval seen = values.seen();
  Interval best = seen;
  double least = values.SquaredError(ChooseParams(seen, grid));
  const auto consider = [&](const Interval& r) {
    const double e = values.SquaredError(ChooseParams(r, grid));
    if (e >= least) return;
    least = e;
    best = r;
  };
  // Coarse over both ends together, by equal ratios.
  const double magnitude = std::max(std::fabs(seen.lo), std::fabs(seen.hi));
  for (int k = 1; k <= kSteps; ++k) {
    const double by = std::pow(kFinest, -static_cast<double>(k) / kSteps);
    if (grid.symmetric)
      consider(Within(seen, -magnitude * by, magnitude * by));
    else
      consider(Within(seen, seen.lo * by, seen.hi * by));
  }
  // Then finer, and where the grid allows each end by itself.
  for (const double reach : {0.5, 0.1}) {
    const Interval from = best;
    const double at = std::max(std::fabs(from.lo), std::fabs(from.hi));
    for (int k = 1; k <= kFine; ++k) {
      const double step = reach * k / kFine;
      for (const double by : {1 - step, 1 + step}) {
        if (grid.symmetric) {
          consider(Within(seen, -at * by, at * by));
        } else if (from.lo < 0) {
          consider(Within(seen, from.lo * by, best.hi));
        }
      }
    }
    const Interval then = best;
    for (int k = 1; k <= kFine && !grid.symmetric; ++k) {
      const double step = reach * k / kFine;
      for (const double by : {1 - step, 1 + step})
        if (then.hi > 0) consider(Within(seen, best.lo, then.hi * by));
    }
  }
  return best;
}

Interval FromZero(const BinnedValues& values, const Interval& range, const QuantGrid& grid) {
  Interval best{0, range.hi};
  double least = values.SquaredError(ChooseParams(best, grid));
  constexpr int kEachWay = 10;
  for (int k = -kEachWay; k <= kEachWay; ++k) {
    const Interval r{0, std::min(range.hi * (1 + 0.05 * k / kEachWay), values.seen().hi)};
    const double e = values.SquaredError(ChooseParams(r, grid));
    if (e >= least) continue;
    least = e;
    best = r;
  }
  return best;
}

Interval LeastDivergenceRange(const BinnedValues& values, const QuantGrid& grid) {
  const Interval seen = values.seen();
  const double magnitude = std::max(std::fabs(seen.lo), std::fabs(seen.hi));
  Interval best = seen;
  double least = values.Divergence(ChooseParams(seen, grid));
  for (int k = kLeastDivergenceStep; k < kDivergenceSteps; ++k) {
    const double t = magnitude * k / kDivergenceSteps;
    const Interval r = Within(seen, -t, t);
    const double d = values.Divergence(ChooseParams(r, grid));
    if (d >= least) continue;
    least = d;
    best = r;
  }
  return best;
}

}  // namespace infer
