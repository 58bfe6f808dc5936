#include "runtime/engine/batch_curve.h"

#include <algorithm>

namespace infer::engine {
namespace {

constexpr double kAsGood = 1.03, kTrialShare = 0.01;

}  // namespace

void BatchCurve::Ran(int64_t rows, int64_t ns) {
  if (rows < 1 || ns < 1) return;
  spent_ns_ = rows > Fewest(rows) ? 0 : spent_ns_ + static_cast<double>(ns);
  const auto at = ns_.find(rows);
  if (at != ns_.end())
    at->second += (static_cast<double>(ns) - at->second) / 8;
  else if (ns_.size() < kMostPoints)
    ns_.emplace(rows, static_cast<double>(ns));
}

int64_t BatchCurve::RunNs(int64_t rows) const {
  if (ns_.empty()) return 0;
  const auto above = ns_.lower_bound(rows);
  if (above == ns_.begin()) return static_cast<int64_t>(above->second);
  const auto below = std::prev(above);
  const auto n = static_cast<double>(rows), x = static_cast<double>(below->first);
  if (above == ns_.end()) return static_cast<int64_t>(below->second / x * n);
  const double share = (n - x) / (static_cast<double>(above->first) - x);
  return static_cast<int64_t>(below->second + share * (above->second - below->second));
}

double BatchCurve::PerRow(int64_t rows) const {
  return static_cast<double>(RunNs(rows)) / static_cast<double>(rows);
}

int64_t BatchCurve::Fewest(int64_t most) const {
  const auto end = ns_.upper_bound(most);
  if (end == ns_.begin()) return 1;
  double best = PerRow(ns_.begin()->first);
  for (auto p = ns_.begin(); p != end; ++p) best = std::min(best, PerRow(p->first));
  return std::find_if(ns_.begin(), end,
                      [&](const auto& p) { return PerRow(p.first) <= kAsGood * best; })
      ->first;
}

int64_t BatchCurve::WorthRows(int64_t most) const {
  const int64_t worth = Fewest(most), more = std::min(2 * worth, most);
  const auto end = ns_.upper_bound(most);
  if (end == ns_.begin() || more == worth) return worth;
  const int64_t largest = std::prev(end)->first;
  if (largest == worth) return more;  // more was always better, and is not measured yet
  const double cost = (PerRow(more) - PerRow(worth)) * static_cast<double>(more);
  return cost <= kTrialShare * spent_ns_ ? more : worth;
}

BatchAdvice Advise(const BatchCurve& curve, const Waiters& w, int64_t now_ns, int64_t most) {
  using By = BatchAdvice::By;
  BatchAdvice a{.rows = most};
  if (const int64_t worth = curve.WorthRows(most); worth < most) a = {worth, By::kCurve};
  if (w.earliest_deadline_ns != kNever) {
    const auto in_time = [&](int64_t rows) {
      return curve.RunNs(rows) <= w.earliest_deadline_ns - now_ns;
    };
    int64_t rows = std::min(a.rows, std::max<int64_t>(w.rows, 1));
    const int64_t wanted = rows;
    while (rows > 1 && !in_time(rows)) --rows;
    // Who is late anyway does not hold the others up.
    if (rows < wanted && in_time(rows)) a = {rows, By::kDeadline};
  }
  a.run_ns = curve.RunNs(std::min(a.rows, std::max<int64_t>(w.rows, 1)));
  return a;
}

}  // namespace infer::engine
